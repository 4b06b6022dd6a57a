"""Prices in the words of tests: what marginals take of a budget, and the greatest ρ that keeps a promise."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise, Spend
from populace.privacy.accounting.privacy_loss import find_greatest, zcdp_delta


def measure_share(budget: Budget, noise: Noise, *, marginals: int) -> Fraction:
    """Return the share of a budget that this many marginals take under a given noise."""
    return budget.share(
        Spend(
            verb="measure",
            what=f"{marginals} marginals",
            mechanism=noise,
            answers=marginals,
            l1=budget.unit.marginal_l1,
            l2_squared=budget.unit.marginal_l2_squared,
        )
    )


@lru_cache(maxsize=1024)
def zcdp_cap(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the greatest ρ that still implies (ε, δ)-DP, rounded down."""
    return find_greatest(lambda rho: zcdp_delta(rho, epsilon=epsilon) <= delta, start=epsilon)
