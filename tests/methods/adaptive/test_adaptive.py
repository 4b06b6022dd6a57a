"""What `adaptive` asks for, of an oracle that keeps a transcript of questions and their prices."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.measurements.measurements import Measurement
from populace.methods.adaptive.adaptive import CONFIG, find_saving_triples, pair_weights, score_pairs
from populace.methods.adaptive.pair_screen import PairScreen
from populace.methods.selection.measure_batch import measure_batch
from populace.methods.workload import Workload
from populace.schema.conditions.rules import NO_RULES, Rule, Rules, Totals
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.priced_oracle import PricedOracle, dependent, run
from tests.helpers.sampled_cases import sample_cases

EPSILONS = ["0.01", "0.1", "1", "10", "100"]
UNITS = {
    "row": PrivacyUnit(),
    "replace": PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    "rows": PrivacyUnit(rows=5, id="id"),
    "both": PrivacyUnit(rows=3, id="id", neighbours=Neighbours.REPLACE_ONE),
}


@pytest.mark.parametrize("epsilon", sample_cases(EPSILONS, to=3))
@pytest.mark.parametrize("delta", ["1e-9", "0"])
@pytest.mark.parametrize("unit", UNITS)
def test_the_budget_is_spent_and_no_more(epsilon, delta, unit):
    """Random tables of 2 to 5 columns of 1 to 40 codes and 0 to 10,000 rows; the oracle refuses to overspend."""
    for seed in range(2 if unit == "row" else 1):
        rng = np.random.default_rng([seed, list(UNITS).index(unit), int(float(epsilon) * 100)])
        sizes = {name: int(rng.integers(1, 41)) for name in "abcde"[: int(rng.integers(2, 6))]}
        rows = int(rng.choice([0, 1, 30, 1000, 10_000]))
        oracle = PricedOracle(
            dependent(rng, sizes, rows),
            sizes=sizes,
            epsilon=epsilon,
            delta=delta,
            unit=UNITS[unit],
            seed=seed,
            ordered=[name for name in sizes if rng.random() < 0.5],
        )
        workload = Workload.triples(oracle.domain) if rng.random() < 0.5 else None
        run(oracle, workload)
        assert Fraction(98, 100) < oracle.used <= 1
        assert oracle.cliques(1) == sorted((name,) for name in sizes)


SIZES = {"a": 6, "b": 5, "c": 7, "d": 4, "e": 6}


@pytest.mark.parametrize(("rows", "epsilon"), [(30, "1"), (3000, "0.02"), (0, "5")])
def test_few_rows_or_little_budget_go_to_columns(rows, epsilon):
    oracle = PricedOracle(dependent(np.random.default_rng(1), SIZES, rows), sizes=SIZES, epsilon=epsilon)
    run(oracle)
    assert oracle.cliques(1) == [(name,) for name in SIZES]
    assert oracle.cliques(2) == []


def test_more_budget_measures_more_pairs():
    rng = np.random.default_rng(4)
    sizes = dict.fromkeys("abcde", 8)
    codes = dependent(rng, sizes, 4000)
    counts = []
    for epsilon in ("0.03", "0.3", "3", "30"):
        oracle = PricedOracle(codes, sizes=sizes, epsilon=epsilon)
        run(oracle)
        counts.append(len(oracle.cliques(2)))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 10)
    assert 0 < counts[1] < 10


def test_many_rows_and_much_budget_measure_nearly_all_pairs():
    oracle = PricedOracle(dependent(np.random.default_rng(2), SIZES, 50_000), sizes=SIZES, epsilon="20")
    run(oracle)
    assert len(oracle.cliques(2)) >= 8
    assert sum(share for verb, _, share in oracle.asked if verb == "score") == pytest.approx(0.02, rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_where_one_pair_stands_out_it_is_the_only_one(seed):
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(0, size, 2000) for name, size in SIZES.items()}
    codes["b"] = np.where(rng.random(2000) < 0.8, codes["a"] % 5, codes["b"])
    oracle = PricedOracle(codes, sizes=SIZES, seed=seed)
    run(oracle)
    assert oracle.cliques(2) == [("a", "b")]


@pytest.mark.parametrize("rows", [0, 100])
def test_one_column_gets_everything(rows):
    oracle = PricedOracle({"a": np.zeros(rows, int)}, sizes={"a": 4})
    run(oracle)
    assert [item.marginal.clique for item in oracle.measured] == [(), ("a",)]
    assert oracle.used > Fraction(99, 100)


@pytest.mark.parametrize("sizes", [{"a": 1, "b": 1}, {"a": 1, "b": 9}, {"a": 1, "b": 9, "c": 8}])
def test_columns_of_one_code_have_nothing_to_say_about_others(sizes):
    oracle = PricedOracle(dependent(np.random.default_rng(5), sizes, 10_000), sizes=sizes, epsilon="5")
    run(oracle)
    assert oracle.cliques(1) == [(name,) for name in sizes]
    assert oracle.cliques(2) == ([("b", "c")] if len(sizes) == 3 else [])
    assert oracle.used > Fraction(98, 100)


def test_a_heavy_pair_is_known_better():
    codes = dependent(np.random.default_rng(6), SIZES, 20_000)
    pairs = dict.fromkeys(combinations(SIZES, 2), Fraction(1))
    found = {}
    for heavy in (("a", "b"), ("d", "e")):
        oracle = PricedOracle(codes, sizes=SIZES, epsilon="3")
        run(oracle, Workload(weights={**pairs, heavy: Fraction(30)}))
        found[heavy] = oracle
    for heavy, light in ((("a", "b"), ("d", "e")), (("d", "e"), ("a", "b"))):
        assert found[heavy].precision(heavy) > 2 * found[light].precision(heavy)


@pytest.mark.parametrize("epsilon", ["0.2", "2"])
def test_weights_count_beside_each_other_alone(epsilon):
    """A thousand times the weight on every pair changes nothing."""
    codes = dependent(np.random.default_rng(6), SIZES, 5000)
    asked = []
    for weight in (1, 1000):
        oracle = PricedOracle(codes, sizes=SIZES, epsilon=epsilon)
        run(oracle, Workload(weights=dict.fromkeys(combinations(SIZES, 2), Fraction(weight))))
        asked.append([(item.marginal.clique, float(item.variance)) for item in oracle.measured])
    assert any(len(clique) == 2 for clique, _ in asked[0])
    for one, other in zip(*asked, strict=True):
        assert one == (other[0], pytest.approx(other[1], rel=0.01))


def test_a_weak_pair_is_measured_where_it_matters_most():
    codes = dependent(np.random.default_rng(6), SIZES, 5000)
    pairs = dict.fromkeys(combinations(SIZES, 2), Fraction(1))
    found = []
    for weight in (1, 30):
        oracle = PricedOracle(codes, sizes=SIZES, epsilon="0.1")
        run(oracle, Workload(weights={**pairs, ("a", "c"): Fraction(weight)}))
        found.append(oracle.cliques(2))
    assert ("a", "c") not in found[0]
    assert {("a", "c"), ("b", "c")} <= set(found[1])
    assert len(found[1]) <= len(found[0])


def test_very_unequal_columns_are_all_measured():
    sizes = {"a": 1, "b": 100_000, "c": 2}
    oracle = PricedOracle({name: np.zeros(100, int) for name in sizes}, sizes=sizes)
    run(oracle)
    assert oracle.cliques(1) == [(name,) for name in sizes]


def test_pairs_that_cannot_be_worth_it_are_not_looked_at():
    """A column that is nearly always the same is near independence of all others, whatever they are."""
    codes = dependent(np.random.default_rng(16), SIZES, 20_000)
    codes["e"] = (np.arange(20_000) % 100 == 0).astype(int)
    oracle = PricedOracle(codes, sizes=SIZES, epsilon="0.05")
    run(oracle)
    assert 6 <= oracle.looks[0][0] < 10


def test_columns_that_turn_out_to_be_one_group_are_left_out_of_pairs():
    """Answers by script: the second measurement of the columns takes back what the first one said."""

    class Second(PricedOracle):
        def measure(self, marginals, *, noise):
            found = super().measure(marginals, noise=noise)
            if any(verb == "score" for verb, *_ in self.asked):
                empty = [Measurement(m.marginal, m.counts - 10**6, m.variance) for m in found]
                self.measured[-len(found) :] = found = tuple(empty)
            return found

    sizes = {"a": 60, "b": 50}
    oracle = Second(dependent(np.random.default_rng(17), sizes, 20_000), sizes=sizes, epsilon="0.5")
    run(oracle)
    assert oracle.looks
    assert oracle.cliques(2) == []
    assert oracle.used > Fraction(98, 100)


def test_only_wanted_pairs_are_looked_at():
    codes = dependent(np.random.default_rng(7), SIZES, 20_000)
    oracle = PricedOracle(codes, sizes=SIZES, epsilon="3")
    run(oracle, Workload(weights={("a", "b"): Fraction(1), ("c", "d", "e"): Fraction(2)}))
    assert oracle.looks == [(4, 2), (1, 3)]
    assert set(oracle.cliques(2)) <= {("a", "b"), ("c", "d"), ("c", "e"), ("d", "e")}
    assert ("a", "b") in oracle.cliques(2)


def test_a_pair_matters_as_much_as_the_heaviest_marginal_that_holds_it():
    weights = {
        ("a",): Fraction(9),
        ("a", "b"): Fraction(1),
        ("a", "c"): Fraction(4),
        ("a", "b", "c"): Fraction(3),
    }
    found = pair_weights(Workload(weights=weights))
    assert {pair: weight / found["a", "c"] for pair, weight in found.items()} == {
        ("a", "b"): Fraction(3, 4),
        ("a", "c"): 1,
        ("b", "c"): Fraction(3, 4),
    }
    assert pair_weights(Workload(weights={("a",): Fraction(1)})) == {}


def test_a_workload_of_columns_alone_measures_columns_alone():
    oracle = PricedOracle(dependent(np.random.default_rng(8), SIZES, 20_000), sizes=SIZES, epsilon="3")
    run(oracle, Workload(weights={("a",): Fraction(1)}))
    assert {verb for verb, *_ in oracle.asked} == {"measure"}
    assert oracle.cliques(1) == [(name,) for name in SIZES]
    assert oracle.cliques(2) == []
    assert oracle.used > Fraction(98, 100)


def many_columns(rows=3000, count=24):
    rng = np.random.default_rng(9)
    sizes = {f"c{number:02}": 4 for number in range(count)}
    return dependent(rng, sizes, rows), sizes


def test_many_pairs_are_looked_at_twice():
    """The second look is at the most promising quarter of what the first one saw, for the same share."""
    codes, sizes = many_columns()
    oracle = PricedOracle(codes, sizes=sizes)
    run(oracle)
    assert oracle.looks == [(276, 2), (69, 2)]
    shares = [float(share) for verb, _, share in oracle.asked if verb == "score"]
    assert shares == pytest.approx([0.02, 0.02], rel=0.01)
    clear = PricedOracle(codes, sizes=sizes, epsilon="50")
    run(clear)
    assert clear.looks == [(276, 2)]


def test_both_looks_count_by_their_precision():
    codes, sizes = many_columns()
    oracle = PricedOracle(codes, sizes=sizes)
    columns = measure_batch(
        oracle, [Marginal((name,)) for name in sizes], np.ones(len(sizes)), share=Fraction(1, 10)
    )
    view = PairScreen(oracle, columns)
    pairs = view.pairs(pair_weights(Workload.pairs(oracle.domain)))
    means, deviations, taken = score_pairs(oracle, view, pairs)
    first, second = (oracle.budget.score_noise(CONFIG.score_share, scores=n).variance for n in (276, 69))
    again = np.sort(deviations)[:69]
    assert taken == 2 * CONFIG.score_share
    np.testing.assert_allclose(again, (1 / float(first) + 1 / float(second)) ** -0.5)
    np.testing.assert_allclose(np.sort(deviations)[69:], float(first) ** 0.5)
    exact = np.array(
        [
            np.abs(oracle.count(marginal) - estimate).sum()
            for marginal, estimate in zip(
                view.candidates(pairs).marginals, view.candidates(pairs).estimates, strict=True
            )
        ]
    )
    # Of 276 pairs 69 are chosen for high answers, so the rest leans low; by no more than a deviation.
    assert 0.7 < np.std((means - exact) / deviations) < 1.3
    promising = deviations < float(first) ** 0.5
    assert exact[promising].mean() > 1.5 * exact[~promising].mean()


@pytest.mark.parametrize("epsilon", ["0.3", "3", pytest.param("100", marks=pytest.mark.slow)])
def test_equal_answers_lead_to_equal_questions(epsilon):
    codes = dependent(np.random.default_rng(10), SIZES, 5000)
    first, again = (PricedOracle(codes, sizes=SIZES, epsilon=epsilon, seed=4) for _ in range(2))
    run(first, Workload.triples(first.domain))
    run(again, Workload.triples(again.domain))
    assert first.asked == again.asked
    for one, other in zip(first.measured, again.measured, strict=True):
        assert one.marginal == other.marginal
        assert one.variance == other.variance
        np.testing.assert_array_equal(one.counts, other.counts)


def test_questions_follow_from_answers_alone():
    """Two tables that give the same answers, as when noise makes up for a row, are asked the same."""
    codes = dependent(np.random.default_rng(11), SIZES, 5000)

    class Echo(PricedOracle):
        """Repeats the answers of another run, whatever its own rows are."""

        def __init__(self, source, **options):
            super().__init__({name: np.zeros(3, int) for name in SIZES}, **options)
            self.source = iter(source)

        def _noisy(self, exact, noise):
            return next(self.source)

    class Tape(PricedOracle):
        """Keeps every answer."""

        def _noisy(self, exact, noise):
            self.tape.append(super()._noisy(exact, noise))
            return self.tape[-1]

    first = Tape(codes, sizes=SIZES, epsilon="3")
    first.tape = []
    run(first)
    again = Echo(first.tape, sizes=SIZES, epsilon="3")
    run(again)
    assert again.asked == first.asked
    assert [item.marginal for item in again.measured] == [item.marginal for item in first.measured]


def test_groups_are_those_of_the_better_counts():
    """Pairs are asked for in groups that follow from both measurements of the columns, not from the first alone."""
    rng = np.random.default_rng(12)
    sizes = {"a": 60, "b": 5}
    codes = dependent(rng, sizes, 20_000)
    oracle = PricedOracle(codes, sizes=sizes, epsilon="0.5")
    found = run(oracle)
    (pair,) = {item.marginal for item in found if len(item.marginal.clique) == 2}
    alone = [item for item in found if len(item.marginal.clique) == 1]
    early, late = PairScreen(oracle, alone[:2]), PairScreen(oracle, alone)
    assert pair == late.marginal(("a", "b"))
    assert pair != early.marginal(("a", "b"))
    assert late.domain["a"] > early.domain["a"]


def test_rules_and_totals_hold_groups_apart():
    rng = np.random.default_rng(13)
    sizes = {"a": 30, "b": 4}
    codes = dependent(rng, sizes, 2000)
    classes = {"a": Grouping("a", (0, 1, 1) * 10), "b": Grouping("b", (0, 0, 1, 1))}
    rules = Rules(
        classes=classes,
        rules=(Rule(text="", clique=("a", "b"), allowed=np.array([[True, True], [True, False]])),),
    )
    oracle = PricedOracle(codes, sizes=sizes, rules=rules)
    view = PairScreen(oracle, oracle.measure([Marginal(("a",)), Marginal(("b",))], noise=half(oracle)))
    groups = np.array(view.marginal(("a",)).groupings[0].groups)
    assert groups.max() + 1 < 30
    second = np.array(classes["a"].groups) == 1
    assert not set(groups[second]) & set(groups[~second])
    np.testing.assert_array_equal(view._table(("a", "b"))[np.unique(groups[second])][:, 2:], 0.0)
    totals = Totals(clique=("a",), counts=np.full(30, 100))
    known = PricedOracle(codes, sizes=sizes, totals=(totals,))
    view = PairScreen(known, known.measure([Marginal(("a",)), Marginal(("b",))], noise=half(known)))
    assert view.marginal(("a", "b")).grouping("a") is None


def half(oracle):
    return oracle.budget.measure_noise(Fraction(1, 2), marginals=2)


def test_saving_triples_by_hand():
    """1/2 + 1/3 + 1/5 > 1, but 1/2 + 1/3 + 1/6 is not, and all three pairs must be wanted."""
    domain = Domain({"a": 2, "b": 3, "c": 5, "d": 6, "e": 2})
    pairs = list(combinations(domain, 2))
    assert find_saving_triples(pairs, domain=domain) == [
        ("a", "b", "e"),
        ("a", "c", "e"),
        ("a", "d", "e"),
        ("a", "b", "c"),
        ("b", "c", "e"),
    ]
    pairs.remove(("a", "e"))
    assert find_saving_triples(pairs, domain=domain) == [("a", "b", "c"), ("b", "c", "e")]


def test_columns_of_heavy_pairs_are_known_better():
    """Rare codes share a group in pairs, so columns are measured by themselves for them: those that matter most."""
    sizes = dict.fromkeys("abcd", 40)
    codes = dependent(np.random.default_rng(20), sizes, 5000)
    oracle = PricedOracle(codes, sizes=sizes, epsilon="1")
    pairs = dict.fromkeys(combinations(sizes, 2), Fraction(1))
    view = PairScreen(oracle, oracle.measure([Marginal((name,)) for name in sizes], noise=half(oracle)))
    weights = {**pairs, ("a", "b"): Fraction(30)}
    light, heavy = (view.columns(which, deviation=20.0) for which in (pairs, weights))
    scale = (heavy.alone + heavy.merged) / (light.alone + light.merged)
    np.testing.assert_allclose(scale, [32 / 3, 32 / 3, 1.0, 1.0], rtol=0.2)
    assert (light.alone > 0).all()
    assert (light.merged > 0).all()
    np.testing.assert_allclose(light.known, 1 / float(half(oracle).variance))


def test_known_empty_cells_cost_nothing():
    sizes = {"a": 6, "b": 6}
    classes = {name: Grouping(name, tuple(range(6))) for name in sizes}
    rules = Rules(classes=classes, rules=(Rule(text="", clique=("a", "b"), allowed=np.eye(6, dtype=bool)),))
    codes = {name: np.arange(6000) % 6 for name in sizes}
    costs = []
    for given in (NO_RULES, rules):
        oracle = PricedOracle(codes, sizes=sizes, rules=given)
        view = PairScreen(oracle, oracle.measure([Marginal((name,)) for name in sizes], noise=half(oracle)))
        costs.append(view.costs([("a", "b")], deviation=20.0)[0])
    assert costs[1] < 0.2 * costs[0]


def test_the_number_of_rows_is_a_mean_by_precision():
    """The column of 50 codes has a tenth of the noise of its sum's fellow: 1000 ± √(50·4) beside 2000 ± √(2·10,000)."""
    oracle = PricedOracle({"a": np.zeros(0, int), "b": np.zeros(0, int)}, sizes={"a": 50, "b": 2})
    columns = [
        Measurement(Marginal(("a",)), np.full(50, 20), Fraction(4)),
        Measurement(Marginal(("b",)), np.array([1000, 1000]), Fraction(10_000)),
    ]
    assert PairScreen(oracle, columns).total == pytest.approx(
        (1000 / 200 + 2000 / 20_000) / (1 / 200 + 1 / 20_000)
    )


