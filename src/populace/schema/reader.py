"""From the tables of a schema file to columns and the protected unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from populace.schema.columns.bins import compute_edges, compute_starts
from populace.schema.columns.column import CategoricalColumn, Column, OrdinalColumn, Origin
from populace.schema.columns.date_columns import (
    DateColumn,
    DateTimeColumn,
    TemporalColumn,
    TimeColumn,
    compute_temporal_starts,
)
from populace.schema.columns.datetime_format import DAY_SECONDS
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity, OutOfRange
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues
from populace.schema.columns.value_types import parse_value_type
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.conditions.value_maps import read_map
from populace.schema.exact_numbers import format_decimal
from populace.schema.toml_table import TomlTable
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.schema.writer import format_key

LEARN = "learn"
_ISO = {"date": "2020-01-31", "datetime": "2020-01-31 12:30:00", "time": "12:30:00"}

_N = TypeVar("_N", int, Fraction, str)
_Fields = dict[str, Any]


# The kinds of columns that a schema may declare.
COLUMN_KINDS: dict[str, type[CategoricalColumn | IntegerColumn | DecimalColumn | TemporalColumn]] = {
    "categorical": CategoricalColumn,
    "ordinal": OrdinalColumn,
    "integer": IntegerColumn,
    "numeric": DecimalColumn,
    "date": DateColumn,
    "datetime": DateTimeColumn,
    "time": TimeColumn,
}
# What other tools call a kind.
_OTHER_NAMES = {
    "int": "integer",
    **dict.fromkeys(("float", "double", "decimal"), "numeric"),
    **dict.fromkeys(("str", "string", "text", "bool", "boolean", "factor"), "categorical"),
}
_SHARED = ("kind", "label", "description", "key", "type", "missing", "other", "labels", "origin")
_RELATED = ("universe", "outside", "function_of", "parent", "map")
_LISTED = (*_SHARED, "values", *_RELATED)
_BINNED = (*_SHARED, "min", "max", "width", "edges", "bins", "beyond", "top", "bottom", "decimals", "inside")
_DATED = (*_SHARED, "min", "max", "width", "edges", "bins", "beyond", "format", "inside", *_RELATED)
_KEYS = {
    "categorical": _LISTED,
    "ordinal": _LISTED,
    "integer": (*_BINNED, "split", *_RELATED),
    "numeric": (*_BINNED, *_RELATED),
} | dict.fromkeys(("date", "datetime", "time"), _DATED)


# What is said of a column before anybody says which values it has.
_DRAFTED = {"label", "description", "key", "universe", "outside", "other", "missing", "labels"}


def is_draft(keys: object) -> bool:
    """Say whether a column is left to be filled in.

    >>> is_draft({"label": "Age"}), is_draft({"kind": "integer"}), is_draft({"values": ["a"]})
    (True, False, False)
    """
    return isinstance(keys, dict) and keys.keys() <= _DRAFTED


def read_column(name: str, table: TomlTable, *, folder: Path | None = None, learnt: bool = False) -> Column:
    """Return the column that a table describes.

    Maps in files are looked for in `folder`. That a domain was learnt is believed only of files that populace wrote.

    >>> read_column("SEX", TomlTable("[columns.SEX]", {"kind": "ordinal", "values": ["1", "2"]})).size
    3
    """
    kind = _read_kind(table)
    table.allow(_KEYS[kind.kind])
    labels = table.table("labels", place=f"{table.place} labels")
    given = table.items.get("function_of")
    function_of = (given,) if isinstance(given, str) else table.texts("function_of")
    shared: _Fields = {
        "name": name,
        "missing": table.texts("missing"),
        "other": table.text("other"),
        "labels": {key: labels.text(key) or "" for key in labels.items},
        "origin": _read_origin(table, learnt=learnt),
        "universe": table.text("universe"),
        "outside": table.text("outside"),
        "function_of": function_of,
        "parent": table.text("parent"),
        "map": read_map(table, sources=len(function_of) or 1, folder=folder),
        "label": table.text("label") or "",
        "description": table.text("description") or "",
        "key": table.boolean("key"),
        "type": None if (named := table.text("type")) is None else parse_value_type(named, place=table.place),
    }
    if issubclass(kind, CategoricalColumn):
        return _read_listed(table, kind, shared)
    shared["beyond"] = table.choice("beyond", default=OutOfRange.NEAREST)
    density = _read_density(table, learnt=learnt)
    if issubclass(kind, TemporalColumn):
        return _read_temporal(table, kind, shared, density=density)
    _check_bins(table, kind)
    shared["decimals"] = table.integer("decimals")
    read = _read_integer if kind is IntegerColumn else _read_decimal
    return read(table, shared, density=density)


def read_columns(
    columns: TomlTable, *, table: TomlTable, folder: Path | None, learnt: bool
) -> dict[str, Column]:
    """Return all columns of a schema; `outside_domain` of `[table]` says where `other` is left out what it is."""
    policy = table.choice("outside_domain", default=OutsideDomain.EMPTY)
    found = {}
    for name in columns.items:
        column = read_column(
            name, columns.table(name, place=f"[columns.{format_key(name)}]"), folder=folder, learnt=learnt
        )
        found[name] = policy.apply(column)
    return found


class OutsideDomain(StrEnum):
    """What becomes of a cell outside its domain where a column does not say it with `other`.

    An empty cell; the column's first missing code, if it has one; or that, and else its first value or lowest number,
    so that no cell is ever empty.
    """

    EMPTY = "empty"
    MISSING = "missing"
    FIRST = "first"

    def apply(self, column: Column) -> Column:
        """Return a column with the code that this policy gives it, if it has none of its own."""
        if self is OutsideDomain.EMPTY or column.other is not None or column.function_of or column.unknown:
            return column
        missing = next((code for code in column.missing if code), None)
        if missing is not None or self is OutsideDomain.MISSING:
            return column if missing is None else replace(column, other=missing)
        if isinstance(column, CategoricalColumn):
            return replace(column, other=column.values[0]) if column.values else column
        if isinstance(column, TemporalColumn):
            return replace(column, other=column.iso_text(column.min))
        low = column.edges[0] if isinstance(column, DecimalColumn) else getattr(column, "min", None)
        return column if low is None else replace(column, other=format_decimal(Fraction(low)) or str(low))


def read_unit(table: TomlTable) -> PrivacyUnit:
    """Return the protected unit that `[table]` declares.

    >>> read_unit(TomlTable("[table]", {"unit": "household"})).name
    'household'
    """
    rows = table.integer("rows_per_unit")
    return PrivacyUnit(
        name=table.text("unit") or PrivacyUnit().name,
        rows=1 if rows is None else rows,
        id=table.text("id"),
        neighbours=table.choice("neighbours", default=Neighbours.ADD_REMOVE),
    )


def _read_kind(table: TomlTable) -> type[CategoricalColumn | IntegerColumn | DecimalColumn | TemporalColumn]:
    kind = table.text("kind")
    if kind is None:
        table.allow({key: None for keys in _KEYS.values() for key in keys})
        raise table.error("has no kind.", hint="kind is one of " + ", ".join(COLUMN_KINDS))
    if kind in _OTHER_NAMES:
        raise table.error(f": kind is {kind!r}.", hint=f"did you mean {_OTHER_NAMES[kind]!r}?")
    if kind not in COLUMN_KINDS:
        raise table.unknown_choice("kind", COLUMN_KINDS)
    return COLUMN_KINDS[kind]


def _read_origin(table: TomlTable, *, learnt: bool) -> Origin:
    """Return where a domain comes from; that it was learnt from the rows is nothing one can declare."""
    if table.items.get("origin") == Origin.LEARNT and not learnt:
        raise table.error(
            ": origin is 'learnt', which only budget can buy.",
            hint="write 'codebook' or 'declared', and take no domain from the private rows; "
            'values = "learn" or bins = "learn" has one learnt',
        )
    return table.choice("origin", default=Origin.DECLARED)


def _read_listed(table: TomlTable, kind: type[CategoricalColumn], shared: _Fields) -> Column:
    if table.items.get("values") == LEARN:
        if kind is OrdinalColumn:
            raise table.error(
                ": the values of an ordinal column cannot be learnt, for their order is not in the rows.",
                hint='give kind = "categorical", or list the values from the lowest to the highest',
            )
        return UnknownValues(**shared)
    if isinstance(given := table.items.get("values"), str):
        raise table.error(f": values is {given!r}.", hint='write a list, or "learn"')
    values = table.texts("values")
    if "values" not in table and shared["map"]:
        # What a map leads to, or where it begins, are the values.
        ends = shared["map"].values() if shared["function_of"] else (text for (text, *_) in shared["map"])
        special = {*shared["missing"], shared["outside"], shared["other"] or ""}
        values = tuple(text for text in dict.fromkeys(ends) if text not in special)
    return kind(values=values, **shared)


def _read_integer(table: TomlTable, shared: _Fields, *, density: BinDensity | None) -> Column:
    top, bottom, split = table.integer("top"), table.integer("bottom"), table.integer("split")
    if "edges" in table:
        first, *inner, last = table.integers("edges")
        starts: range | tuple[int, ...] = (first, *inner)
    else:
        first, last = _range_ends(table, table.integer, bottom, top)
        starts = ()
    if "bins" in table:
        return UnknownBins(min=Fraction(first), max=Fraction(last), of=IntegerColumn, **shared)
    step = table.integer("width")
    if step is not None:
        starts = compute_starts(shared["name"], first=first, last=last, width=step)
    shared |= {"top": top, "bottom": bottom, "split": split, "density": density}
    return IntegerColumn(min=first, max=last, starts=starts, **shared)


def _read_decimal(table: TomlTable, shared: _Fields, *, density: BinDensity | None) -> Column:
    top, bottom, edges = table.number("top"), table.number("bottom"), table.numbers("edges")
    if "edges" not in table:
        low, high = _range_ends(table, table.number, bottom, top)
        if "bins" in table:
            return UnknownBins(min=low, max=high, **shared)
        if (bottom is not None and low > bottom) or (top is not None and high < top):
            raise table.error(
                ": numbers are missing between its bins and its top or bottom.",
                hint="let min be bottom or less and max be top or more, or leave them out",
            )
        # The bins end where the top and bottom codes begin.
        low, high = low if bottom is None else bottom, high if top is None else top
        edges = compute_edges(shared["name"], low=low, high=high, width=table.number("width") or Fraction(0))
    return DecimalColumn(edges=edges, top=top, bottom=bottom, density=density, **shared)


def _read_temporal(
    table: TomlTable, kind: type[TemporalColumn], shared: _Fields, *, density: BinDensity | None
) -> Column:
    shared["format"] = table.text("format")
    if "edges" in table:
        _refuse_beside_edges(table)
        *starting, end = table.texts("edges")
        starts: Sequence[int] = [_read_step(table, kind, text) for text in starting]
        first, last = starts[0], _read_last_step(table, kind, end)
    else:
        low, high = _range_ends(table, table.text, None, None)
        first, last = _read_step(table, kind, low), _read_last_step(table, kind, high)
        if "bins" in table:
            _check_learning(table)
            return UnknownBins(min=Fraction(first), max=Fraction(last), of=kind, **shared)
        width = table.text("width") or ("day" if kind is DateColumn else None)
        if width is None:
            raise table.error("has no bins.", hint='give a width, such as "hour", or edges')
        starts = compute_temporal_starts(kind, shared["name"], first=first, last=last, width=width)
    return kind(min=first, max=last, starts=starts, density=density, **shared)


def _read_density(table: TomlTable, *, learnt: bool) -> BinDensity | None:
    """Return what is said of values inside bins; that it was learnt is nothing one can declare."""
    given = table.items.get("inside")
    if given is None:
        return None
    if given == LEARN:
        return BinDensity()
    if not learnt or not isinstance(given, dict):
        raise table.error(
            ": inside can only be 'learn'.",
            hint="leave it out to draw values evenly inside bins; only budget can buy another density",
        )
    keys = TomlTable(f"{table.place} inside", given)
    keys.allow(("starts", "weights", "steps", "rounds", "unit"))
    rows = [TomlTable(keys.place, {"rounds": row}) for row in given.get("rounds", ())]
    return BinDensity(
        starts=keys.integers("starts"),
        weights=keys.integers("weights"),
        steps=keys.integers("steps"),
        class_weights=tuple(row.integers("rounds") for row in rows),
        unit=keys.number("unit") or Fraction(1),
    )


def _read_step(table: TomlTable, kind: type[TemporalColumn], text: str) -> int:
    found = kind.parse_iso(text)
    if found is None:
        raise table.error(
            f": {text!r} is not a {kind.kind} in ISO form.",
            hint=f"write it as {_ISO[kind.kind]}",
        )
    return found


def _read_last_step(table: TomlTable, kind: type[TemporalColumn], text: str) -> int:
    """Return where a column ends; a day ends with its last second."""
    whole_day = kind is DateTimeColumn and DateColumn.parse_iso(text) is not None and ":" not in text
    return _read_step(table, kind, text) + (DAY_SECONDS - 1 if whole_day else 0)


def _range_ends(
    table: TomlTable, read: Callable[[str], _N | None], bottom: _N | None, top: _N | None
) -> tuple[_N, _N]:
    """Return where a range begins and ends: as declared, or at its bottom and top codes."""
    low, high = read("min"), read("max")
    low, high = bottom if low is None else low, top if high is None else high
    if low is None or high is None:
        raise table.error(
            "does not say from where to where its values go.", hint="give min and max, or edges"
        )
    return low, high


def _check_bins(table: TomlTable, kind: type[IntegerColumn | DecimalColumn]) -> None:
    """Refuse bins that are declared twice, by halves or not at all."""
    if "edges" in table:
        _refuse_beside_edges(table)
        return
    _range_ends(table, table.number, table.number("bottom"), table.number("top"))
    _check_climb(table)
    if "bins" in table:
        _check_learning(table)
    elif kind is DecimalColumn and "width" not in table:
        raise table.error(
            "has no bins.",
            hint='give width, edges instead of min and max, bins = "learn", or kind = "integer" for whole numbers',
        )


def _check_climb(table: TomlTable) -> None:
    """Refuse a top code below, or a bottom code above, the other end; the column itself compares min with max."""
    for low, high in (("min", "top"), ("bottom", "top"), ("bottom", "max")):
        first, last = table.number(low), table.number(high)
        if first is not None and last is not None and first > last:
            raise table.error(
                f": {low} {table.text(low)} is above {high} {table.text(high)}.",
                hint="min, bottom, top and max must increase",
            )


def _refuse_beside_edges(table: TomlTable) -> None:
    if beside := [key for key in ("min", "max", "width", "bins") if key in table]:
        raise table.error(
            f"has edges beside {', '.join(beside)}.",
            hint="edges say everything: leave the others out",
        )
    edges = table.items["edges"]
    if isinstance(edges, list) and len(edges) < 2:
        raise table.error("has fewer than two edges.", hint="write edges = [0, 18, 65]")


def _check_learning(table: TomlTable) -> None:
    if table.items["bins"] != LEARN:
        raise table.error(": bins can only be 'learn'.", hint="give width or edges for bins that you know")
    apart = ("width", "top", "bottom", "split", "inside")
    if beside := [key for key in apart if table.items.get(key, LEARN) != LEARN]:
        raise table.error(
            f"has bins to be learnt beside {', '.join(beside)}.",
            hint="give min and max, and leave the others out",
        )


def read_zero(table: TomlTable) -> StructuralZero:
    """Return a rule of `[[zeros]]`, its condition in the canonical form."""
    table.allow(("when", "else"))
    when = table.text("when")
    if when is None:
        raise table.error("does not say when.", hint="""write when = "AGEP < 15 and MSP != 'N'\"""")
    given = table.table("else", place=f"{table.place} else")
    replacement = {name: given.text(name) or "" for name in given.items}
    return StructuralZero(when=str(parse_condition(when, place=f"{table.place}: ")), replacement=replacement)
