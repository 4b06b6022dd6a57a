"""The interval of Clopper and Pearson: it covers every probability at least as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from populace.evaluation.binomial_interval import clopper_pearson


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.97, 1.0])
def test_the_interval_covers_a_share_exactly_counted(share: float) -> None:
    counts = np.arange(41)
    ends = np.array([clopper_pearson(int(count), 40) for count in counts])
    covered = (ends[:, 0] <= share) & (share <= ends[:, 1])
    assert stats.binom.pmf(counts, 40, share)[covered].sum() >= 0.95


def test_the_ends_are_those_of_scipy() -> None:
    found = stats.binomtest(7, 30).proportion_ci(method="exact")
    assert clopper_pearson(7, 30) == pytest.approx((found.low, found.high))
