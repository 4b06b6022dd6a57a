"""Rows that are moved to meet totals never break a rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.sampling.draw_rows import draw_rows
from populace.schema.conditions.rules import Rule, Rules, Totals
from tests.helpers.random_rules import broken_rows

DOMAIN = Domain({"a": 3, "b": 3})
CLASSES = {name: Grouping(name, (0, 1, 2)) for name in DOMAIN}
# One of a's codes for each of b's.
TIED = Rules(
    classes=CLASSES, rules=(Rule(text="tied", clique=("a", "b"), allowed=np.eye(3, dtype=bool)[::-1]),)
)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 10])
def test_few_rows_miss_a_total_rather_than_break_a_rule(rows):
    """With ten rows every total is met; with fewer, the totals of one column may not suit those of the other."""
    counts = np.array([2, 3, 5])
    known = tuple(Totals(clique=(n,), counts=c) for n, c in (("a", counts), ("b", counts[::-1])))
    model = fit_least_squares(
        [Measurement(Marginal(()), np.array(10), Fraction(4))],
        space=ModelSpace(domain=DOMAIN, rules=TIED, totals=tuple(known)),
    )
    for seed in range(30):
        (codes,) = draw_rows(model, rows=rows, rng=np.random.default_rng(seed))
        assert sum(broken_rows(codes, TIED).values()) == 0
        assert len(codes["a"]) == rows
        if rows == 10:
            assert np.bincount(codes["a"]).tolist() == counts.tolist()
