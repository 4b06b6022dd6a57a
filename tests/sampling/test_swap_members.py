"""Members exchanged between units: what may change, what may not, and how near the tables across come."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping
from populace.sampling.swap_members import MemberBlock, swap_members
from populace.schema.conditions.rules import NO_RULES, Rule, Rules

ROWS = 2000
DOMAIN = Domain({"home": 3, "age.1": 6, "sex.1": 2, "age.2": 7, "sex.2": 3})
BLOCKS = [
    MemberBlock(columns=frozenset({"age.1", "sex.1"}), column="age.1", absent=6),
    MemberBlock(columns=frozenset({"age.2", "sex.2"}), column="age.2", absent=6),
]


def couples(rng):
    """Return households in which partners are of one age and owners are old; some have nobody in second place."""
    age = rng.integers(0, 6, ROWS)
    there = rng.random(ROWS) < 0.7
    found = {
        "home": np.where(rng.random(ROWS) < 0.8, age // 2, rng.integers(0, 3, ROWS)),
        "age.1": age,
        "sex.1": rng.integers(0, 2, ROWS),
        "age.2": np.where(there, np.clip(age + rng.integers(-1, 2, ROWS), 0, 5), 6),
        "sex.2": np.where(there, rng.integers(0, 2, ROWS), 2),
    }
    return {name: codes.astype(np.uint8) for name, codes in found.items()}


def table(codes, *names):
    cells = np.ravel_multi_index([codes[name] for name in names], DOMAIN.shape(names))
    return np.bincount(cells, minlength=DOMAIN.cells(names)).reshape(DOMAIN.shape(names)).astype(float)


def shuffle(codes, rng):
    """Return the same households with their members dealt out at random."""
    found = {name: each.copy() for name, each in codes.items()}
    for block in BLOCKS:
        there = np.flatnonzero(codes[block.column] != block.absent)
        mixed = rng.permutation(there)
        for name in block.columns:
            found[name][there] = codes[name][mixed]
    return found


def distance(codes, target, *names):
    return np.abs(table(codes, *names) - target).sum() / 2 / ROWS


def test_tables_across_are_reached_and_nothing_inside_a_place_changes() -> None:
    rng = np.random.default_rng(1)
    real = couples(rng)
    across = [("home", "age.1"), ("home", "age.2"), ("age.1", "age.2"), ("sex.1", "sex.2")]
    targets = {names: table(real, *names) for names in across}
    codes = shuffle(real, rng)
    before = {names: table(codes, *names) for names in (("age.1", "sex.1"), ("age.2", "sex.2"), ("home",))}
    far = {names: distance(codes, target, *names) for names, target in targets.items()}
    swap_members(codes, blocks=BLOCKS, targets=targets, domain=DOMAIN, rules=NO_RULES, rng=rng)
    assert far["home", "age.1"] > 0.2
    assert far["age.1", "age.2"] > 0.2
    near = {names: distance(codes, target, *names) for names, target in targets.items()}
    assert max(near.values()) < 0.02
    assert all(np.array_equal(table(codes, *names), counts) for names, counts in before.items())


@pytest.mark.slow
def test_many_tables_that_are_nearly_met_do_not_outvote_one_that_is_far_off() -> None:
    rng = np.random.default_rng(2)
    real = couples(rng)
    # Fifteen columns of the household that have nothing to do with anybody: each table is met but for chance.
    idle = {f"idle{i}": rng.integers(0, 5, ROWS).astype(np.uint8) for i in range(15)}
    domain = Domain({**DOMAIN, **dict.fromkeys(idle, 5)})
    codes = {**shuffle(real, rng), **idle}
    targets = {(name, "age.2"): np.outer(np.ones(5), table(real, "age.2")) for name in idle}
    targets["age.1", "age.2"] = table(real, "age.1", "age.2")
    far = distance(codes, targets["age.1", "age.2"], "age.1", "age.2")
    swap_members(codes, blocks=BLOCKS, targets=targets, domain=domain, rules=NO_RULES, rng=rng)
    assert distance(codes, targets["age.1", "age.2"], "age.1", "age.2") < far / 8


def test_no_exchange_breaks_a_rule() -> None:
    rng = np.random.default_rng(3)
    real = couples(rng)
    # Nobody in the second place is more than one step older than the first.
    allowed = np.ones((6, 7), dtype=np.bool_)
    allowed[:, :6] = np.subtract.outer(np.arange(6), np.arange(6)) >= -1
    classes = {name: Grouping(name, tuple(range(DOMAIN[name]))) for name in ("age.1", "age.2")}
    rules = Rules(
        classes=classes, rules=(Rule(clique=("age.1", "age.2"), allowed=allowed, text="no older partners"),)
    )
    codes = {name: each.copy() for name, each in real.items()}
    # The target asks for the opposite of the rule.
    targets = {("age.1", "age.2"): table(real, "age.1", "age.2")[::-1]}
    swap_members(codes, blocks=BLOCKS, targets=targets, domain=DOMAIN, rules=rules, rng=rng, rounds=5)
    assert not np.array_equal(codes["age.2"], real["age.2"])
    assert allowed[codes["age.1"], codes["age.2"]].all()
