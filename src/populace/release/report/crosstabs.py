"""Crosstabs of measured pairs: noisy shares beside synthetic shares, at most eight by eight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Counts
from populace.measurements.measurements import Measurement
from populace.release.report.bars import BarCodes, group_largest_codes, group_ordered_codes, label_bins
from populace.schema.columns.column import Column
from populace.schema.schema import Schema

MAX_CODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosstabCell:
    """One cell: shares of all rows."""

    noisy: float
    synthetic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crosstab:
    """A pair of columns: the labels of both, and a row of cells for each code of the first."""

    columns: tuple[str, str]
    rows: tuple[str, ...]
    across: tuple[str, ...]
    cells: tuple[tuple[CrosstabCell, ...], ...]


def make_crosstab(item: Measurement, *, synthetic: Counts, schema: Schema, total: float) -> Crosstab | None:
    """Return the crosstab of a measured pair; None where it was measured in groups of codes, which have no names."""
    if item.marginal.groupings or len(item.marginal.clique) != 2:
        return None
    first, second = item.marginal.clique
    slots = [
        _group(schema.variables[name], counts=item.counts.sum(axis=1 - axis))
        for axis, name in enumerate((first, second))
    ]
    noisy = _merge(item.counts / total, slots)
    drawn = _merge(synthetic / max(int(synthetic.sum()), 1), slots)
    return Crosstab(
        columns=(first, second),
        rows=tuple(slot.label for slot in slots[0]),
        across=tuple(slot.label for slot in slots[1]),
        cells=tuple(
            tuple(CrosstabCell(noisy=float(a), synthetic=float(b)) for a, b in zip(*pair, strict=True))
            for pair in zip(noisy, drawn, strict=True)
        ),
    )


def _group(column: Column, *, counts: Counts) -> tuple[BarCodes, ...]:
    ends = label_bins(column)
    if column.kind == "categorical":
        return group_largest_codes(ends, values=column.levels, counts=counts, most=MAX_CODES)
    return group_ordered_codes(ends, values=column.levels, most=MAX_CODES)


def _merge(table: Floats, slots: list[tuple[BarCodes, ...]]) -> Floats:
    rows = np.array([table[list(slot.codes)].sum(axis=0) for slot in slots[0]])
    return np.array([rows[:, list(slot.codes)].sum(axis=1) for slot in slots[1]]).T
