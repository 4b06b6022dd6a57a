"""`measure_gem` without a network: what its rounds ask and cost, and what a measurement is worth to training."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.core.progress import silent
from populace.inference.gls.observations import Observation
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.literature.gem import gem as module
from populace.methods.literature.gem.gem import GEM_CONFIG, GemEstimator, _expected_loss, measure_gem
from populace.methods.selection.candidates import answer_candidates, mean_absolute_noise
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Spend
from populace.schema.conditions.rules import Rule, Rules
from tests.helpers.priced_oracle import PricedOracle

SIZES = {"a": 3, "b": 12, "c": 2}

SPACE = ModelSpace(domain=Domain(SIZES))


class Even:
    """Stands for a network: all cells alike, and a diary of what it was told."""

    def __init__(self, space):
        self.groupings, self.domain, self.total = space.groupings, space.grouped_domain, 3000.0
        self.diary, self.rules, self.totals = [], space.rules, space.totals
        Even.last = self

    def add(self, measurements):
        self.diary.append(len(measurements))

    def refit(self):
        self.diary.append("refit")

    def fits(self, clique, *, max_cells):
        return True

    def tables(self, cliques):
        return {c: np.full(self.domain.shape(c), self.total / self.domain.cells(c)) for c in cliques}


class Chooser(PricedOracle):
    """Chooses the last candidate in turn with the first one, for what a choice costs."""

    def choose(self, candidates, *, among, mechanism, none):
        assert not none
        assert list(among) == list(range(len(candidates.marginals)))
        shift = max(candidates.weights) * self.budget.unit.score_shift
        spend = Spend(verb="choose", what="", mechanism=mechanism, answers=1, l1=shift, l2_squared=shift**2)
        share = self.budget.share(spend)
        self.used += share
        self.asked.append(("choose", len(among), share))
        number = 0 if len(self.chosen) % 2 else len(among) - 1
        self.chosen.append(candidates.marginals[number])
        return number


def asked(monkeypatch, *, rows=3000, weights=None):
    monkeypatch.setattr(module, "GemEstimator", Even)
    rng = np.random.default_rng(7)
    # Nine codes of the second column are hardly there.
    codes = {"a": rng.integers(0, 3, rows), "b": rng.integers(0, 3, rows), "c": rng.integers(0, 2, rows)}
    oracle = Chooser(codes, sizes=SIZES)
    oracle.chosen = []
    wanted = Workload.pairs(oracle.domain) if weights is None else Workload(weights=weights)
    return oracle, measure_gem(oracle, workload=wanted, progress=silent)


def test_rounds_measure_what_was_chosen_and_spend_the_budget(monkeypatch):
    oracle, found = asked(monkeypatch)
    rounds = [share for verb, _, share in oracle.asked if verb == "choose"]
    pairs = [item for item in found if len(item.marginal.clique) == 2]
    assert [item.marginal for item in pairs] == oracle.chosen
    assert len(rounds) == len(pairs) == 3
    each = (1 - GEM_CONFIG.column_share) / 3
    # An exponential choice is priced by its worst case, not to the last digit.
    assert all(
        each * (1 - GEM_CONFIG.measured_share) * Fraction(9, 10)
        < share
        <= each * (1 - GEM_CONFIG.measured_share)
        for share in rounds
    )
    for item in pairs:
        assert (
            item.variance
            == oracle.budget.measure_noise(each * GEM_CONFIG.measured_share, marginals=1).variance
        )
    assert Fraction(98, 100) < oracle.used <= 1


def test_the_network_is_trained_after_every_round_but_the_last(monkeypatch):
    asked(monkeypatch)
    assert Even.last.diary == [4, "refit", 1, "refit", 1, "refit"]


def test_rare_codes_are_asked_in_groups(monkeypatch):
    oracle, _ = asked(monkeypatch)
    with_b = [marginal for marginal in oracle.chosen if "b" in marginal.clique]
    assert with_b
    assert all(marginal.grouping("b").size == 4 for marginal in with_b)


def test_a_heavier_marginal_has_a_larger_score():
    """The weight is that of its distance and of its penalty."""
    noise = DiscreteGaussian(Fraction(25))
    found = answer_candidates(Even(SPACE), {("a", "b"): 3, ("a", "c"): 1000}, noise=noise)
    assert found.weights == (3, 1000)
    assert found.penalties == (
        round(3 * mean_absolute_noise(noise) * 36),
        round(1000 * mean_absolute_noise(noise) * 6),
    )


def test_tables_whose_noise_exceeds_any_distance_are_left_out():
    """36 cells against twice 3,000 rows."""
    edge = (2 * 3000 / 36) ** 2 * np.pi / 2
    grouping = Grouping("b", (0, 1) * 6)
    for variance, kept in ((0.99 * edge, 2), (1.01 * edge, 1)):
        noise = DiscreteGaussian(Fraction(variance))
        weights = {("a", "b"): 1, ("a", "c"): 1}
        assert len(answer_candidates(Even(SPACE), weights, noise=noise).marginals) == kept
        coarse = answer_candidates(Even(SPACE.group([grouping])), weights, noise=noise)
        assert coarse.marginals == (Marginal(("a", "b"), (grouping,)), Marginal(("a", "c")))


def test_a_miss_counts_by_the_noise_of_counts():
    """½·(share − answer)²·N²/σ²: a miss of one deviation in a cell counts ½, however many rows there are."""
    mixture = GemEstimator(ModelSpace(domain=Domain({"a": 2, "b": 2})))
    mixture.add([Measurement(Marginal(("a", "b")), np.array([[400, 100], [300, 200]]), Fraction(64))])
    mixture.refit(steps=0)
    (answer,) = mixture._answers()
    np.testing.assert_allclose(answer.shares * mixture.total, [[400, 100], [300, 200]])
    missed = answer.shares + 8 / mixture.total
    np.testing.assert_allclose(0.5 * (missed - answer.shares) ** 2 * answer.weights, 0.5)
    assert answer.noise == pytest.approx(2)


def test_what_noise_leaves_is_half_a_deviation_squared_in_cells_that_hold_rows():
    """Of 100 rows 103, 3 and −6: the nearest counts are 100, 0 and 0, so 9 + 9 + 36 over 2·9, and half for one cell."""
    seen = Observation(("a",), np.array([103.0, 3.0, -6.0]), np.full(3, 9.0))
    assert _expected_loss(seen, total=100.0) == pytest.approx((9 + 9 + 36) / (2 * 9) + 0.5)


def test_noise_in_cells_that_a_rule_forbids_is_not_taught():
    classes = {name: Grouping(name, (0, 1)) for name in "ab"}
    allowed = np.array([[True, False], [True, True]])
    rules = Rules(classes=classes, rules=(Rule(text="", clique=("a", "b"), allowed=allowed),))
    mixture = GemEstimator(ModelSpace(domain=Domain({"a": 2, "b": 2}), rules=rules))
    mixture.add([Measurement(Marginal(("a", "b")), np.array([[400, 90], [300, 200]]), Fraction(64))])
    mixture.refit(steps=0)
    (answer,) = mixture._answers()
    assert (answer.shares > 0).tolist() == allowed.tolist()
