"""Estimates for an area: any set of units of a released geography, on or off its spine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats, Ints
from populace.core.errors import UsageError
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.area_estimates import AreaEstimate
from populace.inference.hierarchy.hierarchy_margins import area_margins
from populace.release.hierarchy.area_units import find_members
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.schema.hints import quote_names, suggest

# Estimates are given to a thousandth, as in tables.parquet.
DECIMALS = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class AreaTable:
    """The counts of an area: unbiased estimates with 95 % intervals, and the published counts.

    `units` is the number of smallest units in the area. `table` has a row for each cell of the columns `by`.
    """

    level: str
    units: int
    by: tuple[str, ...]
    table: pa.Table
    notes: tuple[str, ...] = ()
    """What a reader must know of single values."""

    def __repr__(self) -> str:
        return f"Area of {self.units} units of level {self.level!r}\n{self.format()}"

    def format(self) -> str:
        """Return the table as text, columns aligned."""
        cells = [list(row.values()) for row in self.table.to_pylist()]
        lines = [self.table.column_names, *([*map(_format_cell, row)] for row in cells)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        names = len(self.by)
        aligned = [
            "  ".join(
                text.ljust(width) if place < names else text.rjust(width)
                for place, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*aligned, *self.notes])

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        return {
            "level": self.level,
            "units": self.units,
            "by": list(self.by),
            "confidence": 0.95,
            "cells": self.table.to_pylist(),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


def choose_table(
    released: Sequence[ReleasedHierarchy], *, by: Sequence[str], table: str | None
) -> ReleasedHierarchy:
    """Return the table of that name; without one, the first that has all the columns."""
    names = [each.table for each in released if each.table is not None]
    if table is not None and table not in names:
        raise UsageError(
            f"the release has no table {table!r}.",
            hint=suggest(table, names, otherwise=f"one of {quote_names(names)}" if names else "leave it out"),
        )
    wanted = {by} if isinstance(by, str) else set(by)
    fitting = [
        each for each in released if each.table == table or (table is None and wanted <= {*each.columns})
    ]
    return fitting[0] if fitting else released[0]


def tabulate_area(released: ReleasedHierarchy, units: Any, *, by: Sequence[str] = ()) -> AreaTable:
    """Return the counts of an area, in total or by columns; structural zeros are left out."""
    wanted = (by,) if isinstance(by, str) else tuple(by)
    check_columns(wanted, known=released.columns)
    members = find_members(units, released.geography)
    published = sum_onto(released.smallest[members].sum(axis=0), released.columns, wanted)
    found = released.estimates.area(members, clique=wanted)
    linked = released.schema.linked
    capped = {} if linked is None or linked.count not in wanted else linked.count_labels
    counts = make_area_table(
        found,
        area_margins(
            released.estimates, wanted, members=members, variance=found.variance, laplace=released.laplace
        ),
        level=released.geography.levels[-1],
        units=int(members.sum()),
        labels={name: released.labels(name) for name in wanted},
        kept=np.flatnonzero(released.measured.plan.possible_in(wanted)),
        published=np.asarray(published, dtype=np.int64),
    )
    notes = [f"{linked.count} {value}: {label}" for value, label in capped.items() if linked is not None]
    return replace(counts, notes=tuple(notes))


def make_area_table(
    found: AreaEstimate,
    margin: Floats,
    *,
    level: str,
    units: int,
    labels: Mapping[str, Sequence[str]],
    kept: Ints,
    published: Ints | None = None,
) -> AreaTable:
    """Return estimates of an area as a table: the cells that are kept, with their labels, and published counts."""
    numbers = {
        "unbiased": found.estimate,
        "margin": margin,
        "low": found.estimate - margin,
        "high": found.estimate + margin,
    }
    codes = np.unravel_index(kept, found.estimate.shape) if labels else ()
    columns: Mapping[str, Any] = {
        name: [texts[code] for code in code_of]
        for (name, texts), code_of in zip(labels.items(), codes, strict=True)
    }
    cells = {name: values.ravel()[kept].round(DECIMALS) + 0.0 for name, values in numbers.items()}
    counts = {} if published is None else {"published": published.ravel()[kept]}
    return AreaTable(
        level=level, units=units, by=tuple(labels), table=pa.table({**columns, **cells, **counts})
    )


def check_columns(by: Sequence[str], *, known: Sequence[str]) -> None:
    """Refuse columns to count by that are not known, or named twice."""
    if strange := [name for name in by if name not in known]:
        raise UsageError(
            f"the tables have no column {strange[0]!r}.",
            hint=suggest(strange[0], known, otherwise=f"one of {quote_names(known)}"),
        )
    if len(set(by)) < len(by):
        raise UsageError(f"a column is named twice in {quote_names(by)}.", hint="name each column once")


def _format_cell(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)
