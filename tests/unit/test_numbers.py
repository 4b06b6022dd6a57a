"""Learning numbers: that declared bins leave nothing of a share over, and how two counts of one stretch are weighed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.privacy.budget import Budget
from populace.schema.schema import Schema
from populace.schema.unit import Unit
from populace.schema.unknown import UnknownBins
from populace.strategy.grid import Grid
from populace.strategy.learn import gridded, open_grids
from populace.strategy.numbers import FINE, Asker, _refined, learn_number

BUDGET = Budget.of(Fraction(5), Fraction(1, 10**6), unit=Unit())
SHARE = Fraction(1, 10)


class Finder:
    """Counts groups of codes that all have as many rows, without noise, and keeps what each question costs."""

    def __init__(self, rows):
        self.rows, self.used = rows, Fraction(0)

    def discover_bins(self, column, *, groups, noise):
        self.used += BUDGET.measure_share(noise, marginals=1)
        return np.bincount(groups) * self.rows


@pytest.mark.parametrize("rows", [1000, 0])
def test_declared_bins_leave_nothing_of_the_share_over(rows):
    """Nobody looks for bins that are declared; without rows nothing is looked at more closely, 18 parts of 60."""
    schema = Schema.parse('[columns.x]\nkind = "integer"\nmin = 0\nmax = 999\nwidth = 250\ninside = "learn"')
    (grid,) = open_grids(schema).values()
    assert gridded(schema, grids=open_grids(schema)).columns["x"] == grid.column
    finder = Finder(rows)
    learn_number(finder, schema.columns["x"], grid=grid, budget=BUDGET, share=SHARE)
    most = SHARE if rows else SHARE * Fraction(42, 60)
    assert Fraction(99, 100) * most < finder.used <= most


def test_a_stretch_and_the_sum_of_its_parts_are_weighed_by_their_noise():
    """The sum of twelve counts has twelve times the variance of one."""
    grid = Grid.of(UnknownBins(name="x", min=Fraction(0), max=Fraction(1199), whole=True))
    parts = np.arange(1, FINE + 1) * 1000

    class Parts(Finder):
        def discover_bins(self, column, *, groups, noise):
            super().discover_bins(column, groups=groups, noise=noise)
            return np.append(parts, 7)[: groups.max() + 1]

    part, spread, weight = Fraction(1, 5), 500.0, 60_000.0
    asker = Asker(Parts(0), grid, BUDGET, SHARE)
    starts, found = _refined(asker, [(0, grid.cells)], np.array([weight]), part=part, spread=spread)
    assert len(starts) == len(found) == FINE
    own = FINE * float(BUDGET.measure_noise(part * SHARE, marginals=1).variance)
    assert found.sum() == pytest.approx((weight * own + parts.sum() * spread) / (own + spread))
