"""What a chart of one column shows: at most two dozen bars, whatever the size of its domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.marginals import Counts
from populace.measurements import Measurement
from populace.report.compare import NoiseShape

MOST_BARS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: the share of the rows in some codes, as measured (with the reach of its noise) and as synthesized."""

    label: str
    measured: float
    reach: float
    synthetic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The codes that one bar stands for."""

    label: str
    codes: tuple[int, ...]


def neighbouring_slots(labels: Sequence[str], *, values: int) -> tuple[Slot, ...]:
    """Return slots for ordered codes: runs of neighbours where there are many, special codes on their own.

    The first `values` codes are ordered; the rest are codes for missing and for everything else.

    >>> slots = neighbouring_slots([str(age) for age in range(100)] + ["refused"], values=100)
    >>> [slot.label for slot in slots][:2], slots[-1].label, len(slots)
    (['0 – 4', '5 – 9'], 'refused', 21)
    """
    special = len(labels) - values
    width = max(1, math.ceil(values / max(MOST_BARS - special, 1)))
    runs = [tuple(range(low, min(low + width, values))) for low in range(0, values, width)]
    ordered = [
        Slot(label=labels[run[0]] if len(run) == 1 else f"{labels[run[0]]} – {labels[run[-1]]}", codes=run)
        for run in runs
    ]
    return (*ordered, *(Slot(label=labels[code], codes=(code,)) for code in range(values, len(labels))))


def largest_slots(labels: Sequence[str], *, counts: Counts) -> tuple[Slot, ...]:
    """Return slots for unordered codes: the largest in their own order, then one for all the others together."""
    if len(labels) <= MOST_BARS:
        return tuple(Slot(label=label, codes=(code,)) for code, label in enumerate(labels))
    by_size = np.argsort(-counts, kind="stable")
    kept, rest = np.sort(by_size[: MOST_BARS - 1]), np.sort(by_size[MOST_BARS - 1 :])
    return (
        *(Slot(label=labels[code], codes=(int(code),)) for code in kept),
        Slot(label=f"{len(rest)} others", codes=tuple(int(code) for code in rest)),
    )


def bars(
    item: Measurement, *, slots: Sequence[Slot], synthetic: Counts, total: float, shape: NoiseShape
) -> tuple[Bar, ...]:
    """Return one bar per slot; noise of standard deviation σ in each of m codes is √m·σ in their sum."""
    rows = max(int(synthetic.sum()), 1)
    reach = shape.reach * math.sqrt(item.variance) / total
    return tuple(
        Bar(
            label=slot.label,
            measured=float(item.counts[list(slot.codes)].sum()) / total,
            reach=reach * math.sqrt(len(slot.codes)),
            synthetic=float(synthetic[list(slot.codes)].sum()) / rows,
        )
        for slot in slots
    )
