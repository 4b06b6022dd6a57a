"""What a plan says of pairs: the noise of a pair that was not measured is the noise it would have had."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from populace.forecast.pairs import Level, Supposed, expected, pair_errors, suppose
from populace.forecast.plan import plan
from populace.forecast.population import Population, invent
from populace.infer.intervals import Intervals
from populace.marginals import Clique, Marginal
from populace.measurements import Measurement
from populace.schema.schema import Schema

SIZES = Schema.from_sizes({"a": 4, "b": 6, "c": 6, "d": 5})
DIAGONAL = """
[columns.a]
kind = "integer"
min = 0
max = 9
[columns.b]
kind = "integer"
min = 0
max = 9
[columns.c]
kind = "integer"
min = 0
max = 9
"""
RULE = """
[[zeros]]
when = "a != b"
"""


def population(schema: Schema = SIZES, *, rows: int = 50_000) -> Population:
    return invent(schema, rows=rows, rng=np.random.default_rng(1))


def measured(
    found: Population, cliques: Sequence[Clique], *, variance: int = 100, seed: int = 2
) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    items = []
    for clique in cliques:
        exact = found.exact(Marginal(clique))
        noise = np.rint(rng.normal(0, variance**0.5, exact.shape)).astype(np.int64)
        items.append(Measurement(Marginal(clique), exact + noise, Fraction(variance)))
    return items


def whole_columns(schema: Schema) -> Population:
    """Return rows in which every code is frequent, so that none share a group."""
    codes = {name: np.arange(60_000, dtype=np.uint8) % size for name, size in schema.domain.sizes.items()}
    return Population(schema=schema, codes=codes, rows=60_000, times=1.0)


def test_the_noise_of_a_pair_is_what_least_squares_would_leave_of_it() -> None:
    """300 draws of 24 cells: their variance lies within a tenth of what it should be."""
    found = whole_columns(SIZES)
    items = measured(found, [("a",), ("b",), ("c",), ("a", "b"), ("c", "d")])
    level = Level.of(items, population=found)
    assert level is not None
    assert level.groupings == {}
    rng = np.random.default_rng(3)
    drawn = np.mean([level.noise(("a", "c"), rng=rng) ** 2 for _ in range(300)])
    more = [*items, *measured(found, [("a", "c")])]
    told = Intervals(more, domain=SIZES.domain).of("a", "c")
    assert drawn == pytest.approx(float((told.error**2).mean()), rel=0.1)
    assert drawn < 90, "columns should tell of the pair too"


def test_larger_pairs_get_the_precision_that_their_size_got_elsewhere() -> None:
    schema = Schema.from_sizes({name: 2 + 2 * place for place, name in enumerate("abcdefgh")})
    found = whole_columns(schema)
    pairs: list[Clique] = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")]
    items = measured(found, [(name,) for name in "abcdefgh"])
    for pair in pairs:
        cells = schema.domain.cells(pair)
        items += measured(found, [pair], variance=round(10_000 / cells**0.5))
    level = Level.of(items, population=found)
    assert level is not None
    assert level.power == pytest.approx(0.5, abs=0.02)
    inside = level.noise(("g", "h"), rng=np.random.default_rng(5))
    inside -= inside.mean(axis=0)
    inside -= inside.mean(axis=1, keepdims=True)
    # 14 × 16 cells, of whose noise that of 13 × 15 is left.
    assert inside.var() * (14 * 16) / (13 * 15) == pytest.approx(10_000 / (14 * 16) ** 0.5, rel=0.4)


def test_pairs_that_were_measured_keep_their_errors_and_others_get_one() -> None:
    found = population()
    items = measured(found, [(name,) for name in "abcd"] + [("a", "b"), ("c", "d")])
    told = suppose(
        items, population=found, measured={("a", "b"): 0.125, ("d", "c"): 0.25}, rng=np.random.default_rng(1)
    )
    assert len(told) == 6
    assert (told["a", "b"].error, told["c", "d"].error) == (0.125, 0.25)
    assert 0 < told["b", "c"].error < 0.1
    assert all(0 <= one.room < 1 for one in told.values())


def test_without_any_pair_there_is_no_level_to_speak_of() -> None:
    found = population()
    items = measured(found, [(name,) for name in "abcd"])
    assert suppose(items, population=found, measured={}, rng=np.random.default_rng(1)) == {}
    assert pair_errors([{}, {}], measured=[(), ()], domain=SIZES.domain) == {}


def test_cells_that_rules_forbid_have_no_noise() -> None:
    """With a = b the pair has 10 cells in place of 100."""
    errors = []
    for text in (DIAGONAL, DIAGONAL + RULE):
        schema = Schema.parse(text)
        codes = {name: np.arange(5000, dtype=np.uint8) % 10 for name in "abc"}
        found = Population(schema=schema, codes=codes, rows=5000, times=1.0)
        items = measured(found, [("a",), ("b",), ("c",), ("b", "c")], variance=400)
        told = suppose(items, population=found, measured={}, rng=np.random.default_rng(2))
        errors.append(told["a", "b"].error)
    assert errors[1] < 0.6 * errors[0]


def test_a_pair_counts_where_its_columns_could_hang_together() -> None:
    rich, poor = Supposed(error=0.2, room=0.8), Supposed(error=0.02, room=0.2)
    assert expected([rich, poor]) == pytest.approx(0.8 * 0.2 + 0.2 * 0.02)
    assert expected([Supposed(error=0.3, room=0.0)] * 2) == pytest.approx(0.3)


@pytest.mark.parametrize(("method", "pairs"), [("independent", 0), ("mst", 6), ("adaptive", 6)])
def test_methods_tell_of_all_pairs_or_of_none(method: str, pairs: int) -> None:
    found = plan(SIZES, population=20_000, epsilon=1, delta="1e-9", method=method)
    assert len(found.by_pair) == pairs
    for told in found.by_pair.values():
        assert told.error.low <= told.error.mean <= told.error.high
    if method == "mst":
        assert sum(told.measured for told in found.by_pair.values()) == 3 * 3, (
            "a tree of four columns has 3 pairs"
        )
