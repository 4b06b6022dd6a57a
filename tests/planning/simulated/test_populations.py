"""Populations without private rows: invented from a schema, or read from a public table."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from populace.core.marginals import Marginal
from populace.planning.simulated.populations import (
    POPULATION,
    Scenario,
    SimulatedPopulation,
    invent_population,
    read_public_population,
)
from populace.planning.simulated.total_variation import total_variation
from populace.schema.codec.rule_repair import RuleRepair
from populace.schema.schema import Schema

SIZES = Schema.from_sizes({"sex": 2, "age": 40, "work": 5, "area": 12})
RULED = Schema.parse("""
[columns.age]
kind = "integer"
min = 0
max = 99
[columns.work]
kind = "categorical"
values = ["yes", "no"]
universe = "age >= 15"
outside = "child"
[[zeros]]
when = "age > 90 and work == 'yes'"
""")


def population(schema: Schema = SIZES, *, rows: int = 5000) -> SimulatedPopulation:
    return invent_population(schema, rows=rows, rng=np.random.default_rng(1))


def test_an_invented_one_fills_the_domain_it_was_given() -> None:
    found = population()
    assert {
        name: int(codes.max()) < SIZES.domain[name] for name, codes in found.codes.items()
    } == dict.fromkeys(SIZES.domain, True)
    assert found.exact(Marginal(("age", "work"))).sum() == 5000
    assert found.exact(Marginal(())) == 5000


def test_a_large_one_stands_for_all_of_its_rows() -> None:
    found = population(rows=10 * POPULATION.max_drawn_rows)
    assert found.times == 10
    assert abs(int(found.exact(Marginal(("sex",))).sum()) - 10 * POPULATION.max_drawn_rows) <= 2


def test_an_invented_one_keeps_the_rules() -> None:
    found = population(RULED)
    repair = RuleRepair(RULED.rulebook, variables=RULED.variables)
    assert not any(repair.violates(found.codes, rule).any() for rule in RULED.rules.rules)
    assert (found.codes["age"] < 15).any(), "the rule is never put to the test"


@pytest.mark.parametrize("size", [2, 9, 300])
@pytest.mark.slow
def test_columns_have_any_part_of_the_largest_entropy(size: int) -> None:
    schema = Schema.from_sizes({f"c{number}": size for number in range(15)})
    parts = []
    for evenness in (-1.0, 0.0, 1.0):
        found = invent_population(
            schema, rows=200_000, rng=np.random.default_rng(1), scenario=Scenario(evenness=evenness)
        )
        shares = [found.exact(Marginal((name,))) / 200_000 for name in schema.domain]
        parts.append([-float((p[p > 0] * np.log(p[p > 0])).sum() / np.log(size)) for p in shares])
    assert min(parts[1]) < (0.5 if size == 2 else 0.3)
    assert max(parts[1]) > 0.9
    uneven, usual, even = (np.mean(each) for each in parts)
    assert uneven + 0.08 < usual < even - 0.08


def test_turns_show_each_column_in_several_kinds() -> None:
    schema = Schema.from_sizes(dict.fromkeys("abcde", 50))
    peaks = np.array(
        [
            [
                invent_population(
                    schema, rows=5000, rng=np.random.default_rng(1), scenario=Scenario(rotation=rotation / 3)
                )
                .exact(Marginal((name,)))
                .max()
                for name in "abcde"
            ]
            for rotation in range(3)
        ]
    )
    assert (peaks.max(axis=0) > 2 * peaks.min(axis=0)).all()


def test_wide_tables_of_which_only_sizes_are_told_are_less_even() -> None:
    sizes = {f"c{number}": 20 for number in range(60)}
    bare = Schema.from_sizes(sizes)
    described = replace(
        bare, columns={name: replace(column, other=None) for name, column in bare.columns.items()}
    )
    even = []
    for schema in (bare, described):
        found = invent_population(schema, rows=5000, rng=np.random.default_rng(1))
        even.append(np.mean([found.exact(Marginal((name,))).max() / 5000 for name in sizes]))
    assert even[0] > 1.1 * even[1]


def test_columns_of_one_size_go_together_more_closely_than_others() -> None:
    """Twelve columns of six codes are one question asked twelve times over."""
    away = []
    for sizes in ([6] * 12, range(4, 16)):
        schema = Schema.from_sizes({f"c{number}": size for number, size in enumerate(sizes)})
        found = population(schema, rows=4000)
        tables = [found.exact(Marginal(pair)) for pair in combinations(schema.domain, 2)]
        away.append(np.mean([total_variation(t, np.outer(t.sum(axis=1), t.sum(axis=0))) for t in tables]))
    assert away[0] > 1.7 * away[1]


def test_columns_that_somebody_described_are_more_even() -> None:
    sizes = {f"c{number}": 20 for number in range(10)}
    bare = Schema.from_sizes(sizes)
    described = replace(
        bare, columns={name: replace(column, other=None) for name, column in bare.columns.items()}
    )
    even = []
    for schema in (bare, described):
        found = invent_population(schema, rows=5000, rng=np.random.default_rng(1))
        even.append(np.mean([found.exact(Marginal((name,))).max() / 5000 for name in sizes]))
    assert even[0] > 1.1 * even[1]


def test_columns_differ_and_hang_together() -> None:
    sizes = {name: 6 + number for number, name in enumerate("abcdefgh")}
    found = population(Schema.from_sizes(sizes), rows=20_000)
    peaks = [found.exact(Marginal((name,))).max() / 20_000 for name in "abcdefgh"]
    assert max(peaks) > 2 * min(peaks)
    away = []
    for pair in combinations("abcdefgh", 2):
        first, second = (found.exact(Marginal((name,))) for name in pair)
        away.append(total_variation(found.exact(Marginal(pair)), np.outer(first, second)))
    assert max(away) > 0.15 > 0.05 > min(away)


@pytest.mark.parametrize("rows", [10, 30, 75])
def test_a_public_one_is_cut_or_repeated(rows: int) -> None:
    schema = Schema.from_sizes({"x": 30})
    frame = pa.table({"x": list(range(30))})
    counts = read_public_population(frame, schema=schema, rows=rows, rng=np.random.default_rng(1)).exact(
        Marginal(("x",))
    )
    assert counts.sum() == rows
    assert counts.max() - counts.min() <= 1
