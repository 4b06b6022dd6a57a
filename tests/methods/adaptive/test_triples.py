"""Which triples `adaptive` measures after its pairs, and with how much noise: every number is worked out anew."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Grouping, Marginal
from populace.inference.fit.fit_model import fit_model
from populace.inference.model_space import ModelSpace
from populace.methods.adaptive import adaptive as module
from populace.methods.adaptive.adaptive import measure_triples
from populace.methods.workload import Workload
from populace.schema.conditions.rules import Rule, Rules, Totals
from tests.helpers.priced_oracle import PricedOracle, dependent, run

SHARE = Fraction(1, 4)
NEVER = -(10**6)


class Slate(PricedOracle):
    """Answers without noise, keeps what it is asked to compare, and gives the scores that a script says."""

    def __init__(self, rows, *, scores=None, **options):
        super().__init__(rows, exact=True, **options)
        self.slates, self._scores = [], scores or {}

    def score(self, candidates, *, noise):
        found = super().score(candidates, noise=noise)
        self.slates.append((candidates, noise))
        if self._scores:
            given = [self._scores.get(m.clique, NEVER) for m in candidates.marginals]
            found = np.array(given, dtype=np.int64)
        return found

    @property
    def compared(self):
        return [marginal.clique for marginal in self.slates[0][0].marginals]

    @property
    def asked_triples(self):
        return {item.marginal.clique: 1 / float(item.variance) for item in self.measured if is_triple(item)}


def is_triple(item):
    return len(item.marginal.clique) == 3


def prepared(oracle, *more, pairs=True):
    """Measure columns, all pairs and some more, for half of the budget."""
    asked = [Marginal((name,)) for name in oracle.domain]
    asked += [Marginal(pair) for pair in combinations(oracle.domain, 2)] if pairs else []
    asked += [each if isinstance(each, Marginal) else Marginal(each) for each in more]
    return oracle.measure(asked, noise=oracle.budget.measure_noise(Fraction(1, 2), marginals=len(asked)))


def evenly(sizes, rows=80_000):
    """Rows that fill all cells alike: all noise stays inside the counts, and nothing depends on anything."""
    flat = np.arange(rows) % int(np.prod(list(sizes.values())))
    return dict(zip(sizes, np.unravel_index(flat, tuple(sizes.values())), strict=True))


def wanting(*cliques, weight=1):
    return {clique: Fraction(weight) for clique in cliques}


def unit(oracle):
    """The deviation of one marginal that is measured with the whole budget."""
    return float(oracle.budget.measure_noise(Fraction(1), marginals=1).variance) ** 0.5


BINARY = dict.fromkeys("abcde", 2)
TRIPLES = list(combinations(BINARY, 3))


def test_wanted_triples_are_compared_smallest_first():
    """Not pairs, not larger marginals, not what is measured, and nothing with a column that has but one code."""
    sizes = {"a": 5, "b": 2, "c": 3, "d": 2, "e": 1}
    oracle = Slate(evenly(sizes), sizes=sizes)
    measured = prepared(oracle, ("b", "c", "d"))
    wanted = [("a", "b", "c"), ("a", "b", "d"), ("b", "c", "d"), ("b", "d", "e"), ("a", "c", "d")]
    measure_triples(
        oracle,
        measured,
        workload=Workload(weights=wanting(("a", "b"), *wanted, ("a", "b", "c", "d"))),
        share=SHARE,
    )
    assert oracle.compared == [("a", "b", "d"), ("a", "b", "c"), ("a", "c", "d")]
    assert oracle.looks == [(3, 3)]


@pytest.mark.parametrize(
    ("limit", "value", "kept"),
    [("MAX_CANDIDATE_TRIPLES", 2, 2), ("MAX_TRIPLE_TABLES_CELLS", 50, 2), ("MAX_TRIPLE_TABLES_CELLS", 49, 1)],
)
def test_memory_limits_how_many_are_compared(monkeypatch, limit, value, kept):
    """20, 30 and 30 cells: 50 hold two of them."""
    monkeypatch.setattr(module, limit, value)
    sizes = {"a": 5, "b": 2, "c": 3, "d": 2}
    oracle = Slate(evenly(sizes), sizes=sizes)
    wanted = [("a", "b", "c"), ("a", "c", "d"), ("a", "b", "d")]
    measure_triples(oracle, prepared(oracle), workload=Workload(weights=wanting(*wanted)), share=SHARE)
    assert oracle.compared == [("a", "b", "d"), ("a", "b", "c")][:kept]


def test_where_no_triple_is_wanted_nothing_is_asked():
    oracle = Slate(evenly(BINARY), sizes=BINARY)
    measured = prepared(oracle)
    before = list(oracle.asked)
    found = measure_triples(oracle, measured, workload=Workload.pairs(oracle.domain), share=SHARE)
    assert found == ((), SHARE)
    assert oracle.asked == before


def test_a_tenth_goes_to_the_look_and_the_rest_to_triples():
    """Where no triple is worth its noise the rest is given back."""
    oracle = Slate(evenly(BINARY), sizes=BINARY, scores=dict.fromkeys(TRIPLES[:3], 10_000))
    found, left = measure_triples(
        oracle, prepared(oracle), workload=Workload.triples(oracle.domain), share=SHARE
    )
    (_, answers, look), *asked = oracle.asked[1:]
    assert answers == len(TRIPLES)
    assert float(look) == pytest.approx(float(SHARE) / 10, rel=1e-3)
    assert sum(answers for _, answers, _ in asked) == 3
    assert float(sum(share for *_, share in asked)) == pytest.approx(0.9 * float(SHARE), rel=1e-2)
    assert left == 0
    assert {item.marginal.clique for item in found} == set(TRIPLES[:3])
    none = Slate(evenly(BINARY), sizes=BINARY, scores={("a", "b", "c"): -1})
    found, left = measure_triples(none, prepared(none), workload=Workload.triples(none.domain), share=SHARE)
    assert (found, left) == ((), Fraction(9, 10) * SHARE)
    assert [verb for verb, *_ in none.asked] == ["measure", "score"]


def test_triples_are_compared_with_what_their_pairs_imply(monkeypatch):
    """Estimates have the sums of the pairs' targets, to the rounding of cells; the tree holds one pair."""
    monkeypatch.setattr("populace.inference.fit.fit_model.MAX_TREE_CELLS", 1)
    sizes = {"a": 3, "b": 4, "c": 3}
    oracle = Slate(dependent(np.random.default_rng(3), sizes, 20_000), sizes=sizes, epsilon="20")
    measured = prepared(oracle)
    measure_triples(oracle, measured, workload=Workload(weights=wanting(("a", "b", "c"))), share=SHARE)
    (slate, _) = oracle.slates[0]
    (estimate,) = slate.estimates
    model = fit_model(measured, space=ModelSpace(domain=oracle.domain, rules=oracle.schema.rules, totals=()))
    for axis, pair in ((2, ("a", "b")), (1, ("a", "c")), (0, ("b", "c"))):
        np.testing.assert_allclose(estimate.sum(axis=axis), model.targets[pair], atol=2 + 1e-3 * model.total)
    # The nearest whole numbers: the mean of what is lost to rounding is about 0, not ½.
    assert abs(int(estimate.sum()) - model.total) < 6
    assert slate.penalties == (0,)


