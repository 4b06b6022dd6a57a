"""Our data classes are those of the standard library: every one of the package, and small ones with every option."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import subprocess
import sys
from dataclasses import InitVar, field
from typing import Any, ClassVar

import pytest

from populace.records import dataclass

OPTIONS = [
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False, "repr": False},
    {"slots": True, "kw_only": True},
    {},
]


def body() -> Any:
    """Return a plain class with every kind of field, new every time."""

    class Point:
        """A point."""

        many: ClassVar[int] = 3
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list, hash=False)
        note: str = field(default="", compare=False, repr=False)
        length: int = field(init=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", abs(self.x) + abs(self.y))

    return Point


class Shape:
    """A base with an order of its own."""

    def __lt__(self, other: object) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Pinned(Shape):
    x: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Longer(Pinned):
    z: int = 0
    x: int = 5


def both(**options: Any) -> tuple[Any, Any]:
    return dataclass(**options)(body()), dataclasses.dataclass(**options)(body())


def tried(act: Any) -> object:
    """Return what an act gives, or which error it raises."""
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_behaves_as_the_standard_one(options: dict[str, bool]) -> None:
    acts = (
        lambda cls: repr(cls(x=1)).replace("object at", "") if options.get("repr", True) else "",
        lambda cls: cls(x=1, y=3, names=["a"]).length,
        lambda cls: cls(x=1).names is cls(x=1).names,
        lambda cls: cls(x=1) == cls(x=1),
        lambda cls: cls(x=1) == cls(x=2),
        lambda cls: cls(x=1, note="a") == cls(x=1, note="b"),
        lambda cls: cls(x=1) == 1,
        lambda cls: hash(cls(x=1, names=["a"])) == hash(cls(x=1, names=["b"])),
        lambda cls: cls.__hash__ is None,
        lambda cls: setattr(cls(x=1), "x", 4),
        lambda cls: delattr(cls(x=1), "x"),
        lambda cls: hasattr(cls(x=1), "__dict__"),
        lambda cls: cls.__match_args__,
        lambda cls: cls.__name__ + cls.__qualname__ + cls.__doc__,
        lambda cls: inspect.signature(cls).replace(return_annotation=None),
        lambda cls: dataclasses.replace(cls(x=1), y=9).length,
        lambda cls: dataclasses.asdict(cls(x=1)),
        lambda cls: [each.name for each in dataclasses.fields(cls)],
        lambda cls: dataclasses.is_dataclass(cls),
        lambda cls: copy.deepcopy(cls(x=1, names=["a"])).names,
        lambda cls: sorted(getattr(cls, "__slots__", ())),
        lambda cls: cls.many,
    )
    ours, theirs = both(**options)
    for act in acts:
        assert str(tried(lambda: act(ours))) == str(tried(lambda: act(theirs)))  # noqa: B023


def test_wrong_calls_are_refused_in_the_same_words() -> None:
    ours, theirs = both(frozen=True, slots=True, kw_only=True)
    for wrong in ((), (1,)):
        assert tried(lambda: ours(*wrong)) == tried(lambda: theirs(*wrong))  # noqa: B023
    assert tried(lambda: ours(x=1, q=2)) == tried(lambda: theirs(x=1, q=2))


def test_classes_inherit_fields_and_stay_frozen() -> None:
    longer = Longer(names=("a",), z=2)
    assert repr(longer) == "Longer(x=5, names=('a',), z=2)"
    assert (longer.x, Longer.__slots__) == (5, ("z",))
    assert longer != Pinned(5, ("a",))
    assert pickle.loads(pickle.dumps(longer)) == longer == copy.copy(longer)  # noqa: S301
    for name in ("x", "z", "unheard_of"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(longer, name, 1)


def test_a_standard_class_may_extend_ours() -> None:
    @dataclasses.dataclass(frozen=True)
    class More(Pinned):
        w: int = 1

    assert [each.name for each in dataclasses.fields(More)] == ["x", "names", "w"]
    assert More(3).w == 1


def test_a_record_in_itself_is_told_once() -> None:
    @dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


@pytest.mark.parametrize(
    "kind", ["InitVar[int]", "KW_ONLY", "dataclasses.InitVar[int]", InitVar[int]], ids=str
)
def test_what_is_not_known_is_refused(kind: object) -> None:
    with pytest.raises(TypeError, match=r"Odd\.x is (InitVar|KW_ONLY)"):
        dataclass(type("Odd", (), {"__annotations__": {"x": kind}}))


def test_a_default_that_can_be_changed_is_refused() -> None:
    with pytest.raises(ValueError, match="use default_factory"):
        dataclass(type("Odd", (), {"__annotations__": {"x": "list"}, "x": []}))


@dataclass(frozen=True)
class Frozen:
    x: int = 0


@dataclass
class Open:
    x: int = 0


@dataclasses.dataclass(frozen=True)
class Standard:
    x: int = 0


@pytest.mark.parametrize(
    ("options", "bases", "body", "words"),
    [
        ({}, (Standard,), {}, "another making"),
        ({}, (Frozen,), {}, "frozen"),
        ({"frozen": True}, (Open,), {}, "frozen"),
        ({"frozen": True}, (), {"__setattr__": object.__setattr__}, "__setattr__"),
        ({"frozen": True}, (), {"__delattr__": object.__delattr__}, "__delattr__"),
        ({"slots": True}, (), {"__slots__": ("x",)}, "__slots__"),
        ({}, (), {"x": field(default=1)}, "without a type"),
        ({}, (Open,), {"__annotations__": {"x": "ClassVar[int]"}}, "a field of a base"),
    ],
)
def test_what_would_be_another_class_is_refused(
    options: dict[str, bool], bases: tuple[type, ...], body: dict[str, object], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        dataclass(**options)(type("Odd", bases, body))


def test_a_base_with_one_slot_is_read_as_one() -> None:
    class Base:
        __slots__ = "name"

    made: Any = dataclass(slots=True)(type("Made", (Base,), {"__annotations__": {"n": "int", "name": "str"}}))
    assert made.__slots__ == ("n",)
    assert made(1, "a").name == "a"


def test_copies_with_changes() -> None:
    assert Pinned(1).__replace__(x=2) == Pinned(2) == dataclasses.replace(Pinned(1), x=2)
    assert dataclasses.fields(
        dataclass(type("M", (), {"__annotations__": {"x": "int"}, "x": field(metadata={"a": 1})}))
    )[0].metadata == {"a": 1}


DESCRIBE = """
import dataclasses, importlib, inspect, json, pkgutil, sys
if sys.argv[1] == "standard":
    module = type(sys)("populace.records")
    module.dataclass = dataclasses.dataclass
    sys.modules["populace.records"] = module
