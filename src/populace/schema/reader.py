"""From the tables of a schema file to columns and the protected unit."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict

from populace.errors import SchemaError
from populace.schema.columns import (
    Beyond,
    Categorical,
    Column,
    Integer,
    Numeric,
    Ordinal,
    Origin,
    width_edges,
    width_starts,
)
from populace.schema.tables import Table
from populace.schema.unit import Neighbours, Unit


class Kind(StrEnum):
    """The kinds of columns that a schema may declare."""

    CATEGORICAL = "categorical"
    ORDINAL = "ordinal"
    INTEGER = "integer"
    NUMERIC = "numeric"


class _Shared(TypedDict):
    name: str
    missing: tuple[str, ...]
    other: str | None
    labels: dict[str, str]
    origin: Origin


_SHARED = ("kind", "missing", "other", "labels", "origin")
_LISTED = (*_SHARED, "values")
_BINNED = (*_SHARED, "min", "max", "width", "edges", "beyond")
_KEYS = {Kind.CATEGORICAL: _LISTED, Kind.ORDINAL: _LISTED, Kind.INTEGER: _BINNED, Kind.NUMERIC: _BINNED}
_LATER_KINDS = ("date", "datetime", "time")


def read_column(name: str, table: Table) -> Column:
    """Return the column that a table describes.

    >>> read_column("SEX", Table("[columns.SEX]", {"kind": "ordinal", "values": ["1", "2"]})).size
    3
    """
    kind = _kind(table)
    table.allow(_KEYS[kind])
    labels = table.table("labels", place=f"{table.place} labels")
    shared = _Shared(
        name=name,
        missing=table.texts("missing"),
        other=table.text("other"),
        labels={key: labels.text(key) or "" for key in labels.items},
        origin=_origin(table),
    )
    if kind is Kind.CATEGORICAL:
        return Categorical(values=table.texts("values"), **shared)
    if kind is Kind.ORDINAL:
        return Ordinal(values=table.texts("values"), **shared)
    beyond = table.choice("beyond", default=Beyond.NEAREST)
    _check_bins(table, kind)
    if kind is Kind.NUMERIC:
        edges = table.numbers("edges")
        low, high, width = table.number("min"), table.number("max"), table.number("width")
        if low is not None and high is not None and width is not None:
            edges = width_edges(name, low=low, high=high, width=width)
        return Numeric(edges=edges, beyond=beyond, **shared)
    first, last, step = table.whole("min"), table.whole("max"), table.whole("width")
    starts: Sequence[int] = ()
    if "edges" in table:
        first, *inner, last = table.wholes("edges")
        starts = (first, *inner)
    if first is None or last is None:
        raise SchemaError(f"{table.place} has no min and max.", hint="give both, or edges")
    if step is not None:
        starts = width_starts(name, first=first, last=last, width=step)
    return Integer(min=first, max=last, starts=starts, beyond=beyond, **shared)


def read_unit(table: Table) -> Unit:
    """Return the protected unit that `[table]` declares.

    >>> read_unit(Table("[table]", {"unit": "household"})).name
    'household'
    """
    rows = table.whole("rows_per_unit")
    return Unit(
        name=table.text("unit") or Unit().name,
        rows=1 if rows is None else rows,
        id=table.text("id"),
        neighbours=table.choice("neighbours", default=Neighbours.ADD_REMOVE),
    )


def _kind(table: Table) -> Kind:
    kind = table.text("kind")
    if kind is None:
        table.allow({key: None for keys in _KEYS.values() for key in keys})
        raise SchemaError(f"{table.place} has no kind.", hint="kind is one of " + ", ".join(Kind))
    if kind in _LATER_KINDS:
        raise SchemaError(
            f"{table.place}: kind {kind!r} is not supported yet.",
            hint="declare it as categorical or ordinal with its values, or leave the column out",
        )
    return table.choice("kind", default=Kind.CATEGORICAL)


def _origin(table: Table) -> Origin:
    """Return where a domain comes from; that it was learnt from the rows is nothing one can declare."""
    if table.items.get("origin") == "learnt":
        raise SchemaError(
            f"{table.place}: origin is 'learnt', which only budget can buy.",
            hint="write 'codebook' or 'declared', and take no domain from the private rows",
        )
    return table.choice("origin", default=Origin.DECLARED)


def _check_bins(table: Table, kind: Kind) -> None:
    """Refuse bins that are declared twice, by halves or not at all."""
    ends = [key for key in ("min", "max") if key in table]
    if "edges" in table:
        if ends or "width" in table:
            raise SchemaError(
                f"{table.place} has edges beside {', '.join([*ends, *['width'] * ('width' in table)])}.",
                hint="edges say everything: leave the others out",
            )
        if len(table.numbers("edges")) < 2:
            raise SchemaError(f"{table.place} has fewer than two edges.", hint="write edges = [0, 18, 65]")
        return
    if len(ends) < 2:
        raise SchemaError(
            f"{table.place} does not say from where to where its numbers go.",
            hint="give min and max, or edges",
        )
    if kind is Kind.NUMERIC and "width" not in table:
        raise SchemaError(
            f"{table.place} has no bins.",
            hint='give width, or edges instead of min and max, or kind = "integer" for whole numbers',
        )