def test_what_is_public_is_known_of_triples_too():
    """A number of rows and a rule that the counts contradict: what is public has the last word."""
    sizes = {"a": 3, "b": 2, "c": 3}
    rule = Rule(text="", clique=("a", "b"), allowed=np.array([[True, True], [True, True], [True, False]]))
    classes = {"a": Grouping("a", (0, 1, 2)), "b": Grouping("b", (0, 1))}
    oracle = Slate(
        evenly(sizes),
        sizes=sizes,
        rules=Rules(classes=classes, rules=(rule,)),
        totals=(Totals(clique=(), counts=np.array(100_000)),),
    )
    measure_triples(
        oracle, prepared(oracle), workload=Workload(weights=wanting(("a", "b", "c"))), share=SHARE
    )
    (estimate,) = oracle.slates[0][0].estimates
    assert estimate.sum() == pytest.approx(100_000, abs=10)
    assert (estimate[2, 1] == 0).all()
    assert (estimate[2, 0] > 0).all()


def test_triples_are_asked_for_in_the_groups_of_the_pairs():
    sizes = {"a": 6, "b": 2, "c": 3}
    way = Grouping("a", (0, 0, 1, 1, 2, 2))
    oracle = Slate(evenly(sizes), sizes=sizes, scores={("a", "b", "c"): 10_000})
    measured = prepared(
        oracle, Marginal(("a", "b"), (way,)), Marginal(("a", "c"), (way,)), ("b", "c"), pairs=False
    )
    found, _ = measure_triples(
        oracle, measured, workload=Workload(weights=wanting(("a", "b", "c"))), share=SHARE
    )
    assert oracle.slates[0][0].estimates[0].shape == (3, 2, 3)
    assert [item.marginal for item in found] == [Marginal(("a", "b", "c"), (way,))]


