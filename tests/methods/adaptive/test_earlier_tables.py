"""A run that knows tables of earlier releases: what it does not ask again, and what it asks instead."""

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Grouping, Marginal
from populace.measurements.measurements import Measurement
from populace.methods.adaptive.earlier_tables import EarlierTables
from populace.methods.adaptive.pair_screen import PairScreen
from populace.methods.selection.budget_allocation import ColumnCosts, PrecisionMap, allocate
from populace.schema.schema import Schema
from tests.helpers.priced_oracle import PricedOracle, dependent, run

SIZES = {"a": 4, "b": 4, "c": 3}


def test_known_columns_and_pairs_are_not_asked_again():
    rows = dependent(np.random.default_rng(0), SIZES, 20_000)
    first, second = (PricedOracle(rows, sizes=SIZES, seed=seed) for seed in (1, 2))
    known = run(first)
    assert EarlierTables(known, schema=first.schema).pairs == {("a", "b"), ("a", "c"), ("b", "c")}
    second.earlier = known
    run(second)
    assert [verb for verb, *_ in first.asked].count("score") == 1
    assert {verb for verb, *_ in second.asked} == {"measure"}
    # Nothing is left over, and tables have the cells of earlier ones: all of them pool.
    assert second.used > 0.999
    cells = {item.marginal for item in known}
    assert all(item.marginal in cells for item in second.measured if len(item.marginal.clique) > 1)
    # Together they are as precise as one run of both budgets would have them, or better.
    both = [first.precision(clique) + second.precision(clique) for clique in second.cliques(2)]
    assert sum(both) > 1.9 * sum(first.precision(clique) for clique in first.cliques(2))


def test_pairs_that_are_not_known_are_scored_against_the_model_of_the_others():
    rows = dependent(np.random.default_rng(0), SIZES, 20_000)
    first, second = (PricedOracle(rows, sizes=SIZES, seed=seed) for seed in (1, 2))
    second.earlier = tuple(item for item in run(first) if item.marginal.clique != ("a", "c"))
    scored = []
    ask = second.score
    second.score = lambda candidates, *, noise: scored.append(candidates) or ask(candidates, noise=noise)
    run(second)
    (candidates,) = scored
    assert [marginal.clique for marginal in candidates.marginals] == [("a", "c")]
    # a follows b and b follows c, so that the model expects what independence does not.
    table = candidates.estimates[0]
    alone = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    exact = second.count(candidates.marginals[0])
    assert np.abs(table - exact).sum() < 0.5 * np.abs(alone - exact).sum()


def test_precisions_that_are_known_come_on_top_of_the_budget():
    each = np.arange(2)
    own = PrecisionMap(of=each, about=each, part=np.ones(2))
    none = PrecisionMap(of=each[:0], about=each[:0], part=np.ones(0))
    columns = ColumnCosts(alone=np.full(1, 1e-9), merged=np.zeros(1), known=np.ones(1))
    asked = {"tables": 2, "pairs": own, "singles": none, "columns": columns, "budget": 1.0}
    even, _ = allocate(np.ones(2), **asked)
    found, _ = allocate(np.ones(2), known=np.array([0.5, 0.0]), **asked)
    assert even == pytest.approx([0.5, 0.5], abs=0.01)
    # Together they are as even as they can be: 0.5 + 0.25 and 0.75.
    assert found == pytest.approx([0.25, 0.75], abs=0.01)


def test_groups_of_earlier_tables_are_kept():
    schema = Schema.from_sizes({"a": 3, "b": 2})
    pair = Marginal(("a", "b"), (Grouping("a", (0, 1, 1)),))
    items = [
        Measurement(Marginal(("a",)), np.array([500, 300, 200]), Fraction(4)),
        Measurement(Marginal(("b",)), np.array([600, 400]), Fraction(4)),
        Measurement(pair, np.array([[300, 200], [300, 200]]), Fraction(4)),
    ]
    earlier = EarlierTables(items, schema=schema)
    oracle = PricedOracle({"a": np.arange(9) % 3, "b": np.arange(9) % 2}, sizes={"a": 3, "b": 2})
    screen = PairScreen(oracle, earlier.columns, earlier=earlier)
    assert screen.marginal(("a", "b")) == pair
    assert screen.is_known(("a", "b"))
    assert screen.known_precisions([("a", "b")]).tolist() == [0.25]