def test_small_triples_are_measured_instead_of_their_pairs():
    rng = np.random.default_rng(14)
    sizes = dict.fromkeys("abcdef", 2)
    oracle = PricedOracle(dependent(rng, sizes, 20_000), sizes=sizes)
    run(oracle)
    covered = {pair for triple in oracle.cliques(3) for pair in combinations(triple, 2)}
    assert len(oracle.cliques(3)) > 5
    assert covered | set(oracle.cliques(2)) == set(combinations(sizes, 2))


def test_no_triples_before_pairs_are_clean():
    oracle = PricedOracle(dependent(np.random.default_rng(18), SIZES, 3000), sizes=SIZES)
    run(oracle, Workload.triples(oracle.domain))
    assert oracle.cliques(2)
    assert oracle.cliques(3) == []
    assert {columns for _, columns in oracle.looks} == {2}


def test_what_triples_do_not_need_goes_to_pairs():
    """Answers by script: no triple is away from what pairs imply."""

    class Plain(PricedOracle):
        def score(self, candidates, *, noise):
            found = super().score(candidates, noise=noise)
            return found if len(candidates.marginals[0].clique) == 2 else found * 0 - 10**6

    sizes = dict.fromkeys("abcd", 4)
    oracle = Plain(dependent(np.random.default_rng(19), sizes, 100_000), sizes=sizes, epsilon="20")
    run(oracle, Workload.triples(oracle.domain))
    assert oracle.looks == [(6, 2), (4, 3)]
    assert oracle.cliques(3) == []
    assert oracle.used > Fraction(98, 100)