@pytest.mark.parametrize(("part", "chosen"), [(0.8, False), (1.25, True)])
def test_a_triple_must_gain_more_than_doubt_and_noise(part, chosen):
    """One triple of ten may be worth it, the others are not.

    Its answer is taken one deviation too high, √(10 / look) of the unit, and measured with the rest it errs by as many
    units as 8 centred normal numbers sum to, 8 · √(2/π) · √(7/8) = 5.97 on average, over the root of its share: 20.0
    and 12.6 units of the whole budget. The simulation draws one table: ± 25 % of the second number.
    """
    oracle = Slate(evenly(BINARY), sizes=BINARY, epsilon="2")
    doubt = (10 / (0.1 * float(SHARE))) ** 0.5
    error = 5.97 / (0.9 * float(SHARE)) ** 0.5
    oracle._scores = {("b", "c", "e"): round(part * (doubt + error) * unit(oracle))}
    found, _ = measure_triples(
        oracle, prepared(oracle), workload=Workload.triples(oracle.domain), share=SHARE
    )
    assert [item.marginal.clique for item in found] == ([("b", "c", "e")] if chosen else [])


def test_precisions_follow_the_power_two_thirds_of_what_noise_costs():
    """64, 256 and 512 cells, all full: costs are as their numbers, so precisions as 1 : 2.52 : 4."""
    sizes = {"a": 4, "b": 4, "c": 4, "d": 16, "e": 8}
    wanted = [("a", "b", "c"), ("a", "b", "d"), ("a", "d", "e")]
    oracle = Slate(evenly(sizes), sizes=sizes, scores=dict.fromkeys(wanted, 10**6))
    measure_triples(oracle, prepared(oracle), workload=Workload(weights=wanting(*wanted)), share=SHARE)
    found = oracle.asked_triples
    got = np.array([found[clique] for clique in wanted])
    np.testing.assert_allclose(got / got[0], [1.0, 4 ** (2 / 3), 4.0], rtol=0.12)
    assert got.sum() * unit(oracle) ** 2 == pytest.approx(0.9 * float(SHARE), rel=1e-2)


def test_heavy_triples_count_for_more():
    """27 times the weight is 9 times the precision; and a thousand times the weight for all changes nothing."""
    sizes, found = dict.fromkeys("abcd", 5), []
    one, two, *others = combinations(sizes, 3)
    for scale in (1, 1000):
        oracle = Slate(evenly(sizes), sizes=sizes, scores={one: 10**5, two: 10**5})
        weights = wanting(two, *others, weight=scale) | wanting(one, weight=27 * scale)
        measure_triples(oracle, prepared(oracle), workload=Workload(weights=weights), share=SHARE)
        found.append(oracle.asked_triples)
    assert found[0] == found[1]
    assert found[0][one] / found[0][two] == pytest.approx(9, rel=0.15)


