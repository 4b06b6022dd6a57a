"""A release simulated from a release: deterministic, possible, biased as non-negativity makes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from populace.release.report.hierarchy import simulated_release
from populace.release.report.hierarchy.nonnegativity_bias import TRUE_CLASS_ENDS, classify_bias
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy
from populace.release.report.hierarchy.simulated_release import simulate_release
from tests.helpers.small_geography import release_geography


@pytest.mark.parametrize("zeros", [False, True])
def test_the_simulation_is_a_possible_release_and_always_the_same(tmp_path: Path, zeros: bool) -> None:
    release = release_geography(tmp_path / "ledger.db", zeros=zeros, epsilon="1")
    shown = PublishedHierarchy.of(release.measurements, model=release.model)
    found, again = simulate_release(shown), simulate_release(shown)
    assert found is not None
    assert again is not None
    spine = shown.measured.plan.spine
    for level, table in enumerate(found.tables):
        assert np.array_equal(table, again.tables[level])
        assert table.min() >= 0
        if level:
            assert np.array_equal(spine.sum_children(table, level=level), found.tables[level - 1])
        published, unbiased = found.total_errors(level)
        assert published.shape == unbiased.shape == (spine.units(level),)
    # The truth is what was published: it is not what the simulation publishes.
    assert not np.array_equal(found.tables[-1], found.truth[-1])
    # A cell of 0 can only be raised.
    classes = classify_bias(
        (found.tables[-1] - found.truth[-1]).astype(float),
        by=found.truth[-1].astype(float),
        ends=TRUE_CLASS_ENDS,
    )
    assert classes[0].label == "0"
    assert classes[0].asymmetry in (1.0, None)


def test_very_large_tables_are_not_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = release_geography(tmp_path / "ledger.db")
    monkeypatch.setattr(simulated_release, "MAX_SIMULATED_COUNTS", 10)
    assert simulate_release(PublishedHierarchy.of(release.measurements, model=release.model)) is None
