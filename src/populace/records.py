"""Data classes as the standard library makes them, in a fifth of the time.

The standard decorator writes and compiles the text of up to six methods for every class. A command loads more than a
hundred classes, which took a tenth of a second. Here only `__init__` is compiled; the other methods are the same few
functions for all classes. What is made is a data class to everybody else: `fields`, `replace` and `asdict` work.
"""

from __future__ import annotations

import dataclasses
import reprlib
from abc import update_abstractmethods
from collections.abc import Callable, Iterable
from inspect import get_annotations
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, slots=False, kw_only=False):  # noqa: A002
        """Make a class a data class, with these options of the standard decorator."""
        options = {"told": repr, "compared": eq, "frozen": frozen, "slots": slots, "kw_only": kw_only}
        return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)


_Fields = dict[str, "dataclasses.Field[Any]"]

# Where a class keeps its fields until somebody asks for them in the standard way.
_OURS, _FROZEN = "__populace_fields__", "__populace_frozen__"


class _Factory:
    """Stands, as the standard library's does, for a default that is made anew for every object."""

    def __repr__(self) -> str:
        return "<factory>"


_NEW = _Factory()


class _Standard:
    """An attribute that the standard library's functions ask a data class for, made when they do."""

    def __init__(self, name: str, *, frozen: bool) -> None:
        self._name = name
        self._frozen = frozen

    def __get__(self, instance: object, owner: type) -> object:
        own = next(base for base in owner.__mro__ if self._name in base.__dict__)
        columns = [(name, each.type, _plain(each)) for name, each in getattr(own, _OURS).items()]
        twin = dataclasses.make_dataclass(
            own.__name__, columns, init=False, repr=False, eq=False, frozen=self._frozen
        )
        found: object = getattr(twin, self._name)
        setattr(own, self._name, found)
        return found


def _made(cls: Any, *, told: bool, compared: bool, frozen: bool, slots: bool, kw_only: bool) -> Any:
    inherited: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in base.__dict__ and _OURS not in base.__dict__:
            raise TypeError(f"{cls.__name__} is based on {base.__name__}, a data class of another making")
        inherited |= base.__dict__.get(_OURS, {})
    fields = inherited | _own_fields(cls, kw_only=kw_only)
    _check(cls, inherited, fields, frozen=frozen, slots=slots)
    setattr(cls, _OURS, fields)
    setattr(cls, _FROZEN, frozen)
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, _Standard(name, frozen=frozen))
    new: dict[str, object] = {
        "__init__": _initialiser(cls, fields.values(), frozen=frozen, slots=slots),
        "__match_args__": tuple(each.name for each in fields.values() if each.init and not each.kw_only),
        "__replace__": _replaced,
    }
    if told:
        new["__repr__"] = _representation([each.name for each in fields.values() if each.repr])
    if compared:
        new["__eq__"] = _equality(_values(each.name for each in fields.values() if each.compare))
        if "__hash__" not in cls.__dict__ or (cls.__dict__["__hash__"] is None and "__eq__" in cls.__dict__):
            hashed = (e.name for e in fields.values() if (e.compare if e.hash is None else e.hash))
            cls.__hash__ = _hash(_values(hashed)) if frozen else None
    for name, value in new.items():
        if name not in cls.__dict__:
            setattr(cls, name, value)
    if slots:
        cls = _slotted(cls, fields, frozen=frozen)
    if frozen:
        _freeze(cls, frozenset(fields))
    return update_abstractmethods(cls)


def _check(cls: Any, inherited: _Fields, fields: _Fields, *, frozen: bool, slots: bool) -> None:
    """Refuse what the standard decorator refuses, and what it does otherwise than we would."""
    own = {"__setattr__", "__delattr__"} if frozen else set()
    own |= {"__slots__"} if slots else set()
    for name in sorted(own & set(cls.__dict__)):
        raise TypeError(f"{cls.__name__} defines {name} itself")
    for name, value in cls.__dict__.items():
        if isinstance(value, dataclasses.Field) and name not in fields:
            raise TypeError(f"{cls.__name__}.{name} is a field without a type")
    for base in cls.__mro__[1:]:
        if _OURS in base.__dict__ and base.__dict__[_FROZEN] != frozen:
            raise TypeError(f"one of {cls.__name__} and {base.__name__} is frozen and the other is not")
    for name in inherited:
        if name in get_annotations(cls) and fields[name] is inherited[name]:
            raise TypeError(f"{cls.__name__}.{name} is a field of a base")


