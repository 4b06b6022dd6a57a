"""Columns of decimals with a bottom code, of which it is learnt how values lie inside their bins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import populace as pp
from populace.methods.discovery.discovery_grid import DiscoveryGrid

HOURS = """
[columns.hours]
kind = "numeric"
edges = [{edges}]
bottom = {bottom}
top = {top}
inside = "learn"
{decimals}
"""


@pytest.mark.parametrize(
    ("edges", "decimals"),
    [
        ((1, 10, 20, 40, 80), "decimals = 1"),
        pytest.param((0, 1000, 50_000), "decimals = 2", marks=pytest.mark.slow),
        pytest.param((-2.5, 0.5, 3), "decimals = 1", marks=pytest.mark.slow),
        pytest.param((0, 2.5, 10), "", marks=pytest.mark.slow),
    ],
)
def test_every_cell_of_the_grid_holds_a_number(edges: tuple[float, ...], decimals: str) -> None:
    text = HOURS.format(edges=", ".join(map(str, edges)), bottom=edges[0], top=edges[-1], decimals=decimals)
    column = pp.Schema.parse(text).columns["hours"]
    grid = DiscoveryGrid.of(column)
    assert (np.diff(grid.starts) > 0).all()
    assert (grid.starts[1] - grid.starts[0]) == 1
    assert grid.column.levels == grid.cells
    places = grid.places(column)
    assert [grid.value(cell) for cell in places[[0, -2]]] == [edges[0], edges[-1]]


def test_a_heap_at_the_bottom_code_and_one_beside_it_are_kept(tmp_path: Path) -> None:
    text = HOURS.format(edges="1, 10, 20, 40, 80", bottom=1, top=80, decimals="decimals = 1")
    rng = np.random.default_rng(1)
    rows = np.round(rng.choice([0.5, 1, 15, 36.5, 80, 95], 4000) + rng.choice([0.0, 0.3], 4000), 1)
    release = pp.synthesize(
        pd.DataFrame({"hours": rows}),
        schema=pp.Schema.parse(text),
        epsilon=10,
        delta="1e-9",
        ledger=tmp_path / "ledger.db",
    )
    # Noise may leave a row or two to the code of empty cells.
    found = release.table["hours"].astype(float).dropna()
    assert len(found) > 3900
    assert found.between(1, 80).all()
    for value, share in ((1.0, (rows <= 1).mean()), (1.3, (rows == 1.3).mean()), (80.0, (rows >= 80).mean())):
        assert (found == value).mean() == pytest.approx(share, abs=0.05)
