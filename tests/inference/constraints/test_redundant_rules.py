"""Rules that follow from others are not stated, and hold all the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import populace as pp
from populace.core.marginals import Domain, Grouping
from populace.inference.constraints.support import drop_redundant_rules
from populace.schema.conditions.rules import Rule, Rules
from tests.helpers.random_rules import allowed_rows

pytestmark = pytest.mark.sampled(6)


def between(names: str, relations: dict[str, np.ndarray]) -> Rules:
    size = len(next(iter(relations.values())))
    return Rules(
        classes={name: Grouping(name, tuple(range(size))) for name in names},
        rules=tuple(Rule(text=pair, clique=(pair[0], pair[1]), allowed=t) for pair, t in relations.items()),
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_allows_the_same_rows(seed: int) -> None:
    """Orders, equalities, successors and tables at random, on five columns; in random directions."""
    rng = np.random.default_rng(seed)
    kinds = [np.tri(3, dtype=bool), np.eye(3, dtype=bool), np.tri(3, k=1, dtype=bool), ~np.eye(3, dtype=bool)]
    relations = {}
    for pair in combinations(rng.permutation(list("abcde")), 2):
        table = kinds[rng.integers(4)] if rng.random() < 0.8 else rng.random((3, 3)) < 0.8
        if rng.random() < 0.8:
            one, other = pair if rng.random() < 0.5 else pair[::-1]
            relations[f"{one}{other}"] = table if rng.random() < 0.9 else table.T
    rules = between("abcde", relations)
    domain = Domain(dict.fromkeys("abcde", 3))
    left = drop_redundant_rules(rules)
    assert np.array_equal(allowed_rows(left, domain), allowed_rows(rules, domain))
    assert set(left.rules) <= set(rules.rules)


def test_orders_become_chains_and_circles_stay_tied() -> None:
    below, same = np.tri(4, dtype=bool).T, np.eye(4, dtype=bool)
    order = between("abcdefgh", {f"{a}{b}": below for a, b in combinations("abcdefgh", 2)})
    assert [rule.text for rule in drop_redundant_rules(order).rules] == [
        "ab",
        "bc",
        "cd",
        "de",
        "ef",
        "fg",
        "gh",
    ]
    alike = between("abcde", {f"{a}{b}": same for a, b in combinations("abcde", 2)})
    assert len(drop_redundant_rules(alike).rules) == 4
    apart = between("abc", {f"{a}{b}": ~same for a, b in combinations("abc", 2)})
    assert drop_redundant_rules(apart) is apart


def test_days_in_order_compared_each_with_each(tmp_path: Path) -> None:
    """Eight columns: stated one by one, the model would have hundreds of millions of cells."""
    names = [f"day{number}" for number in range(8)]
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(np.sort(rng.integers(0, 12, (500, 8)), axis=1), columns=names)
    text = "".join(f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 11\nother = "0"\n' for name in names)
    text += "".join(f'[[zeros]]\nwhen = "{one} > {other}"\n' for one, other in combinations(names, 2))
    schema = pp.Schema.parse(text)
    release = pp.synthesize(
        rows, schema=schema, epsilon=1, delta="1e-9", method="mst", rows=3_000, ledger=tmp_path / "ledger.db"
    )
    found = release.table[names].to_numpy()
    assert len(found) == 3_000
    assert (np.diff(found, axis=1) >= 0).all()