def _own_fields(cls: Any, *, kw_only: bool) -> _Fields:
    found: _Fields = {}
    for name, kind in get_annotations(cls).items():
        word = str(kind).removeprefix("typing.").removeprefix("dataclasses.").partition("[")[0]
        if word == "ClassVar":
            continue
        if word in ("InitVar", "KW_ONLY"):
            raise TypeError(
                f"{cls.__name__}.{name} is {word}, which is not known here: write __init__ by hand"
            )
        given: Any = getattr(cls, name, dataclasses.MISSING)
        if not isinstance(given, dataclasses.Field):
            # What a base keeps in a slot is no default.
            given = dataclasses.field(
                default=dataclasses.MISSING if isinstance(given, MemberDescriptorType) else given
            )
        elif given.default is dataclasses.MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, given.default)
        if given.default.__class__.__hash__ is None:
            raise ValueError(f"the default of {cls.__name__}.{name} can be changed: use default_factory")
        given.name, given.type = name, kind
        given.kw_only = kw_only if given.kw_only is dataclasses.MISSING else given.kw_only
        found[name] = given
    return found


def _plain(each: dataclasses.Field[Any]) -> Any:
    """Return a field as its class declared it, for a class of the standard library's making."""
    return dataclasses.field(
        default=each.default,
        default_factory=each.default_factory,
        init=each.init,
        repr=each.repr,
        hash=each.hash,
        compare=each.compare,
        metadata=each.metadata,
        kw_only=each.kw_only,
    )


def _initialiser(
    cls: Any, fields: Iterable[dataclasses.Field[Any]], *, frozen: bool, slots: bool
) -> Callable[..., None]:
    names: dict[str, object] = {"_set": object.__setattr__, "_NEW": _NEW}
    places: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for each in fields:
        name, value = each.name, each.name
        default = ""
        if each.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = each.default, f"=_default_{name}"
        if each.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], default = each.default_factory, "=_NEW"
            value = f"_make_{name}() if {name} is _NEW else {name}" if each.init else f"_make_{name}()"
        if each.init:
            (keywords if each.kw_only else places).append(name + default)
        elif not default or (default != "=_NEW" and not slots):
            continue
        elif default != "=_NEW":
            value = f"_default_{name}"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    asked = ", ".join(["self", *places, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({asked}):\n  " + "\n  ".join(lines or ["pass"]), names)
    made: Any = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {each.name: each.type for each in fields if each.init} | {"return": None}
    return made  # type: ignore[no-any-return]


def _values(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads some fields as a tuple."""
    wanted = tuple(names)
    if len(wanted) > 1:
        return attrgetter(*wanted)
    return lambda record: tuple(getattr(record, name) for name in wanted)


def _representation(names: Iterable[str]) -> Callable[[Any], str]:
    shown = tuple(names)

    @reprlib.recursive_repr()
    def told(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{n}={getattr(self, n)!r}' for n in shown])})"

    return told


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _freeze(cls: Any, names: frozenset[str]) -> None:
    def refuse_value(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_removal(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = refuse_value, refuse_removal


def _slotted(cls: Any, fields: Iterable[str], *, frozen: bool) -> Any:
    """Return the class anew, with a slot for every field: slots cannot be added to a class that exists."""
    names = tuple(fields)
    listed = (base.__dict__.get("__slots__", ()) for base in cls.__mro__[1:-1])
    taken = {slot for slots in listed for slot in ((slots,) if isinstance(slots, str) else slots)}
    left_out = {*names, "__dict__", "__weakref__"}
    body = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    body["__slots__"] = tuple(name for name in names if name not in taken)
    if frozen:
        body.setdefault("__getstate__", _state)
        body.setdefault("__setstate__", _restore)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _replaced(self: Any, /, **changes: Any) -> Any:
    """What copy.replace asks for, from Python 3.13 on."""
    return dataclasses.replace(self, **changes)


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in getattr(self, _OURS)]


def _restore(self: Any, state: list[object]) -> None:
    for name, value in zip(getattr(self, _OURS), state, strict=True):
        object.__setattr__(self, name, value)
