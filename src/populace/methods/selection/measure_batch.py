"""Tables measured with a share of the budget: evenly, or in proportion to precisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Marginal
from populace.measurements.measurements import Batch, Measurement
from populace.methods.oracle import Oracle
from populace.methods.selection.budget_allocation import group_by_precision

# What gets less of a budget than this is not worth its noise.
MIN_PRECISION_SHARE = Fraction(1, 1000)
_SHARE_DENOMINATOR = 2**40


def measure_batch(
    oracle: Oracle, marginals: Sequence[Marginal], precisions: Floats, *, share: Fraction
) -> tuple[Measurement, ...]:
    """Measure marginals with a share of the budget, in proportion to precisions; alike ones get the same noise."""
    precisions = np.where(precisions < MIN_PRECISION_SHARE * precisions.max(), 0.0, precisions)
    batches = group_by_precision(precisions.tolist()) if share > MIN_PRECISION_SHARE else []
    total = float(precisions.sum())
    left = share
    asked: list[Batch] = []
    for batch in reversed(batches):
        part = (
            share * round_down_share(float(precisions[batch].sum()) / total)
            if batch is not batches[0]
            else left
        )
        if part > 0:
            noise = oracle.budget.measure_noise(part, marginals=len(batch))
            asked.append(([marginals[number] for number in batch], noise))
            left -= part
    return oracle.measure_batches(asked) if asked else ()


def measure_evenly(
    oracle: Oracle, marginals: Sequence[Marginal], *, share: Fraction
) -> tuple[Measurement, ...]:
    """Measure marginals with a share of the budget, all with the same noise."""
    return oracle.measure(marginals, noise=oracle.budget.measure_noise(share, marginals=len(marginals)))


def measure_all_columns(oracle: Oracle, *, share: Fraction) -> tuple[Measurement, ...]:
    """Measure every column by itself, with the same noise."""
    return measure_evenly(oracle, [Marginal((name,)) for name in oracle.domain], share=share)


def round_down_share(share: float) -> Fraction:
    """Return a share as an exact number, rounded down."""
    return Fraction(math.floor(share * _SHARE_DENOMINATOR), _SHARE_DENOMINATOR)
