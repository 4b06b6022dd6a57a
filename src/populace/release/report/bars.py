"""What a chart of one column shows: at most two dozen bars, whatever the size of its domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Counts, Grouping, Marginal
from populace.inference.gls.count_intervals import CountIntervals
from populace.release.report.bin_labels import BinEnds, join_labels

MAX_BARS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: the share of the rows in some codes, as estimated from all measurements and as synthesized.

    `margin` is the 95 % margin of error of the estimate.
    `special` bars stand for a code of missing values or for empty cells.
    """

    label: str
    special: bool
    measured: float
    margin: float
    synthetic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarCodes:
    """The codes that one bar stands for."""

    label: str
    codes: tuple[int, ...]
    special: bool = False


def group_ordered_codes(ends: Sequence[BinEnds], *, values: int) -> tuple[BarCodes, ...]:
    """Return groups of ordered codes: runs of neighbours where there are many, special codes on their own.

    The first `values` codes are ordered; the rest are codes for missing and for everything else.

    >>> ages = [(str(age), str(age)) for age in range(100)] + [("refused", "refused")]
    >>> slots = group_ordered_codes(ages, values=100)
    >>> [slot.label for slot in slots][:2], slots[-1].label, len(slots)
    (['0–4', '5–9'], 'refused', 21)
    """
    special = len(ends) - values
    width = max(1, math.ceil(values / max(MAX_BARS - special, 1)))
    runs = [tuple(range(low, min(low + width, values))) for low in range(0, values, width)]
    return (
        *(BarCodes(label=join_labels(ends[run[0]], ends[run[-1]]), codes=run) for run in runs),
        *_special_codes(ends, values=values),
    )


def group_largest_codes(ends: Sequence[BinEnds], *, values: int, counts: Counts) -> tuple[BarCodes, ...]:
    """Return groups of unordered codes: the largest in their own order, one for the others together, special codes."""
    special = _special_codes(ends, values=values)
    max_shown = max(MAX_BARS - len(special), 2)
    if values <= max_shown:
        return (*(_single_code(ends, code) for code in range(values)), *special)
    by_size = np.argsort(-counts[:values], kind="stable")
    kept, rest = np.sort(by_size[: max_shown - 1]), np.sort(by_size[max_shown - 1 :])
    return (
        *(_single_code(ends, int(code)) for code in kept),
        BarCodes(label=f"{len(rest)} others", codes=tuple(int(code) for code in rest)),
        *special,
    )


def _single_code(ends: Sequence[BinEnds], code: int, *, special: bool = False) -> BarCodes:
    return BarCodes(label=join_labels(ends[code], ends[code]), codes=(code,), special=special)


def _special_codes(ends: Sequence[BinEnds], *, values: int) -> tuple[BarCodes, ...]:
    return tuple(_single_code(ends, code, special=True) for code in range(values, len(ends)))


def make_bars(
    found: CountIntervals, name: str, *, slots: Sequence[BarCodes], synthetic: Counts, total: float
) -> tuple[Bar, ...]:
    """Return one bar per group of codes; those of a group are estimated together, with the interval of their sum."""
    rows = max(int(synthetic.sum()), 1)
    places = [(code, place) for place, slot in enumerate(slots) for code in slot.codes]
    grouping = Grouping(name, tuple(place for _, place in sorted(places)))
    interval = found.at(Marginal((name,), (grouping,)))
    return tuple(
        Bar(
            label=slot.label,
            special=slot.special,
            measured=float(interval.estimate[place]) / total,
            margin=float(interval.half_width[place]) / total,
            synthetic=float(synthetic[list(slot.codes)].sum()) / rows,
        )
        for place, slot in enumerate(slots)
    )
