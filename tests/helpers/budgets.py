"""Prices in the words of tests: what marginals take of a budget."""

from __future__ import annotations

from fractions import Fraction

from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise, Spend


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
