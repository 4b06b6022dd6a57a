"""Columns: which values may occur, and which code each of them has.

Every column lays its codes out alike::

    0 … levels − 1      the domain: values, or bins of numbers or dates
    levels …            the user-missing codes, in the order declared
    …                   the code of rows outside the column's universe, if it has one
    size − 1            everything else, unless `other` names a code that exists already

A column is plain data. `codec` turns values into codes and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.columns.value_types import ValueType
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import quote_names

Key = tuple[str, ...]


class Origin(StrEnum):
    """Where a public domain comes from; the privacy statement repeats it."""

    CODEBOOK = "codebook"
    DECLARED = "declared"
    LEARNT = "learnt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ABC):
    """What all columns share: a name, special codes, and how it hangs together with other columns.

    The empty text stands for an empty cell (null). Without `other`, whatever lies outside becomes one.
    """

    ordered: ClassVar[bool] = True
    """Whether neighbouring codes are neighbouring values."""
    unknown: ClassVar[bool] = False
    """Whether the domain still has to be learnt from the rows, with budget."""
    learnable: ClassVar[bool] = False
    """Whether such a domain may have been learnt."""

    name: str
    missing: tuple[str, ...] = ()
    other: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    origin: Origin = Origin.DECLARED
    universe: str | None = None
    """The rows that have a value here, as an expression; all others have `outside`."""
    outside: str | None = None
    function_of: tuple[str, ...] = ()
    """The columns that this one follows from, by `map`."""
    parent: str | None = None
    """The column that follows from this one: by `map`, or because its values begin this column's."""
    map: Mapping[Key, str] = field(default_factory=dict, hash=False)
    type: ValueType | None = None
    """The type in which a release writes the values; by default the one that suits them."""
    label: str = ""
    """What the column is, in a few words, for reports and codebooks."""
    description: str = ""
    """More about it, such as the question that was asked."""
    key: bool = False
    """Whether others are tabulated by it: without a workload, its pairs matter more than others."""
    specials: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The texts of the codes after the domain; the empty text is an empty cell."""
    other_code: int = field(init=False, repr=False, compare=False)
    """The code of everything outside the domain."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of column, as schema files name it."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """The number of codes that stand for values of the domain."""

    @abstractmethod
    def level(self, text: str) -> int | None:
        """Return the code of the domain that a text falls into, or None."""

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.levels + len(self.specials)

    @property
    def outside_code(self) -> int | None:
        """The code of rows outside the universe, or None where all rows are in it."""
        return None if self.outside is None else self.levels + len(self.missing)

    @property
    def variables(self) -> tuple[Column, ...]:
        """The columns that are counted and modelled in place of this one: mostly itself."""
        return (self,)

    @property
    def domain_learnt(self) -> bool:
        """Whether the domain was learnt from the rows, or still has to be."""
        return self.unknown or self.origin is Origin.LEARNT

    @property
    def needs_learning(self) -> bool:
        """Whether anything about the column still has to be learnt from the rows, with budget."""
        return self.unknown

    def error(self, what: str, *, hint: str) -> SchemaError:
        """Return the refusal of the column for something that is wrong with it."""
        return SchemaError(f"column {self.name!r}{'' if what.startswith(':') else ' '}{what}", hint=hint)

    def code(self, text: str) -> int | None:
        """Return the code of a declared text: a special code, or the value or bin it falls into; else None."""
        if text in self.specials:
            return self.levels + self.specials.index(text)
        return self.level(text)

    def in_domain(self, texts: Iterable[str]) -> set[str]:
        """Return those of some texts that fall into the domain."""
        return {text for text in texts if self.level(text) is not None}

    def common_fields(self) -> dict[str, Any]:
        """Return what a column of another kind in this one's place would have in common with it."""
        return {each.name: getattr(self, each.name) for each in fields(Column) if each.init}

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "labels", dict(self.labels))
        object.__setattr__(self, "origin", Origin(self.origin))
        object.__setattr__(self, "function_of", tuple(self.function_of))
        object.__setattr__(self, "map", {tuple(key): self.map[key] for key in sorted(self.map)})
        self._check_texts()
        if not self.name.strip():
            raise SchemaError("a column has an empty name.", hint="name it as the file's header does")
        if self.origin is Origin.LEARNT and not self.learnable:
            raise self.error(
                f"is {self.kind}, whose domain is never learnt.",
                hint="write origin = 'codebook' or 'declared'",
            )
        self._check_domain()
        self._check_outside()
        self._place_other()
        self._check_specials()
        self._check_relations()
        self._check_type()
        if self.size > LIMITS.max_column_codes:
            raise self.error(
                f"has {self.size} codes; {LIMITS.max_column_codes} is the most.",
                hint="give it a width, or leave it out",
            )

    @abstractmethod
    def _check_domain(self) -> None: ...

    def _value_range(self) -> Iterable[Fraction | None]:
        """Return numbers between which all values lie, or all values; None stands for what is no number."""
        return (None,)

    def _check_type(self) -> None:
        """Refuse a type that cannot hold every value and special code."""
        if self.type is None or self.type is ValueType.TEXT:
            return
        words = [text for text in self.specials if text and not self.type.holds(parse_number(text))]
        if words or not all(self.type.holds(value) for value in self._value_range()):
            what = quote_names(words) if words else "every value of it"
            raise self.error(
                f": the type {self.type} cannot hold {what}.", hint="leave type out, or choose one that can"
            )

    def _check_texts(self) -> None:
        single = [text or "" for text in (self.name, self.other, self.universe, self.outside, self.parent)]
        listed = [*self.missing, *self.labels.values(), *self.function_of, self.label, self.description]
        check_texts(self.name, single + listed)
        check_texts(self.name, [part for key, value in self.map.items() for part in (*key, value)])

    def _check_outside(self) -> None:
        if (self.universe is None) != (self.outside is None):
            given, absent = ("universe", "outside") if self.outside is None else ("outside", "universe")
            raise self.error(
                f"has {given} without {absent}.",
                hint="universe says which rows have a value, outside what all other rows hold: give both",
            )
        if self.outside is None:
            return
        for clash, what in (
            (self.level(self.outside) is not None, "a value of it"),
            (self.outside in self.missing, "a missing code"),
            (self.outside == (self.other or ""), "what everything else becomes"),
        ):
            if clash:
                or_other = ", or name another `other`" if what.startswith("what") else ""
                raise self.error(
                    f": outside is {self.outside!r}, which is also {what}.",
                    hint=f"give rows outside the universe a code of their own{or_other}",
                )

    def _place_other(self) -> None:
        specials = self.missing if self.outside is None else (*self.missing, self.outside)
        other = self.other or ""
        level = self.level(other)
        if level is None and other not in specials:
            specials = (*specials, other)
        object.__setattr__(self, "specials", specials)
        object.__setattr__(
            self, "other_code", self.levels + specials.index(other) if level is None else level
        )

    def _check_specials(self) -> None:
        if duplicate := find_repeated(self.missing):
            raise self.error(
                f": missing code {quote_names(duplicate)} is declared twice.",
                hint="list each missing code once",
            )
        if values := self.in_domain(self.missing):
            raise self.error(
                f": missing code {quote_names(sorted(values))} is also a value.",
                hint="take it out of `missing`, or make the domain smaller",
            )
        if unknown := self.labels.keys() - set(self.specials) - self.in_domain(self.labels):
            raise self.error(
                f": label for {quote_names(sorted(unknown))}, which is not a value of it.",
                hint="label only values, missing codes, `outside` and `other`",
            )

    def _check_relations(self) -> None:
        """Refuse maps that do not fit the column, and relations that contradict each other."""
        if self.function_of:
            self._check_function()
        elif self.parent is not None:
            self._check_parent()
        elif self.map:
            raise self.error(
                "has a map without function_of or parent.",
                hint='name the columns it follows from: function_of = ["…"]',
            )

    def _check_function(self) -> None:
        if self.parent is not None or self.universe is not None or self.unknown:
            beside = (
                "parent" if self.parent is not None else "universe" if self.universe else "unknown values"
            )
            raise self.error(
                f"is a function of others and has {beside}.",
                hint="a function follows from its columns alone: say the rest in its map",
            )
        if self.name in self.function_of or find_repeated(self.function_of):
            raise self.error(
                f"is a function of {quote_names(self.function_of)}.",
                hint="name each column it follows from once, and not itself",
            )
        if not self.map:
            raise self.error(
                "is a function without a map.", hint='give map = "file.json", or map = { "source" = "value" }'
            )
        self._check_keys(len(self.function_of))
        if strange := sorted({text for text in self.map.values() if self.code(text) is None}):
            raise self.error(
                f": its map leads to {quote_names(strange)}, which is not a value of it.",
                hint="add it to the values, or correct the map",
            )

    def _check_parent(self) -> None:
        if self.parent == self.name:
            raise self.error("is its own parent.", hint="name the coarser column")
        self._check_keys(1)
        if self.unknown or self.origin is Origin.LEARNT:
            return
        if strange := sorted(text for (text,) in self.map if self.code(text) is None):
            raise self.error(
                f": its map begins at {quote_names(strange)}, which is not a value of it.",
                hint="the map goes from this column's values to the parent's",
            )

    def _check_keys(self, length: int) -> None:
        if strange := [key for key in self.map if len(key) != length]:
            raise self.error(
                f": its map has the key {quote_names(['|'.join(strange[0])])}"
                f" for {length} column{'s' * (length != 1)}.",
                hint='write one text per column: [["a", "b", "value"], …], or "a|b" = "value"',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalColumn(Column):
    """A column with a list of values, compared as text.

    >>> sex = CategoricalColumn(name="SEX", values=("1", "2"), missing=("R",))
    >>> sex.size, sex.other_code       # 1, 2, R and one code for everything else
    (4, 3)
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    learnable: ClassVar[bool] = True

    values: tuple[str, ...]
    places: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The position of each value."""

    @property
    def levels(self) -> int:
        """The number of values."""
        return len(self.values)

    def level(self, text: str) -> int | None:
        """Return the position of a value, or None."""
        return self.places.get(text)

    def _value_range(self) -> Iterable[Fraction | None]:
        return [parse_number(value) for value in self.values if value]

    def _check_type(self) -> None:
        Column._check_type(self)
        numbers = [str(parse_number(text)) for text in (*self.values, *self.specials) if text]
        if self.type not in (None, ValueType.TEXT) and (duplicate := find_repeated(numbers)):
            raise self.error(
                f": as {self.type}, {quote_names(duplicate)} occurs twice among its codes.",
                hint="write each number once, or leave type out",
            )

    def _check_domain(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        check_texts(self.name, self.values)
        if not self.values and self.origin is not Origin.LEARNT:
            raise self.error(
                "has no values.",
                hint='list its values, have them learnt with values = "learn", or leave the column out',
            )
        if duplicate := find_repeated(self.values):
            raise self.error(
                f": value {quote_names(duplicate)} is listed twice.", hint="list each value once"
            )
        object.__setattr__(self, "places", {value: place for place, value in enumerate(self.values)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinalColumn(CategoricalColumn):
    """A column with a list of values in their order, lowest first."""

    kind: ClassVar[str] = "ordinal"
    ordered: ClassVar[bool] = True
    learnable: ClassVar[bool] = False


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Refuse texts that cannot be written to a file."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SchemaError(
                f"column {name!r} holds half a character (a lone surrogate).",
                hint="write it as plain Unicode",
            ) from None


def find_repeated(texts: Sequence[str]) -> list[str]:
    """Return the texts that occur more than once."""
    return [text for text, times in Counter(texts).items() if times > 1]
