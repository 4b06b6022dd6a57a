"""Columns: which values may occur, and which code each of them has.

Every column lays its codes out alike::

    0 … levels − 1      the domain: values, or bins of numbers
    levels …            the user-missing codes, in the order declared
    size − 1            everything else, unless `other` names a code that exists already

A column is plain data. `codec` turns values into codes and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

from populace.errors import SchemaError
from populace.schema.hints import listing
from populace.schema.numbers import WHOLE_LIMIT, decimal_text, exact, number

MOST_CODES = 2**32
MOST_BINS = 2**16


class Beyond(StrEnum):
    """Where a number outside [min, max] goes: to the nearest end, or to the code for everything else."""

    NEAREST = "nearest"
    OTHER = "other"


class Origin(StrEnum):
    """Where a public domain comes from; the privacy statement repeats it."""

    CODEBOOK = "codebook"
    DECLARED = "declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ABC):
    """What all columns share: a name, user-missing codes and a code for everything outside the domain.

    The empty text stands for an empty cell (null). Without `other`, whatever lies outside becomes one.
    """

    kind: ClassVar[str]
    ordered: ClassVar[bool] = True
    """Whether neighbouring codes are neighbouring values."""

    name: str
    missing: tuple[str, ...] = ()
    other: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    origin: Origin = Origin.DECLARED
    specials: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The texts of the codes after the domain; the empty text is an empty cell."""
    other_code: int = field(init=False, repr=False, compare=False)
    """The code of everything outside the domain."""

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

    def inside(self, texts: Iterable[str]) -> set[str]:
        """Return those of some texts that fall into the domain."""
        return {text for text in texts if self.level(text) is not None}

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "labels", dict(self.labels))
        object.__setattr__(self, "origin", Origin(self.origin))
        _check_texts(self.name, [self.name, *self.missing, self.other or "", *self.labels.values()])
        if not self.name.strip():
            raise SchemaError("a column has an empty name.", hint="name it as the file's header does")
        self._check_domain()
        self._place_other()
        self._check_specials()
        if self.size > MOST_CODES:
            raise SchemaError(
                f"column {self.name!r} has {self.size} codes; {MOST_CODES} is the most.",
                hint="give it a width, or leave it out",
            )

    @abstractmethod
    def _check_domain(self) -> None: ...

    def _place_other(self) -> None:
        outside = self.other or ""
        level = self.level(outside)
        known = level is not None or outside in self.missing
        specials = self.missing if known else (*self.missing, outside)
        object.__setattr__(self, "specials", specials)
        object.__setattr__(
            self, "other_code", self.levels + specials.index(outside) if level is None else level
        )

    def _check_specials(self) -> None:
        if repeated := _repeated(self.missing):
            raise SchemaError(
                f"column {self.name!r}: missing code {listing(repeated)} is declared twice.",
                hint="list each missing code once",
            )
        if inside := self.inside(self.missing):
            raise SchemaError(
                f"column {self.name!r}: missing code {listing(sorted(inside))} is also a value.",
                hint="take it out of `missing`, or make the domain smaller",
            )
        if unknown := self.labels.keys() - set(self.specials) - self.inside(self.labels):
            raise SchemaError(
                f"column {self.name!r}: label for {listing(sorted(unknown))}, which is no value of it.",
                hint="label only values, missing codes and `other`",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """A column with a list of values, compared as text.

    >>> sex = Categorical(name="SEX", values=("1", "2"), missing=("R",))
    >>> sex.size, sex.other_code       # 1, 2, R and one code for everything else
    (4, 3)
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False

    values: tuple[str, ...]

    @property
    def levels(self) -> int:
        """The number of values."""
        return len(self.values)

    def level(self, text: str) -> int | None:
        """Return the position of a value, or None."""
        return self.values.index(text) if text in self.values else None

    def inside(self, texts: Iterable[str]) -> set[str]:
        """Return those of some texts that are values."""
        return set(self.values).intersection(texts)

    def _check_domain(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        _check_texts(self.name, self.values)
        if not self.values:
            raise SchemaError(
                f"column {self.name!r} has no values.", hint="list its values, or leave the column out"
            )
        if repeated := _repeated(self.values):
            raise SchemaError(
                f"column {self.name!r}: value {listing(repeated)} is listed twice.",
                hint="list each value once",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Categorical):
    """A column with a list of values in their order, lowest first."""

    kind: ClassVar[str] = "ordinal"
    ordered: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Column):
    """A column of whole numbers from min to max, one code for each or one for each bin.

    `starts` holds the first number of each bin; the last bin ends at max.

    >>> Integer(name="AGEP", min=0, max=99, other="0").size
    100
    >>> Integer(name="AGEP", min=0, max=99, starts=(0, 18, 65)).bounds(1)
    (18, 64)
    """

    kind: ClassVar[str] = "integer"

    min: int
    max: int
    starts: Sequence[int] = ()
    beyond: Beyond = Beyond.NEAREST

    @property
    def levels(self) -> int:
        """The number of bins, or of whole numbers."""
        return len(self.starts)

    @property
    def binned(self) -> bool:
        """Whether some code stands for more than one number."""
        return self.levels != self.max - self.min + 1

    def level(self, text: str) -> int | None:
        """Return the bin of a number in [min, max], or None."""
        value = number(text)
        if value is None or value.denominator != 1 or not self.min <= value <= self.max:
            return None
        return bisect_right(self.starts, int(value)) - 1

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first and the last number of a bin."""
        last = self.starts[level + 1] - 1 if level + 1 < self.levels else self.max
        return self.starts[level], last

    def _check_domain(self) -> None:
        _check_range(self.name, self.min, self.max)
        if max(abs(self.min), abs(self.max)) >= WHOLE_LIMIT:
            raise SchemaError(
                f"column {self.name!r} reaches beyond 2**53, where numbers are no longer exact.",
                hint="declare such long numbers as categorical, or leave the column out",
            )
        starts = self.starts if len(self.starts) > 0 else range(self.min, self.max + 1)
        if starts[0] != self.min or starts[-1] > self.max or not _climbs(starts):
            raise SchemaError(
                f"column {self.name!r}: its bins do not climb from {self.min} to {self.max}.",
                hint="give increasing edges, the first equal to min and the last to max",
            )
        object.__setattr__(self, "starts", _as_range(starts, stop=self.max + 1))

    def _check_specials(self) -> None:
        _check_numbers(self)
        Column._check_specials(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(Column):
    """A column of numbers in bins: each holds its lower edge, the last one also its upper edge.

    >>> Numeric(name="DENSITY", edges=(Fraction(0), Fraction(1, 2), Fraction(10))).level("0.5")
    1
    """

    kind: ClassVar[str] = "numeric"

    edges: tuple[Fraction, ...]
    beyond: Beyond = Beyond.NEAREST

    @property
    def levels(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    def level(self, text: str) -> int | None:
        """Return the bin of a number between the outer edges, or None."""
        value = number(text)
        if value is None or not float(self.edges[0]) <= float(value) <= float(self.edges[-1]):
            return None
        # Compared as floats, as the rows are.
        return min(bisect_right(self.edges, float(value), key=float), self.levels) - 1

    def _check_domain(self) -> None:
        edges = tuple(exact(edge) for edge in self.edges)
        finite = tuple(edge for edge in edges if edge is not None)
        if len(finite) < len(edges) or any(decimal_text(edge) is None for edge in finite):
            raise SchemaError(
                f"column {self.name!r} has an edge that is not a finite decimal number.",
                hint="write edges as decimals, such as 0.5",
            )
        if len(finite) < 2:
            raise SchemaError(
                f"column {self.name!r} has {len(finite)} edges.",
                hint="give at least two: one bin lies between",
            )
        if len(finite) - 1 > MOST_BINS:
            raise SchemaError(
                f"column {self.name!r} has {len(finite) - 1} bins; {MOST_BINS} is the most.",
                hint='give a larger width, or kind = "integer" for whole numbers',
            )
        if any(float(b) <= float(a) for a, b in pairwise(finite)):
            raise SchemaError(
                f"column {self.name!r}: its edges do not increase.",
                hint="sort them, write each once, and keep them further apart than floats can tell",
            )
        object.__setattr__(self, "edges", finite)

    def _check_specials(self) -> None:
        _check_numbers(self)
        Column._check_specials(self)


def width_edges(name: str, *, low: Fraction, high: Fraction, width: Fraction) -> tuple[Fraction, ...]:
    """Return the edges of bins of one width from low to high; the last bin may be narrower.

    >>> [str(edge) for edge in width_edges("x", low=Fraction(0), high=Fraction(5), width=Fraction(2))]
    ['0', '2', '4', '5']
    """
    _check_range(name, low, high)
    if low == high:
        raise SchemaError(f"column {name!r}: min and max are both {low}.", hint="a bin needs min < max")
    if width <= 0:
        raise SchemaError(f"column {name!r} has width {width}.", hint="give a width above zero")
    bins = -((low - high) // width)
    if bins > MOST_BINS:
        raise SchemaError(
            f"column {name!r} has {bins} bins; {MOST_BINS} is the most.",
            hint='give a larger width, or kind = "integer" for whole numbers',
        )
    return (*(low + i * width for i in range(bins)), high)


def width_starts(name: str, *, first: int, last: int, width: int) -> range:
    """Return the first numbers of bins of `width` whole numbers each from first to last.

    >>> list(width_starts("AGE", first=0, last=99, width=25))
    [0, 25, 50, 75]
    """
    _check_range(name, first, last)
    if width < 1:
        raise SchemaError(f"column {name!r} has width {width}.", hint="give a width of 1 or more")
    return range(first, last + 1, width)


def special_numbers(column: Column) -> dict[str, Fraction]:
    """Return those special codes of a column that are numbers, with their values."""
    numbers = {text: number(text) for text in column.specials}
    return {text: value for text, value in numbers.items() if value is not None}


def _check_numbers(column: Column) -> None:
    """Refuse special codes that are one number written twice: rows could not tell them apart."""
    values = [str(value) for value in special_numbers(column).values()]
    if repeated := _repeated(values):
        raise SchemaError(
            f"column {column.name!r}: the number {listing(repeated)} has two special codes.",
            hint="write each number once in `missing` and `other`",
        )


def _check_range(name: str, low: int | Fraction, high: int | Fraction) -> None:
    if low > high:
        raise SchemaError(f"column {name!r}: min {low} is above max {high}.", hint="swap them")


def _check_texts(name: str, texts: Sequence[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SchemaError(
                f"column {name!r} holds half a character (a lone surrogate).",
                hint="write it as plain Unicode",
            ) from None


def _repeated(texts: Sequence[str]) -> list[str]:
    return [text for text, times in Counter(texts).items() if times > 1]


def _climbs(starts: Sequence[int]) -> bool:
    return starts.step > 0 if isinstance(starts, range) else all(a < b for a, b in pairwise(starts))


def _as_range(starts: Sequence[int], *, stop: int) -> range | tuple[int, ...]:
    """Return equally spaced starts as a range: bins by width and by edges are then the same column."""
    if isinstance(starts, range):
        return range(starts.start, stop, min(starts.step, stop - starts.start))
    step = starts[1] - starts[0] if len(starts) > 1 else stop - starts[0]
    spaced = range(starts[0], stop, step)
    return spaced if len(spaced) == len(starts) and tuple(spaced) == tuple(starts) else tuple(starts)
