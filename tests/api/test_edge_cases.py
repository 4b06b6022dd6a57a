"""Runs that must end in a saved release once they are paid for, however odd what was asked."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.marginals import Candidates, Marginal

WIDE = pp.Workload(weights={("a", "b", "c", "d"): Fraction(1)})
HEAVY = pp.Workload(weights={("a", "b"): Fraction(10**308), ("c", "d"): Fraction(1)})
FOUR = {"a": 2, "b": 3, "c": 2, "d": 2}


def frame(sizes: dict[str, int], rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({name: rng.integers(0, size, rows) for name, size in sizes.items()})


@pytest.mark.parametrize(
    ("sizes", "rows", "asked"),
    [
        pytest.param({"a": 4}, 100, {"epsilon": 20, "delta": 0}, id="hardly any Laplace noise"),
        pytest.param({"a": 4, "b": 3, "c": 2}, 500, {"epsilon": 100, "delta": 0}, id="pairs, hardly any"),
        pytest.param({"a": 2, "b": 3, "c": 7}, 300, {"epsilon": 10**6}, id="hardly any Gaussian noise"),
        pytest.param({"a": 2, "b": 100_000}, 500, {}, id="a column 50,000 times as large as another"),
        pytest.param(FOUR, 5_000, {"epsilon": 10, "method": "aim", "workload": WIDE}, id="four columns"),
        pytest.param(FOUR, 2_000, {"workload": HEAVY}, id="weights as far apart as floats"),
        pytest.param({"a": 1, "b": 5, "c": 2}, 10, {"implicates": 3}, id="a column of one code"),
        pytest.param({"a": 2, "b": 3, "c": 7}, 0, {}, id="no rows"),
    ],
)
@pytest.mark.slow
def test_a_paid_run_ends_in_a_release(
    sizes: dict[str, int], rows: int, asked: dict[str, object], tmp_path: Path
) -> None:
    words = {"epsilon": 1, "delta": "1e-9"} | asked
    release = pp.synthesize(
        frame(sizes, rows), schema=pp.Schema.from_sizes(sizes), ledger=tmp_path / "ledger.db", **words
    )
    release.save(tmp_path / "out")
    assert pp.Release.load(tmp_path / "out").table.column_names == list(sizes)


def test_an_empty_workload_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="asks for nothing"):
        pp.synthesize(
            frame(FOUR, 10),
            schema=pp.Schema.from_sizes(FOUR),
            epsilon=1,
            delta="1e-9",
            workload=pp.Workload(weights={}),
            ledger=tmp_path / "ledger.db",
        )
    assert not (tmp_path / "ledger.db").exists()


def test_estimates_cannot_change_after_they_were_checked() -> None:
    mine = np.zeros(3, dtype=np.int64)
    candidates = Candidates((Marginal(("a",)),), (mine[:],), (0,))
    mine[0] = 2**62
    assert candidates.estimates[0].tolist() == [0, 0, 0]
