"""Learning numbers: that declared bins leave nothing of a share over, and how two counts of one stretch are weighed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import DiscoveryGrid
from populace.methods.discovery.domain_discovery import build_grids, with_grid_columns
from populace.methods.discovery.numeric_discovery import (
    GridOracle,
    _refine_ranges,
    discover_numeric,
)
from populace.privacy.accounting.budget import Budget
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.columns.unknown_columns import UnknownBins
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from tests.helpers.budgets import measure_share

BUDGET = Budget.of(Fraction(5), Fraction(1, 10**6), unit=PrivacyUnit())
SHARE = Fraction(1, 10)


class Finder:
    """Counts groups of codes that all have as many rows, without noise, and keeps what each question costs."""

    def __init__(self, rows):
        self.rows, self.used = rows, Fraction(0)

    def discover_bins(self, column, *, groups, noise):
        self.used += measure_share(BUDGET, noise, marginals=1)
        return np.bincount(groups) * self.rows


@pytest.mark.parametrize("rows", [1000, 0])
def test_declared_bins_leave_nothing_of_the_share_over(rows):
    """Nobody looks for bins that are declared; without rows nothing is looked at more closely, 18 parts of 60."""
    schema = Schema.parse('[columns.x]\nkind = "integer"\nmin = 0\nmax = 999\nwidth = 250\ninside = "learn"')
    (grid,) = build_grids(schema).values()
    assert with_grid_columns(schema, grids=build_grids(schema)).columns["x"] == grid.column
    finder = Finder(rows)
    discover_numeric(finder, schema.columns["x"], grid=grid, budget=BUDGET, share=SHARE)
    most = SHARE if rows else SHARE * Fraction(42, 60)
    assert Fraction(99, 100) * most < finder.used <= most


def test_a_stretch_and_the_sum_of_its_parts_are_weighed_by_their_noise():
    """The sum of twelve counts has twelve times the variance of one."""
    grid = DiscoveryGrid.of(UnknownBins(name="x", min=Fraction(0), max=Fraction(1199), of=IntegerColumn))
    parts = np.arange(1, DISCOVERY_CONFIG.fine_ranges + 1) * 1000

    class Parts(Finder):
        def discover_bins(self, column, *, groups, noise):
            super().discover_bins(column, groups=groups, noise=noise)
            return np.append(parts, 7)[: groups.max() + 1]

    part, spread, weight = Fraction(1, 5), 500.0, 60_000.0
    asker = GridOracle(Parts(0), grid, BUDGET, SHARE)
    starts, found = _refine_ranges(asker, [(0, grid.cells)], np.array([weight]), part=part, spread=spread)
    assert len(starts) == len(found) == DISCOVERY_CONFIG.fine_ranges
    own = DISCOVERY_CONFIG.fine_ranges * float(BUDGET.measure_noise(part * SHARE, marginals=1).variance)
    assert found.sum() == pytest.approx((weight * own + parts.sum() * spread) / (own + spread))
