"""`measure_nist2018` between its rounds: what keeps codes apart, how columns are asked again, and how tables
are weighed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.core.progress import silent
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.measurements.measurements import Measurement
from populace.methods.nist2018 import nist2018 as module
from populace.methods.nist2018.nist2018 import group_rare_columns, measure_nist2018
from populace.methods.nist2018.query_rounds import ColumnQuery, QueryRounds, RareCodes
from populace.methods.workload import Workload
from populace.schema.conditions.rules import Rule, Rules, Totals
from tests.helpers.priced_oracle import PricedOracle

SIZES = {"a": 8, "b": 3}
# Three codes of the first column are frequent.
COUNTS = np.array([900, 2, 0, 800, 1, 3, 700, 0])
ROWS = {"a": np.repeat(np.arange(8), COUNTS), "b": np.arange(COUNTS.sum()) % 3}
COLUMNS = [
    Measurement(Marginal(("a",)), COUNTS, Fraction(100)),
    Measurement(Marginal(("b",)), np.array([802, 802, 802]), Fraction(100)),
]


def groups(*, rounds=None, **facts):
    found = group_rare_columns(
        PricedOracle(ROWS, sizes=SIZES, **facts), COLUMNS, rounds=rounds or QueryRounds()
    )
    assert "b" not in found
    return found["a"].groups if "a" in found else None


def test_rare_codes_share_a_group():
    assert groups() == (0, 3, 3, 1, 3, 3, 2, 3)


def test_codes_that_public_totals_count_stay_apart():
    assert groups(totals=(Totals(clique=("a",), counts=COUNTS),)) is None
    assert groups(totals=(Totals(clique=("b",), counts=np.full(3, 802)),)) == groups()


def test_codes_that_a_rule_tells_apart_share_no_group():
    classes = {"a": Grouping("a", (0, 0, 0, 0, 1, 1, 1, 1)), "b": Grouping("b", (0, 1, 1))}
    allowed = np.array([[True, True], [True, False]])
    rules = Rules(classes=classes, rules=(Rule(text="", clique=("a", "b"), allowed=allowed),))
    assert groups(rules=rules) == (0, 3, 3, 1, 4, 4, 2, 4)


def test_codes_that_bins_of_a_marginal_tell_apart_share_no_group():
    bins = Grouping("a", (0, 0, 0, 0, 0, 1, 1, 1))
    rounds = QueryRounds(coarse={frozenset(SIZES): (bins,)})
    assert groups(rounds=rounds) == (0, 3, 3, 1, 3, 4, 2, 4)
    whole = QueryRounds(coarse=rounds.coarse, columns={"a": ColumnQuery(merge=RareCodes.NONE)})
    assert groups(rounds=whole) == tuple(range(8))


def test_a_single_column_is_asked_again_in_its_codes():
    """Its groups save noise beside other columns; alone they would only hide codes."""
    oracle = PricedOracle(ROWS, sizes=SIZES, exact=True)
    wanted = Workload(weights={("a",): Fraction(1), ("a", "b"): Fraction(1)})
    *_, alone, pair = measure_nist2018(oracle, workload=wanted, progress=silent)
    assert alone.marginal == Marginal(("a",))
    assert pair.marginal.grouping("a").size == 4
    assert oracle.used > Fraction(999, 1000)


def test_the_rows_of_a_tree_are_weighed_by_the_noise_of_sums(monkeypatch):
    """The sum of many counts says little of the number of rows, even where each count has as much noise."""
    seen = []
    monkeypatch.setattr(module, "measure_tree", lambda *_, total, **__: seen.append(total) or ())

    class Odd(PricedOracle):
        def count(self, marginal):
            return super().count(marginal) * (4 if marginal.clique == ("a",) else 1)

    oracle = Odd(ROWS, sizes=SIZES, exact=True)
    measure_nist2018(oracle, workload=Workload.pairs(oracle.domain), progress=silent)
    rows = COUNTS.sum()
    assert seen == [pytest.approx((4 * rows / 8 + rows / 3) / (1 / 8 + 1 / 3))]


HALVES, ENDS = Grouping("x", (0, 0, 1, 1)), Grouping("x", (0, 1, 1, 0))
DOMAIN = Domain({"x": 4, "y": 2})


def table(counts, variance, bins=HALVES):
    return Measurement(Marginal(("x", "y"), (bins,)), np.array(counts), Fraction(variance))


def test_coarse_tables_that_see_the_same_are_one_by_their_precision():
    items = [table([[10, 20], [30, 40]], 2), table([[16, 26], [36, 46]], 1)]
    _, (found,) = split_coarse_tables(items, domain=DOMAIN, groupings={})
    np.testing.assert_allclose(found.values, [[14, 24], [34, 44]])
    assert found.variance == pytest.approx(2 / 3)


def test_the_most_precise_of_coarse_tables_comes_last():
    items = [table([[10, 20], [30, 40]], 1), table([[10, 20], [30, 40]], 9, ENDS)]
    for given in (items, items[::-1]):
        _, found = split_coarse_tables(given, domain=DOMAIN, groupings={})
        assert [each.variance for each in found] == [9, 1]
