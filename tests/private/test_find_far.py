"""The law of the first candidate above 0, read off the barrier for every neighbour of tiny tables."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Candidates
from populace.privacy.accounting.mechanisms import Exponential
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.candidate_scores import score_firsts
from populace.schema.unit import PrivacyUnit
from tests.private.test_weighted_choices import EPSILON, MARGINALS, UNITS, door, neighbours

# Scores that lie near 0 in every order, so that an answer hangs on several of them.
PENALTIES = [(2, 2, 2), (1, 3, 2), (3, 1, 4), (10**6, 2, -(10**6)), (2, 10**6, 2)]


NEAR = (np.array([1, 0]), np.array([0, 1, 0]), np.zeros((2, 3), int))
# A row with a = 1 and b = 1 lowers the score of the second and raises that of the first.
APART = (np.array([9, 0]), np.array([0, 9, 0]), np.full((2, 3), 9))


def slate(penalties, weights, estimates=NEAR):
    scaled = tuple(weight * penalty for weight, penalty in zip(weights, penalties, strict=True))
    return Candidates(MARGINALS, estimates, scaled, weights)


def slates(weights):
    """Scores near 0, and a second candidate that nearly always is the first above it."""
    yield from (slate(penalties, weights) for penalties in PENALTIES)
    yield slate((10**6, -(10**5), 0), weights, APART)


def first_by_definition(scores):
    """Whoever is first lies above 0 by what it would take to make it no longer the first, of all scores up to it."""
    found = [min([score, *(-each for each in scores[:place])]) for place, score in enumerate(scores)]
    return [*found, min(-each for each in scores)]


def test_scores_of_the_first_are_their_definition():
    for size in (1, 2, 3):
        for scores in product(range(-2, 3), repeat=size):
            found = score_firsts(np.array(scores)).tolist()
            assert found == first_by_definition(scores)
            # Where no score is 0, the first above 0 is the only one that counts for more than nothing.
            if 0 not in scores:
                (best,) = [place for place, each in enumerate(found) if each > 0]
                assert best == next((place for place, each in enumerate(scores) if each > 0), size)


def law(rows, unit, candidates):
    barrier, tab, ear = door(rows, unit)
    barrier.find_far(candidates, among=(0, 1, 2), mechanism=Exponential(EPSILON))
    return ear.mechanism, tab.spends


@pytest.mark.parametrize("weights", [(1, 1, 1), (5, 5, 2)])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_answers_between_neighbours_differ_by_epsilon_and_reach_it(unit, weights):
    """Above ε if the weight, or the 2 for scores that move both ways, is left out; below it if counted twice."""
    furthest = 0.0
    for candidates in slates(weights):

        @cache
        def told(rows, candidates=candidates):
            return law(rows, unit, candidates)

        for one, other in neighbours(((1, 2), (0, 0)), unit):
            (first, spends), (second, _) = told(one), told(other)
            assert [(spend.verb, spend.answers, spend.l1) for spend in spends] == [
                ("choose", 1, max(weights) * unit.score_shift)
            ]
            furthest = max(furthest, float(np.abs(first - second).max()))
    assert 0.99 * float(EPSILON) < furthest <= float(EPSILON) * (1 + 1e-9)


def test_a_list_of_any_length_has_one_price():
    unit, single = PrivacyUnit(), slate((2, 2, 2), (1, 1, 1))
    for among in ((0,), (2, 0, 1), (0, 1, 2) * 50):
        barrier, tab, _ = door(((1, 2),), unit)
        barrier.find_far(single, among=among, mechanism=Exponential(EPSILON))
        (spend,) = tab.spends
        assert spend.mechanism == Exponential(EPSILON)
        assert spend.what == f"the first of {len(among)} marginals above 0, or none"
    with pytest.raises(UsageError, match="nothing to choose from"):
        door((), unit)[0].find_far(single, among=(), mechanism=Exponential(EPSILON))


def test_the_order_is_that_of_the_question_and_none_is_told():
    """With scores far from 0 the answer is the first above it: others have a chance below e⁻⁵⁰ each."""
    unit, sharp = PrivacyUnit(), Exponential(Fraction(100))
    rows = ((1, 2), (0, 0))

    def ask(penalties, among):
        barrier, _, _ = door(rows, unit)
        barrier._noise = ExactNoise(RehearsalEntropy(1))
        return barrier.find_far(slate(penalties, (1, 1, 1)), among=among, mechanism=sharp)

    assert ask((-5, -5, -5), (2, 0, 1)) == 2
    assert ask((9, -5, -5), (0, 2, 1)) == 2
    assert ask((9, -5, 9), (2, 0, 1)) == 1
    assert ask((9, 9, 9), (2, 0, 1)) is None
