"""What a plan says of pairs: the noise of a pair that was not measured is the noise it would have had."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Clique, Marginal
from populace.inference.gls.count_intervals import CountIntervals
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.planning.plan import plan
from populace.planning.simulated.pair_errors import (
    PairPrecision,
    SimulatedPairError,
    predict_pair_errors,
    simulate_pair_errors,
)
from populace.planning.simulated.populations import SimulatedPopulation, invent_population
from populace.planning.simulated.total_variation import compute_noise_errors
from populace.schema.schema import Schema

SIZES = Schema.from_sizes({"a": 4, "b": 6, "c": 6, "d": 5})
NONE = dict.fromkeys("abcd", 0.0)
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


def population(schema: Schema = SIZES, *, rows: int = 50_000) -> SimulatedPopulation:
    return invent_population(schema, rows=rows, rng=np.random.default_rng(1))


def measured(
    found: SimulatedPopulation, cliques: Sequence[Clique], *, variance: int = 100, seed: int = 2
) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    items = []
    for clique in cliques:
        exact = found.exact(Marginal(clique))
        noise = np.rint(rng.normal(0, variance**0.5, exact.shape)).astype(np.int64)
        items.append(Measurement(Marginal(clique), exact + noise, Fraction(variance)))
    return items


def whole_columns(schema: Schema) -> SimulatedPopulation:
    """Return rows in which every code is frequent, so that none share a group."""
    codes = {name: np.arange(60_000, dtype=np.uint8) % size for name, size in schema.domain.sizes.items()}
    return SimulatedPopulation(schema=schema, codes=codes, rows=60_000, times=1.0)


def test_the_noise_of_a_pair_is_what_least_squares_would_leave_of_it() -> None:
    """300 draws of 24 cells: their variance lies within a tenth of what it should be."""
    found = whole_columns(SIZES)
    items = measured(found, [("a",), ("b",), ("c",), ("a", "b"), ("c", "d")])
    level = PairPrecision.of(items, population=found)
    assert level.groupings == {}
    rng = np.random.default_rng(3)
    drawn = np.mean([level.noise(("a", "c"), rng=rng) ** 2 for _ in range(300)])
    more = [*items, *measured(found, [("a", "c")])]
    interval = CountIntervals(more, space=ModelSpace(domain=SIZES.domain)).of("a", "c")
    assert drawn == pytest.approx(float((interval.error**2).mean()), rel=0.1)
    assert drawn < 90, "columns should tell of the pair too"


def test_larger_pairs_get_the_precision_that_their_size_got_elsewhere() -> None:
    schema = Schema.from_sizes({name: 2 + 2 * place for place, name in enumerate("abcdefgh")})
    found = whole_columns(schema)
    pairs: list[Clique] = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")]
    items = measured(found, [(name,) for name in "abcdefgh"])
    for pair in pairs:
        cells = schema.domain.cells(pair)
        items += measured(found, [pair], variance=round(10_000 / cells**0.5))
    level = PairPrecision.of(items, population=found)
    assert level.power == pytest.approx(0.5, abs=0.02)
    inside = level.noise(("g", "h"), rng=np.random.default_rng(5))
    inside -= inside.mean(axis=0)
    inside -= inside.mean(axis=1, keepdims=True)
    # 14 × 16 cells, of whose noise that of 13 × 15 is left.
    assert inside.var() * (14 * 16) / (13 * 15) == pytest.approx(10_000 / (14 * 16) ** 0.5, rel=0.4)


def test_pairs_that_were_measured_keep_their_errors_and_others_get_one() -> None:
    found = population()
    items = measured(found, [(name,) for name in "abcd"] + [("a", "b"), ("c", "d")])
    pairs = simulate_pair_errors(
        items, population=found, measured={("a", "b"): 0.125, ("c", "d"): 0.25}, rng=np.random.default_rng(1)
    )
    assert len(pairs) == 6
    assert (pairs["a", "b"].error, pairs["c", "d"].error) == (0.125, 0.25)
    assert 0 < pairs["b", "c"].error < 0.1
    assert all(0 <= one.max_dependence < 1 for one in pairs.values())


def test_pairs_stand_in_the_order_of_the_schema_however_they_were_measured() -> None:
    found = population()
    items = measured(found, [(name,) for name in "abcd"] + [("d", "c")])
    _, pairs = compute_noise_errors(items, schema=found.schema, exact=found.exact)
    assert list(pairs) == [("c", "d")]


def test_where_no_pair_is_measured_columns_tell_what_one_would_have_got() -> None:
    """Each of four columns is in three pairs: a pair of as many cells has a variance larger by 3 to the power 2/3."""
    found = whole_columns(SIZES)
    level = PairPrecision.of(measured(found, [(name,) for name in "abcd"]), population=found)
    inside = np.array([level.noise(("b", "c"), rng=np.random.default_rng(seed)) for seed in range(300)])
    inside -= inside.mean(axis=1, keepdims=True)
    inside -= inside.mean(axis=2, keepdims=True)
    like_columns = (
        inside.var() * 36 / 25 * 36**level.power / np.exp(np.mean(np.log([4, 6, 6, 5]))) ** level.power
    )
    assert like_columns == pytest.approx(100 * 3 ** (2 / 3), rel=0.1)


def test_without_simulated_pairs_nothing_is_predicted() -> None:
    assert predict_pair_errors([{}, {}], measured=[(), ()], weights=[1, 1], schema=SIZES, columns={}) == {}


def test_a_column_whose_codes_share_a_group_leaves_no_room() -> None:
    """All codes of the first column but one are lost in noise of 20 rows: no run measures a pair with it."""
    codes = {name: np.arange(5000) % size for name, size in SIZES.domain.sizes.items()}
    codes["a"] = np.arange(5000) // 4999
    found = SimulatedPopulation(schema=SIZES, codes=codes, rows=5000, times=1.0)
    items = measured(found, [(name,) for name in "abcd"], variance=400)
    pairs = simulate_pair_errors(items, population=found, measured={}, rng=np.random.default_rng(2))
    assert pairs["a", "b"].max_dependence == 0
    assert pairs["b", "d"].max_dependence == pytest.approx(0.8, abs=0.01)


def test_cells_that_rules_forbid_have_no_noise() -> None:
    """With a = b the pair has 10 cells in place of 100."""
    errors = []
    for text in (DIAGONAL, DIAGONAL + RULE):
        schema = Schema.parse(text)
        codes = {name: np.arange(5000, dtype=np.uint8) % 10 for name in "abc"}
        found = SimulatedPopulation(schema=schema, codes=codes, rows=5000, times=1.0)
        items = measured(found, [("a",), ("b",), ("c",), ("b", "c")], variance=400)
        pairs = simulate_pair_errors(items, population=found, measured={}, rng=np.random.default_rng(2))
        errors.append(pairs["a", "b"].error)
    assert errors[1] < 0.6 * errors[0]


def simulated(errors: dict[Clique, tuple[float, float]]) -> dict[Clique, SimulatedPairError]:
    return {
        pair: SimulatedPairError(error=error, cells=12, max_dependence=room)
        for pair, (error, room) in errors.items()
    }


def test_a_pair_counts_where_its_columns_could_hang_together() -> None:
    schema = Schema.from_sizes({"a": 6, "b": 6})
    runs = [simulated({("a", "b"): (0.2, 0.8)}), simulated({("a", "b"): (0.02, 0.2)})]
    columns = {"a": 0.3, "b": 0.01}
    found = predict_pair_errors(runs, measured=[(), ()], weights=[1, 1], schema=schema, columns=columns)[
        "a", "b"
    ]
    assert found.error.mean == pytest.approx(0.8 * 0.2 + 0.2 * 0.02)
    assert found.error.low < 0.02
    assert found.error.high > 0.2
    assert (found.cells, found.groups, found.measured) == (36, 12, 0)
    assert found.all_cells_bound == 0.3, "in all of its cells no pair errs by less than a column in it"


def test_pairs_that_were_measured_tell_of_others_of_their_size() -> None:
    schema = Schema.from_sizes({"a": 6, "b": 6, "c": 6})
    run = simulated({("a", "b"): (0.1, 0.5), ("a", "c"): (0.3, 0.5), ("b", "c"): (0.5, 0.5)})
    found = predict_pair_errors([run], measured=[[("a", "c")]], weights=[1], schema=schema, columns=NONE)
    assert found["b", "c"].error.mean == pytest.approx(0.3, rel=0.01)
    assert (found["a", "c"].measured, found["b", "c"].measured) == (1, 0)


def test_pairs_of_as_many_codes_are_told_the_same_and_others_not() -> None:
    schema = Schema.from_sizes({"a": 6, "b": 6, "c": 6, "d": 90})
    run = simulated(
        {("a", "b"): (0.1, 0.5), ("a", "c"): (0.3, 0.5), ("b", "c"): (0.2, 0.5)}
        | {(name, "d"): (0.6, 0.5) for name in "abc"}
    )
    found = predict_pair_errors([run], measured=[()], weights=[1], schema=schema, columns=NONE)
    assert {round(found[pair].error.mean, 3) for pair in (("a", "b"), ("a", "c"), ("b", "c"))} == {0.2}
    assert found["a", "d"].error.mean == pytest.approx(0.6, rel=0.01)


@pytest.mark.parametrize(("method", "pairs"), [("independent", 0), ("mst", 6), ("adaptive", 6)])
@pytest.mark.slow
def test_methods_tell_of_all_pairs_or_of_none(method: str, pairs: int) -> None:
    found = plan(SIZES, population=20_000, epsilon=1, delta="1e-9", method=method)
    assert len(found.by_pair) == pairs
    for pair in found.by_pair.values():
        assert pair.error.low <= pair.error.mean <= pair.error.high
    if method == "mst":
        # A tree of four columns has 3 pairs; it leaves out a column that says nothing.
        assert found.pairs_measured.high == 3
        assert sum(pair.measured for pair in found.by_pair.values()) <= 3 * found.simulations
