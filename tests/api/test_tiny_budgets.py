"""Budgets so small that noise would not fit 64 bits are refused before anything is spent; the next larger ones run."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.api import measure as measure_api
from populace.core.errors import UsageError
from populace.core.marginals import MAX_ESTIMATE_ROWS, Domain
from populace.methods.registry import METHODS
from populace.methods.selection.candidates import compare_candidates, round_table
from populace.methods.workload import resolve_workload
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.privacy.noise.distributions import MAX_SCALE
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

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
    return measure_api.measure(rows(sizes), public=public, **asked)


@pytest.mark.parametrize("method", sample_cases(["pmw", "adaptive", "mwem", "privbayes"], to=2))
def test_noise_that_would_not_fit_is_refused_before_anything_is_spent(method, tmp_path):
    sizes = dict.fromkeys((f"c{number}" for number in range(60)), 3)
    with pytest.raises(UsageError, match="too small for 60 columns"):
        run(sizes, method=method, epsilon="1e-9", ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize("sizes", [MANY, LONG], ids=["many", "long"])
@pytest.mark.parametrize(
    "method", sorted({*METHODS} - {"histogram-exponential", "stability", "gem", "topdown"})
)
@pytest.mark.slow
def test_the_least_budget_that_is_not_refused_runs_to_its_end(method, sizes, tmp_path):
    columns, wanted = len(sizes), resolve_workload(None)(Schema.from_sizes(sizes)).weights
    parts = 1000 * columns + 100 * (math.comb(columns, 2) + len(wanted))
    least = Fraction(parts, MAX_SCALE)
    with pytest.raises(UsageError, match="too small"):
        run(sizes, method=method, epsilon=least * Fraction(999, 1000), ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()
    assert run(
        sizes, method=method, epsilon=least * Fraction(1001, 1000), ledger=tmp_path / "l.db"
    ).record.finished


class Guess:
    domain, groupings, total = Domain({"a": 2**10}), {}, 1e30

    def tables(self, cliques):
        return {clique: np.full(2**10, 1e27) for clique in cliques}

    def fits(self, clique, *, max_cells):
        return True


def test_estimates_and_penalties_stay_where_scores_fit():
    found = compare_candidates(Guess(), {("a",): 1000}, noise=DiscreteLaplace(Fraction(MAX_SCALE) ** 2))
    assert found.penalties == (MAX_ESTIMATE_ROWS,)
    assert MAX_ESTIMATE_ROWS / 2.01 < 1000 * int(found.estimates[0].sum()) <= MAX_ESTIMATE_ROWS
    assert round_table(np.array([1.4e9, 2.6]), weight=1000).tolist() == [1_400_000_000, 3]
