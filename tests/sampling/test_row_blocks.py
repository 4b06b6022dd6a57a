"""Rows drawn block by block: as many as asked for, the same wherever blocks are drawn, and as near to the model."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from populace.core.marginals import Domain, Marginal, tabulate
from populace.inference.model import Model
from populace.sampling import row_blocks
from populace.sampling.draw_rows import draw_rows
from populace.sampling.row_blocks import draw_blocks, run_in_order, split_rows

DOMAIN = Domain({"a": 4, "b": 5, "c": 3})


@pytest.fixture
def model() -> Model:
    rng = np.random.default_rng(0)
    joint = rng.gamma(0.5, size=(4, 5, 3))
    joint /= joint.sum()
    targets = {("b", "c"): joint.sum(axis=0), ("a", "c"): joint.sum(axis=1)}
    potentials = {("a", "b"): np.log(joint.sum(axis=2))}
    return Model(domain=DOMAIN, groupings={}, potentials=potentials, total=1000.0, within={}, targets=targets)


@pytest.mark.parametrize("rows", [0, 1, 2**20, 2**20 + 1, 3 * 2**20, 16 * 2**20, 10**8, 10**9 + 7])
def test_blocks_have_all_rows_and_bounded_sizes(rows: int) -> None:
    groups = split_rows(rows)
    sizes = list(chain.from_iterable(groups))
    assert sum(sizes) == rows
    assert max(sizes) <= row_blocks.MAX_BLOCK_ROWS
    assert max(sizes) - min(sizes) <= 1
    assert max(map(len, groups)) <= row_blocks.MAX_COPIES


def draw(
    model: Model, *, rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, np.ndarray]]:
    monkeypatch.setattr(row_blocks, "count_cores", lambda: threads)
    return list(draw_blocks(model, rows=rows, rng=np.random.default_rng(3), then=lambda codes, _: codes))


def test_threads_change_no_row(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "MAX_BLOCK_ROWS", 500)
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 500)
    monkeypatch.setattr(row_blocks, "MAX_COPIES", 3)
    one, many = (draw(model, rows=4001, threads=threads, monkeypatch=monkeypatch) for threads in (1, 4))
    assert len(one) == len(many) == 9
    assert len({block["a"].tobytes() for block in one}) == 9, "no two blocks are in the same order"
    for mine, other in zip(one, many, strict=True):
        assert all(np.array_equal(mine[name], other[name]) for name in DOMAIN)


def test_blocks_are_as_near_to_the_targets_as_rows_drawn_at_once(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many rows, those of fitted blocks miss pairs by little more than rounding; rows that are not fitted fail."""
    rows = 40_000

    def miss(codes: dict[str, np.ndarray]) -> float:
        return max(
            0.5
            * np.abs(tabulate(Marginal(pair), codes=codes, domain=DOMAIN) / rows - model.targets[pair]).sum()
            for pair in model.targets
        )

    (whole,) = draw_rows(model, rows=rows, rng=np.random.default_rng(1), chunk=rows)
    monkeypatch.setattr(row_blocks, "MAX_BLOCK_ROWS", 4000)
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 4000)
    blocks = draw(model, rows=rows, threads=2, monkeypatch=monkeypatch)
    joined = {name: np.concatenate([block[name] for block in blocks]) for name in DOMAIN}
    (plain,) = draw_rows(model, rows=rows, rng=np.random.default_rng(1), chunk=rows, sweeps=0)
    assert miss(plain) > 0.05
    # What is left is what targets of one column in common leave to two sweeps.
    assert miss(whole) < 0.01
    assert miss(joined) < miss(whole) + 0.002


def test_a_failure_in_a_thread_is_not_lost() -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(run_in_order(iter([lambda: 1, fail, lambda: 3]), threads=2))