@pytest.mark.parametrize(("heavy", "kept"), [(1, 2), (1000, 1)])
def test_light_triples_give_way_to_heavy_ones(heavy, kept):
    """Two triples gain a little more than they cost; where one matters a thousand times as much it stands alone."""
    oracle = Slate(evenly(BINARY), sizes=BINARY, epsilon="2")
    doubt = (10 / (0.1 * float(SHARE))) ** 0.5
    error = 5.97 * 2**0.5 / (0.9 * float(SHARE)) ** 0.5
    oracle._scores = dict.fromkeys(TRIPLES[:2], round((doubt + 2 * error) * unit(oracle)))
    weights = wanting(*TRIPLES) | wanting(TRIPLES[0], weight=heavy)
    measure_triples(oracle, prepared(oracle), workload=Workload(weights=weights), share=SHARE)
    assert len(oracle.asked_triples) == kept


@pytest.mark.parametrize(("rows", "low", "high"), [(10**6, 0.9, 1.1), (64, 0.0, 0.2)])
def test_noise_costs_less_where_cells_are_empty(rows, low, high):
    """In units of noise, 512 cells of a full table err by 512 · √(2/π); few rows can be no farther off than twice them.

    Noise is what all compared triples would have if they shared the rest: here four deviations of 30 rows and more.
    """
    table = np.full((8, 8, 8), rows / 512)
    for deviation in (30.0, 60.0):
        cost = module._expected_error(table, deviation=deviation, rng=np.random.default_rng(1))
        part = cost / (512 * (2 / np.pi) ** 0.5)
        assert low <= part <= high
        assert cost * deviation <= 2 * rows + 1e-6
    assert module._expected_error(np.zeros((2, 2, 2)), deviation=3.0, rng=np.random.default_rng(1)) > 0


def test_costs_are_simulated_with_the_noise_of_all_that_is_compared(monkeypatch):
    """Ten triples that share what the look leaves, √(10 / (0.9 · share)) units each, on as many rows as there are."""
    seen, genuine = [], module._expected_error

    def spy(table, *, deviation, rng):
        seen.append((float(table.sum()), deviation))
        return genuine(table, deviation=deviation, rng=rng)

    monkeypatch.setattr(module, "_expected_error", spy)
    oracle = Slate(evenly(BINARY), sizes=BINARY)
    measure_triples(oracle, prepared(oracle), workload=Workload.triples(oracle.domain), share=SHARE)
    sums, deviations = zip(*seen, strict=True)
    np.testing.assert_allclose(sums, 80_000, rtol=0.01)
    np.testing.assert_allclose(deviations, (10 / (0.9 * float(SHARE))) ** 0.5 * unit(oracle), rtol=1e-3)


def test_triples_get_three_tenths_of_what_pairs_would_get():
    sizes = dict.fromkeys("abcd", 4)
    rng = np.random.default_rng(15)
    rows = {name: rng.integers(0, 4, 100_000) for name in sizes}
    rows["c"] = np.where(rng.random(100_000) < 0.8, (rows["a"] + rows["b"]) % 4, rows["c"])
    oracle = PricedOracle(rows, sizes=sizes, epsilon="20")
    items = iter(run(oracle, Workload.triples(oracle.domain)))
    spent = {1: 0.0, 2: 0.0, 3: 0.0}
    for verb, answers, share in oracle.asked:
        found = [next(items) for _ in range(answers)] if verb == "measure" else []
        spent[len(found[0].marginal.clique) if found else 3] += float(share)
    # The look at pairs comes before, and is no part of it.
    spent[3] -= 0.02
    assert ("a", "b", "c") in oracle.cliques(3)
    assert spent[3] / (spent[2] + spent[3]) == pytest.approx(0.3, rel=0.01)


def test_equal_answers_lead_to_equal_questions():
    rows = dependent(np.random.default_rng(5), dict.fromkeys("abcd", 4), 50_000)
    found = []
    for _ in range(2):
        oracle = Slate(rows, sizes=dict.fromkeys("abcd", 4), epsilon="20")
        measure_triples(oracle, prepared(oracle), workload=Workload.triples(oracle.domain), share=SHARE)
        found.append((oracle.asked, [item.marginal for item in oracle.measured]))
    assert found[0] == found[1]
