"""Batches of tables, measured with a share of the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.marginals import Marginal
from populace.measurements import Batch, Measurement
from populace.strategy.allocation import Floats, levels
from populace.strategy.oracle import Oracle

# What gets less of a budget than this is not worth its noise.
LEAST_PART = Fraction(1, 1000)
_PARTS = 2**40


def measure_batch(
    oracle: Oracle, marginals: Sequence[Marginal], precisions: Floats, *, share: Fraction
) -> tuple[Measurement, ...]:
    """Measure marginals with a share of the budget, in proportion to precisions; alike ones get the same noise."""
    precisions = np.where(precisions < LEAST_PART * precisions.max(), 0.0, precisions)
    batches = levels(precisions.tolist()) if share > LEAST_PART else []
    total = float(precisions.sum())
    left = share
    asked: list[Batch] = []
    for batch in reversed(batches):
        part = share * fraction(float(precisions[batch].sum()) / total) if batch is not batches[0] else left
        if part > 0:
            noise = oracle.budget.measure_noise(part, marginals=len(batch))
            asked.append(([marginals[number] for number in batch], noise))
            left -= part
    return oracle.measure_batches(asked) if asked else ()


def fraction(share: float) -> Fraction:
    """Return a share as an exact number, rounded down."""
    return Fraction(math.floor(share * _PARTS), _PARTS)