def test_triples_follow_where_pairs_are_clean():
    """A parity of three columns that no pair shows, with budget to spare and triples in the workload."""
    rng = np.random.default_rng(15)
    sizes = dict.fromkeys("abcd", 4)
    codes = {name: rng.integers(0, 4, 100_000) for name in sizes}
    codes["c"] = np.where(rng.random(100_000) < 0.8, (codes["a"] + codes["b"]) % 4, codes["c"])
    codes["d"] = np.where(rng.random(100_000) < 0.8, codes["a"], codes["d"])
    oracle = PricedOracle(codes, sizes=sizes, epsilon="20")
    run(oracle, Workload.triples(oracle.domain))
    assert ("a", "b", "c") in oracle.cliques(3)
    pairs = PricedOracle(codes, sizes=sizes, epsilon="20")
    run(pairs)
    assert pairs.cliques(3) == []
    assert len([item for item in pairs.measured if len(item.marginal.clique) == 2]) == len(pairs.cliques(2))
    assert oracle.looks == [(6, 2), (4, 3)]
    assert pairs.looks == [(6, 2)]


def test_a_batch_shares_by_precision():
    """8 : 1 : 1 of three quarters of the budget; what is alike gets the same noise, and next to nothing gets none."""
    sizes = dict.fromkeys("abcd", 3)
    oracle = PricedOracle({name: np.zeros(9, int) for name in sizes}, sizes=sizes)
    marginals = [Marginal((name,)) for name in sizes]
    measure_batch(oracle, marginals, np.array([8.0, 1.0, 1.0, 1e-6]), share=Fraction(3, 4))
    assert [answers for _, answers, _ in oracle.asked] == [2, 1]
    assert [float(share) for *_, share in oracle.asked] == pytest.approx([0.15, 0.6], rel=0.01)
    assert oracle.cliques(1) == [("a",), ("b",), ("c",)]
    assert oracle.used <= Fraction(3, 4)
    assert measure_batch(oracle, marginals, np.ones(4), share=Fraction(1, 2000)) == ()
