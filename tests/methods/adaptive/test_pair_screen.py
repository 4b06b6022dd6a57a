"""Pairs of linked tables before any is measured: in which groups they are asked for, and which are scored alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Marginal
from populace.core.progress import silent
from populace.methods.adaptive import pair_screen
from populace.methods.adaptive.adaptive import CONFIG, measure_adaptive
from populace.methods.adaptive.pair_screen import MIN_COARSE_GROUPS, PairScreen
from populace.methods.workload import Workload
from tests.helpers.linked_files import linked_schema
from tests.helpers.priced_oracle import PricedOracle

ROWS = 3000


def linked_oracle(epsilon) -> PricedOracle:
    """Return an oracle over random wide rows in which the ages of the first two persons are the same."""
    schema = linked_schema(most=3)
    rng = np.random.default_rng(5)
    rows = {name: rng.integers(0, size, ROWS) for name, size in schema.domain.items()}
    rows["age.2"] = rows["age.1"]
    oracle = PricedOracle(
        rows, sizes=dict(schema.domain), epsilon=epsilon, ordered=["age.1", "age.2", "age.3"]
    )
    oracle.schema = schema
    return oracle


def screen_of(oracle) -> PairScreen:
    noise = oracle.budget.measure_noise(CONFIG.first_share, marginals=len(oracle.domain))
    return PairScreen(oracle, oracle.measure([Marginal((name,)) for name in oracle.domain], noise=noise))


def together(pair) -> bool:
    return len({name.rpartition(".")[2] if "." in name else "" for name in pair}) == 1


def test_only_pairs_across_tables_or_persons_are_coarse(monkeypatch) -> None:
    # The average cell has to stand out of its noise four times as far: for five ages there are too few rows.
    monkeypatch.setattr(pair_screen, "RARE_THRESHOLD", 12.0)
    screen = screen_of(linked_oracle("1"))
    pairs = list(combinations(screen.domain, 2))
    coarse = screen.coarse_domains(pairs)
    assert set(coarse) == {pair for pair in pairs if not together(pair)}
    assert all(domain["age.1"] == MIN_COARSE_GROUPS < screen.domain["age.1"] for domain in coarse.values())
    for pair in (("age.1", "age.2"), ("age.1", "sex.1")):
        table = screen.candidates([pair]).estimates[0]
        assert table.shape == screen.marginal(pair).shape(screen.domain)
        assert table.sum() == pytest.approx(screen.total, abs=table.size)


def test_with_a_large_budget_nothing_is_coarse() -> None:
    screen = screen_of(linked_oracle("50"))
    assert screen.marginal(("age.1", "age.2")).shape(screen.domain) == (screen.domain["age.1"],) * 2


def test_a_run_scores_the_units_alone_first_spends_its_budget_and_finds_the_couples() -> None:
    oracle = linked_oracle("2")
    found = measure_adaptive(oracle, Workload.choose_default(oracle.schema), silent)
    assert oracle.looks[0] == (1, 2)
    assert oracle.looks[1][0] > 30
    assert 0.999 < oracle.used <= 1
    assert ("age.1", "age.2") in {item.marginal.clique for item in found}
