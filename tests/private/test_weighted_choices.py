"""The law of weighted scores and choices, read off the barrier for every neighbour of tiny tables."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import MAX_CANDIDATE_WEIGHT, Candidates, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit

SIZES = {"a": 2, "b": 3}
RECORDS = list(product(range(2), range(3)))
MARGINALS = (Marginal(("a",)), Marginal(("b",)), Marginal(("a", "b")))
EPSILON = Fraction(7, 10)
UNITS = [
    PrivacyUnit(),
    PrivacyUnit(rows=2, id="p"),
    PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    PrivacyUnit(rows=2, id="p", neighbours=Neighbours.REPLACE_ONE),
]


class Tab:
    """A run that keeps what it is charged and refuses nothing."""

    rehearsal = True

    def __init__(self, unit: PrivacyUnit) -> None:
        self.left = Budget.of(Fraction(1), Fraction(1, 10**6), unit=unit)
        self.spends = []

    def charge(self, *spends):
        self.spends += spends


class Ear:
    """A noise source that hears exact scores and the rate of a choice, and adds nothing."""

    def add(self, exact, *, mechanism):
        self.exact = exact
        return exact

    def pick(self, scores, *, rate):
        self.mechanism = float(rate) * scores.astype(float)
        self.mechanism -= np.log(np.exp(self.mechanism - self.mechanism.max()).sum()) + self.mechanism.max()
        return len(scores) - 1


def door(rows, unit):
    schema = Schema(columns=Schema.from_sizes(SIZES).columns, unit=unit)
    codes = np.array(rows, dtype=np.uint8).reshape(len(rows), 2)
    engine = MemoryEngine({"a": codes[:, 0], "b": codes[:, 1]}, domain=schema.domain)
    tab, ear = Tab(unit), Ear()
    return Barrier(PrivateTable(lambda: engine, schema=schema), run=tab, noise=ear), tab, ear


def neighbours(rows, unit):
    for count in range(1, unit.rows + 1):
        for added in combinations_with_replacement(RECORDS, count):
            if unit.neighbours is Neighbours.ADD_REMOVE:
                yield (*rows, *added), rows
            else:
                for other in combinations_with_replacement(RECORDS, count):
                    yield (*rows, *added), (*rows, *other)


def slates(weights):
    """Estimates below and above what is there, so that scores move both ways."""
    domain = Schema.from_sizes(SIZES).domain
    yield Candidates(MARGINALS, tuple(np.zeros(m.shape(domain), int) for m in MARGINALS), (3, -2, 0), weights)
    # The second nearly always wins; a row with a = 1 and b = 1 lowers its score and raises that of the first.
    apart = (np.array([9, 0]), np.array([0, 9, 0]), np.full((2, 3), 9))
    yield Candidates(MARGINALS, apart, (10**6, -(10**6), 0), weights)


def chosen_law(rows, unit, slate, *, none, among):
    barrier, tab, ear = door(rows, unit)
    barrier.choose(slate, among=among, mechanism=Exponential(EPSILON), none=none)
    return ear.mechanism, tab.spends[0]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("none", [True, False])
@pytest.mark.parametrize("weights", [(1, 1, 1), (5, 5, 2), (40, 40, 1)])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_choices_between_neighbours_differ_by_epsilon_and_reach_it(unit, weights, none):
    """Above ε if the weight, or the 2 for scores that move both ways, is left out; below it if counted twice."""
    furthest = 0.0
    for slate in slates(weights):

        @cache
        def mechanism(rows, slate=slate):
            return chosen_law(rows, unit, slate, none=none, among=(0, 1, 2))

        for one, other in neighbours(((1, 2), (0, 0)), unit):
            (first, spend), (second, _) = mechanism(one), mechanism(other)
            assert spend.l1 == max(weights) * unit.score_shift
            furthest = max(furthest, float(np.abs(first - second).max()))
    assert 0.99 * float(EPSILON) < furthest <= float(EPSILON) * (1 + 1e-9)


def test_only_the_weights_that_are_chosen_among_count():
    unit = PrivacyUnit()
    slate = next(slates((5, 1, 100)))
    furthest = 0.0
    for one, other in neighbours((), unit):
        (first, spend), (second, _) = (
            chosen_law(rows, unit, slate, none=True, among=(1, 0)) for rows in (one, other)
        )
        assert spend.l1 == 5
        furthest = max(furthest, float(np.abs(first - second).max()))
    assert float(EPSILON) / 4 < furthest <= float(EPSILON)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_weighted_scores_move_exactly_as_far_as_is_charged(unit):
    weights, furthest, signs = (5, 1, 2), 0, set()
    for slate in slates(weights):

        @cache
        def scores(rows, slate=slate):
            barrier, tab, ear = door(rows, unit)
            barrier.score(slate, noise=DiscreteGaussian(Fraction(9)))
            return ear.exact, tab

        for one, other in neighbours(((1, 2),), unit):
            (first, tab), (second, _) = scores(one), scores(other)
            moved = first - second
            furthest = max(furthest, int(np.abs(moved).max()))
            signs |= set(np.sign(moved).tolist())
    assert furthest == tab.spends[0].l1 == 5 * unit.score_shift
    assert tab.spends[0].l2_squared == furthest**2
    assert {-1, 1} <= signs


def test_none_is_among_the_choices_unless_it_is_left_out():
    slate = next(slates((5, 1, 2)))
    rows, unit = ((1, 2), (0, 0)), PrivacyUnit()
    with_none, spend = chosen_law(rows, unit, slate, none=True, among=(0, 1, 2))
    without, other = chosen_law(rows, unit, slate, none=False, among=(0, 1, 2))
    assert (spend.what, other.what) == ("1 or none of 3 marginals", "1 of 3 marginals")
    # Two rows against empty estimates: weight · 2 − penalty, and zeros for none.
    scores = np.array([5 * 2 - 3, 1 * 2 + 2, 2 * 2])
    weighed = np.exp(float(EPSILON) / 10 * scores)
    np.testing.assert_allclose(np.exp(without), weighed / weighed.sum())
    np.testing.assert_allclose(np.exp(with_none), np.append(weighed, [1, 1, 1]) / (weighed.sum() + 3))
    barrier, _, _ = door(rows, unit)
    assert barrier.choose(slate, among=[0, 1], mechanism=Exponential(EPSILON)) is None
    assert barrier.choose(slate, among=[0, 1], mechanism=Exponential(EPSILON), none=False) == 1


@pytest.mark.parametrize(
    "weights", [(1,), (1, 0, 1), (1, -2, 1), (1, 2.0, 1), (1, True, 1), (1, MAX_CANDIDATE_WEIGHT + 1, 1)]
)
def test_weights_that_say_nothing_or_too_much_are_refused(weights):
    with pytest.raises(UsageError, match="weight"):
        next(slates(weights))


def test_a_weight_cannot_make_a_score_wrap_around():
    heavy = np.array([2**41, 0])
    Candidates((Marginal(("a",)),), (heavy,), (0,))
    with pytest.raises(UsageError, match="rows"):
        Candidates((Marginal(("a",)),), (heavy,), (0,), (MAX_CANDIDATE_WEIGHT,))
