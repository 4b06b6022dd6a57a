"""From noisy counts to bins and to the law inside them: what is kept, and what is taken for noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Marginal
from populace.inference.fit.fit_model import fit_model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.discovery.bin_edges import choose_bin_edges, sketch_histogram
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.discovery.discovery_grid import DiscoveryGrid
from populace.methods.discovery.numeric_discovery import reconcile_counts, shrink_class_shares, shrink_counts
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.columns.unknown_columns import UnknownBins


def test_counts_lost_in_noise_are_empty_beside_those_that_are_not():
    found = reconcile_counts(np.array([100.0, 3.0, -4.0]), variance=9.0, total=95.0, spread=1.0)
    assert found[1:].tolist() == [0.0, 0.0]
    assert 94 < found.sum() < 97, "the sure total counts for more"
    assert reconcile_counts(np.array([1.0, 2.0]), variance=9.0, total=3.0, spread=1.0).sum() > 0


def test_noise_is_smoothed_and_heaps_are_kept():
    rng = np.random.default_rng(1)
    widths = np.ones(12)
    noise = rng.normal(0, 3, 12)
    assert shrink_counts(100 / 12 + noise, widths=widths, variance=9.0, total=100.0) is None, (
        "nothing but noise"
    )
    heap = 50 / 12 + noise
    heap[7] += 60
    found = shrink_counts(heap, widths=widths, variance=9.0, total=110.0)
    assert found is not None
    assert abs(found[7] - heap[7]) < 5
    assert np.delete(found, 7).std() < np.delete(heap, 7).std()


def test_classes_that_bins_agree_on_lend_each_other_strength():
    rng = np.random.default_rng(2)
    rows = np.full(30, 500.0)
    truth = np.tile([0.0, 0.3, 0.7], (30, 1)) * 500
    noisy = truth + rng.normal(0, 40, truth.shape)
    found = shrink_class_shares(noisy, np.ones(truth.shape, dtype=bool), rows, variance=1600.0)
    assert np.abs(found - truth).mean() < np.abs(noisy - truth).mean() / 2
    assert found.sum(axis=1).round(6).tolist() == rows.tolist()


@pytest.mark.slow
def test_skewed_numbers_in_a_wide_range_get_bins_where_they_are():
    """A thousand millions, of which nearly all are below a hundred thousand, some are 0 and a few negative."""
    column = UnknownBins(name="x", min=Fraction(-(10**9)), max=Fraction(10**9), of=IntegerColumn)
    grid = DiscoveryGrid.of(column)
    rng = np.random.default_rng(3)
    values = np.sort(np.rint(np.exp(rng.normal(10, 1.2, 20_000))))
    values[:3000], values[3000:3100] = 0, -5000
    cells = np.bincount(np.searchsorted(grid.starts, values, side="right") - 1, minlength=grid.cells)
    sums = np.concatenate([[0], np.cumsum(cells)])
    drawn = sketch_histogram(
        grid, lambda parts, _: (np.array([sums[b] - sums[a] for a, b in parts], dtype=float), 1.0)
    )
    cuts = choose_bin_edges(grid, drawn, deviation=1.0)
    assert 12 <= len(cuts) <= DISCOVERY_CONFIG.max_bins
    counts = np.diff(sums[[*cuts, grid.cells]])
    zero = int(np.searchsorted(grid.starts, 0))
    assert {zero, zero + 1} <= set(cuts), "the spike is a bin of its own"
    assert np.delete(counts, cuts.index(zero)).max() < 20_000 / 8


def test_columns_known_far_better_are_met_by_the_model():
    """Pairs that contradict a sure column give way; without the sure table they would not."""
    domain = Domain({"a": 3, "b": 4, "c": 4})
    sure = Measurement(Marginal(("a",)), np.array([500, 300, 200]), Fraction(1))
    rng = np.random.default_rng(4)
    others = [
        Measurement(Marginal((name,)), np.array([250, 250, 250, 250]), Fraction(400)) for name in ("b", "c")
    ]
    pairs = [
        Measurement(Marginal(("a", name)), rng.integers(40, 130, (3, 4)), Fraction(400))
        for name in ("b", "c")
    ]
    model = fit_model([sure, *others, *pairs], space=ModelSpace(domain=domain))
    shares = model.marginal(("a",)) / model.total
    assert np.abs(shares - [0.5, 0.3, 0.2]).max() < 0.002
