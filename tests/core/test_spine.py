"""The tree of units: order, ancestors and sums."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.spine import Spine, number_paths


def test_sums_over_children_follow_the_ancestors() -> None:
    rng = np.random.default_rng(7)
    paths = [(f"{a}", f"{b}", f"{c}") for a in range(4) for b in range(1 + a) for c in range(1 + (a * b) % 3)]
    rng.shuffle(paths)
    spine, ids = number_paths(paths, levels=("state", "county", "tract"))
    assert spine.leaves == len(paths) == len(ids[-1])
    values = rng.integers(0, 9, size=(spine.leaves, 2))
    for level in range(spine.depth):
        direct = np.zeros((spine.units(level), 2), dtype=np.int64)
        np.add.at(direct, spine.ancestors(level), values)
        summed = values
        for below in range(spine.depth - 1, level, -1):
            summed = spine.sum_children(summed, level=below)
        assert (summed == direct).all()


@pytest.mark.parametrize("parents", [[], [1], [0, 2], [0, 1, 0], [0, 0]])
def test_units_out_of_order_or_without_children_are_refused(parents: list[int]) -> None:
    with pytest.raises(UsageError):
        Spine(("all", "a", "b"), (np.array([0, 0]), np.array(parents, dtype=np.int64)))
