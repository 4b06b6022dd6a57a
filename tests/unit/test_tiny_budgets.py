"""Budgets so small that noise would not fit 64 bits are refused before anything is spent; the next larger ones run."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from thinned import thinned

from populace import pipeline
from populace.errors import UsageError
from populace.marginals import MOST_ROWS, Domain
from populace.privacy.distributions import LARGEST_SCALE
from populace.privacy.mechanisms import DiscreteLaplace
from populace.schema.schema import Schema
from populace.strategy.candidates import compared, whole_rows
from populace.strategy.methods import METHODS
from populace.strategy.workload import asked_workload

MANY = dict.fromkeys((f"c{number}" for number in range(12)), 3)
LONG = {"a": 50_000, "b": 1, "c": 2, "d": 2}


def rows(sizes, *, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, size, 30) for name, size in sizes.items()})


def run(sizes, *, method, epsilon, ledger):
    public = rows(sizes, seed=1) if method == "dpsyn" else None
    asked = {
        "schema": Schema.from_sizes(sizes),
        "epsilon": epsilon,
        "delta": 0,
        "ledger": ledger,
        "method": method,
    }
    return pipeline.measure(rows(sizes), public=public, **asked)


@pytest.mark.parametrize("method", thinned(["pmw", "adaptive", "mwem", "privbayes"], to=2))
def test_noise_that_would_not_fit_is_refused_before_anything_is_spent(method, tmp_path):
    sizes = dict.fromkeys((f"c{number}" for number in range(60)), 3)
    with pytest.raises(UsageError, match="too small for 60 columns"):
        run(sizes, method=method, epsilon="1e-9", ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize("sizes", [MANY, LONG], ids=["many", "long"])
@pytest.mark.parametrize("method", sorted({*METHODS} - {"histogram-exponential", "stability", "gem"}))
@pytest.mark.slow
def test_the_least_budget_that_is_not_refused_runs_to_its_end(method, sizes, tmp_path):
    columns, wanted = len(sizes), asked_workload(None)(Schema.from_sizes(sizes)).weights
    parts = 1000 * columns + 100 * (math.comb(columns, 2) + len(wanted))
    least = Fraction(parts, LARGEST_SCALE)
    with pytest.raises(UsageError, match="too small"):
        run(sizes, method=method, epsilon=least * Fraction(999, 1000), ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()
    assert run(
        sizes, method=method, epsilon=least * Fraction(1001, 1000), ledger=tmp_path / "l.db"
    ).record.finished


class Guess:
    domain, total = Domain({"a": 2**10}), 1e30

    def tables(self, cliques):
        return {clique: np.full(2**10, 1e27) for clique in cliques}

    def fits(self, clique, *, room):
        return True


def test_estimates_and_penalties_stay_where_scores_fit():
    found = compared(Guess(), {("a",): 1000}, noise=DiscreteLaplace(Fraction(LARGEST_SCALE) ** 2))
    assert found.penalties == (MOST_ROWS,)
    assert MOST_ROWS / 2.01 < 1000 * int(found.estimates[0].sum()) <= MOST_ROWS
    assert whole_rows(np.array([1.4e9, 2.6]), weight=1000).tolist() == [1_400_000_000, 3]
