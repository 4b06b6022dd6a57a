"""How a workload is asked in two rounds: weights of columns, what is compressed, and what a marginal coarsens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Grouping
from populace.schema.columns.column import Column
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.conditions.value_maps import read_map
from populace.schema.hints import quote_names
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable, toml_text

ROUND_TABLES = ("rounds", "columns")
REST_BIN, LABELS_MAP = "*", "labels"
_SPAN_SIGN = ".."
_KEYS = ("weight", "threshold", "compress", "map")
_BINS_HINT = 'write a list of bins, such as ["0", "1..9", "10..", ["98", "99"], "*"]; "*" is everything else'


class RareCodes(Enum):
    """What becomes of the codes of a column that are lost in the noise."""

    REST = "they share one code"
    NEIGHBOURS = "each joins codes beside it"
    NONE = "they stay as they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnQuery:
    """How one column is asked for: its weight in the first round, and how it is compressed for the second.

    Codes counted below `threshold` deviations of the noise are merged. With a public map, `classes`, whole classes of
    codes are kept or merged, by their sums.
    """

    weight: Fraction = Fraction(1)
    threshold: Fraction = Fraction(3)
    merge: RareCodes = RareCodes.REST
    classes: Grouping | None = None

    def __post_init__(self) -> None:
        for what, value in (("weight", self.weight), ("threshold", self.threshold)):
            if value <= 0:
                raise UsageError(f"the {what} of a column is {value}.", hint="give a finite number above 0")


@dataclass(frozen=True, kw_only=True)
class QueryRounds:
    """Two rounds of weighted queries: single columns with `share` of the budget, then marginals with the rest.

    A marginal may `coarsen` columns: it is named by the set of its columns.

    >>> QueryRounds().column("AGE").weight, QueryRounds().share
    (Fraction(1, 1), Fraction(1, 2))
    """

    share: Fraction = Fraction(1, 2)
    usual: ColumnQuery = ColumnQuery()
    columns: Mapping[str, ColumnQuery] = field(default_factory=dict, hash=False)
    coarse: Mapping[frozenset[str], tuple[Grouping, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(
                f"the first round takes {float(self.share):g} of the budget.",
                hint="give a share above 0 and below 1, such as 0.5",
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "coarse", MappingProxyType(dict(self.coarse)))

    def column(self, name: str) -> ColumnQuery:
        """Return how a column is asked for."""
        return self.columns.get(name, self.usual)

    def coarse_groupings(self, name: str) -> list[Grouping]:
        """Return the groupings in which some marginals see a column."""
        return [own for groupings in self.coarse.values() for own in groupings if own.column == name]

    def check(self, schema: Schema) -> None:
        """Refuse, from public facts alone, columns that a schema does not have and groupings that do not fit it."""
        domain = schema.domain
        for name in self.columns:
            if name not in domain:
                raise UsageError(f"the rounds name {name!r}, which is no variable.", hint="name a column")
        maps = [asked.classes for asked in self.columns.values() if asked.classes is not None]
        for grouping in (*maps, *(own for groupings in self.coarse.values() for own in groupings)):
            if domain.get(grouping.column) != len(grouping.groups):
                raise UsageError(
                    f"a grouping of {grouping.column!r} covers {len(grouping.groups)} codes; "
                    f"the schema has {domain.get(grouping.column, 0)}.",
                    hint="give every code of the column exactly one group",
                )

    def form(self) -> list[object]:
        """Return everything in it as plain JSON, in order, for a digest."""

        def form_of(asked: ColumnQuery) -> list[object]:
            groups = None if asked.classes is None else list(asked.classes.groups)
            return [str(asked.weight), str(asked.threshold), asked.merge.name, groups]

        coarse = [
            [sorted(columns), [[own.column, list(own.groups)] for own in groupings]]
            for columns, groupings in self.coarse.items()
        ]
        columns = [[name, form_of(asked)] for name, asked in sorted(self.columns.items())]
        return [str(self.share), form_of(self.usual), columns, sorted(coarse, key=str)]


def read_query_rounds(
    document: TomlTable, *, columns: Mapping[str, tuple[str, ...]], schema: Schema
) -> QueryRounds:
    """Return what `[rounds]` and `[columns.NAME]` of a workload say; `columns` are the variables behind each name.

    >>> schema = Schema.from_sizes({"AGE": 85, "SEX": 2})
    >>> text = TomlTable("the workload", {"rounds": {"share": 0.25}, "columns": {"SEX": {"compress": False}}})
    >>> read_query_rounds(text, columns={"SEX": ("SEX",)}, schema=schema).column("SEX").merge.name
    'NONE'
    """
    table = document.table("rounds", place="[rounds]")
    table.allow(("share", "threshold", "compress"))
    usual = _read_column_query(table, ColumnQuery())
    found: dict[str, ColumnQuery] = {}
    for name, names in columns.items():
        own = document.table("columns", place="[columns]").table(name, place=f"[columns.{name}]")
        own.allow(_KEYS)
        asked = _read_column_query(own, usual)
        if "map" in own:
            found[names[0]] = replace(asked, classes=_read_classes(own, name, schema=schema))
            names = names[1:]
        found |= dict.fromkeys(names, asked)
    share = _read_positive(table, "share")
    return QueryRounds(share=Fraction(1, 2) if share is None else share, usual=usual, columns=found)


def read_coarse_bins(given: object, column: Column, *, place: str) -> Grouping:
    """Return the bins of a column in which a marginal sees it; each value must be in exactly one of them.

    A bin is a value, a span of values in their order, `"10..19"`, or a list of both; `"*"` is everything else.

    >>> from populace.schema.columns.numeric_columns import IntegerColumn
    >>> age = IntegerColumn(name="AGE", min=0, max=7, missing=("99",), other="99")
    >>> read_coarse_bins([0, "1..3", "4..", "99"], age, place="the workload").groups
    (0, 1, 1, 1, 2, 2, 2, 2, 3)
    """
    place = f"{place}: coarse {column.name!r}"
    if column.domain_learnt:
        raise UsageError(
            f"{place}: its values are still to be learnt.", hint="declare them, or leave it as it is"
        )
    if not isinstance(given, list) or not given:
        raise UsageError(f"{place} is no list of bins.", hint=_BINS_HINT)
    scale = CodeSemantics.of(column)
    groups = np.full(scale.size, -1)
    rest = [number for number, each in enumerate(given) if each == REST_BIN]
    for number, each in enumerate(given):
        for code in _bin_codes(each, scale, place=place) if each != REST_BIN else ():
            if groups[code] >= 0:
                raise UsageError(
                    f"{place} has {scale.describe(code)} in two bins.", hint="put every value into one bin"
                )
            groups[code] = number
    if rest:
        groups[groups < 0] = rest[0]
    if (groups < 0).any():
        left = int(np.argmax(groups < 0))
        raise UsageError(
            f"{place} has no bin for {scale.describe(left)}.",
            hint='put every value into a bin, special codes too, or end with "*" for everything else',
        )
    if len(rest) > 1 or len(np.unique(groups)) < len(given):
        raise UsageError(f"{place} has a bin in which nothing is.", hint=_BINS_HINT)
    return Grouping(scale.variable.name, tuple(groups.tolist()))


def _bin_codes(given: object, scale: CodeSemantics, *, place: str) -> Iterator[int]:
    """Yield the codes of one bin."""
    if isinstance(given, list):
        for each in given:
            yield from _bin_codes(each, scale, place=place)
        return
    text = toml_text(given)
    if text is None:
        raise UsageError(f"{place} holds a bin that is no value.", hint=_BINS_HINT)
    code = scale.code(text)
    if code is not None:
        yield code
        return
    first, span, last = (part.strip() for part in text.partition(_SPAN_SIGN))
    if span and scale.intervals is None:
        raise UsageError(
            f"{place} has the span {text!r}, and its values have no order.", hint="list the values of the bin"
        )
    ends = [
        0 if not first else scale.code(first),
        scale.levels - 1 if not last else scale.code(last),
    ]
    if not span or any(end is None or end >= scale.levels for end in ends):
        raise UsageError(f"{place} has the bin {text!r}, which is no value or span of them.", hint=_BINS_HINT)
    yield from range(ends[0] or 0, (ends[1] or 0) + 1)


def _read_column_query(table: TomlTable, usual: ColumnQuery) -> ColumnQuery:
    weight, threshold = (_read_positive(table, key) for key in ("weight", "threshold"))
    choices = {True: RareCodes.REST, False: RareCodes.NONE, "neighbours": RareCodes.NEIGHBOURS}
    given = table.items.get("compress")
    if given is not None and (not isinstance(given, bool | str) or given not in choices):
        raise UsageError(
            f"{table.place}: compress is {given!s:.60}.", hint='write true, false, or "neighbours"'
        )
    return replace(
        usual,
        weight=usual.weight if weight is None else weight,
        threshold=usual.threshold if threshold is None else threshold,
        merge=usual.merge if given is None else choices[given],
    )


def _read_positive(table: TomlTable, key: str) -> Fraction | None:
    found = table.number(key)
    if found is not None and found <= 0:
        raise UsageError(f"{table.place}: {key} is {table.items[key]}.", hint="give a number above 0")
    return found


def _read_classes(table: TomlTable, name: str, *, schema: Schema) -> Grouping:
    """Return the classes of a public map from values of a column; a value that it does not have is its own class.

    The map may be in the labels: what stands behind their last comma.
    """
    if name not in schema.columns or name in schema.layout.functions:
        raise UsageError(f"{table.place}: map is for columns that are read.", hint="name such a column")
    column = schema.columns[name]
    if column.domain_learnt:
        raise UsageError(
            f"{table.place}: its values are still to be learnt.", hint="declare them, or leave out the map"
        )
    if table.items["map"] == LABELS_MAP:
        # Places, as most codebooks write them: "Denver, CO".
        given = {
            text: label.rpartition(",")[2].strip() for text, label in column.labels.items() if "," in label
        }
    else:
        given = {text: kind for (text,), kind in read_map(table, sources=1, folder=None).items()}
    if not given:
        raise UsageError(
            f"{table.place}: the map is empty.",
            hint=f'write value = class, or "{LABELS_MAP}" where labels have commas',
        )
    scale = CodeSemantics.of(column)
    groups = list(range(scale.size))
    first: dict[str, int] = {}
    strange = []
    for text, kind in given.items():
        code = scale.code(text)
        if code is None:
            strange.append(text)
        else:
            groups[code] = first.setdefault(kind, code)
    if strange:
        raise UsageError(
            f"{table.place}: the map names {quote_names(strange[:3])}, which the column does not have.",
            hint="write value = class for values of the column",
        )
    return Grouping(scale.variable.name, tuple(np.unique(groups, return_inverse=True)[1].tolist()))