import populace
METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__")
found = {}
for module in pkgutil.walk_packages(populace.__path__, "populace."):
    if module.name in ("populace.__main__", "populace.records"):
        continue
    for name, each in vars(importlib.import_module(module.name)).items():
        if inspect.isclass(each) and each.__module__ == module.name and "__dataclass_fields__" in vars(each):
            fields = [
                [f.name, str(f.type), f.init, f.repr, f.hash, f.compare, f.kw_only, type(f.default).__name__,
                 getattr(f.default_factory, "__qualname__", "none")]
                for f in dataclasses.fields(each)
            ]
            found[f"{module.name}.{name}"] = [
                fields,
                str(inspect.signature(each)),
                each.__match_args__,
                sorted(vars(each).get("__slots__", ())),
                each.__hash__ is None,
                [method for method in METHODS if method in vars(each)],
                [each.__eq__ is object.__eq__, each.__repr__ is object.__repr__],
            ]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_class_of_the_package_is_what_the_standard_decorator_makes_of_it() -> None:
    ours, theirs = (
        json.loads(
            subprocess.run([sys.executable, "-c", DESCRIBE, made], check=True, capture_output=True).stdout
        )
        for made in ("ours", "standard")
    )
    assert len(ours) > 200
    assert set(ours) == set(theirs)
    for name, described in ours.items():
        assert described == theirs[name], name


@pytest.mark.parametrize("make", [dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("slots", [False, True])
def test_hidden_fields_count_and_uncompared_ones_do_not(make: Any, slots: bool) -> None:
    @make(frozen=True, slots=slots)
    class Point:
        x: int
        shy: int = field(default=0, repr=False)
        note: str = field(default="", compare=False)

    assert Point(1, shy=1) != Point(1, shy=2)
    assert hash(Point(1, shy=1)) != hash(Point(1, shy=2))
    assert Point(1, note="a") == Point(1, note="b")
    assert len({Point(1, note="a"), Point(1, note="b")}) == 1
