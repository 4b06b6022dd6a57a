"""Gaussian noise among pure questions: its exact law on neighbours, alone and before what is asked next.

Nothing is drawn, and no curve of Gaussian privacy is used. Alone, the logarithm of the ratio of two shifted laws is
linear in one whole number, Σ v·z over the cells that moved; its law is a convolution. In a run every transcript is
weighed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from unittest.mock import patch

import numpy as np
import pytest

from populace.core.marginals import Marginal
from populace.methods.stability import STABILITY
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian, EpsilonDeltaGaussian, Spend
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit import mechanism_mutants as mutants
from tests.audit.replay import NoisyAnswer, Transcript
from tests.audit.transcripts import Case, whole_run
from tests.helpers.privacy_units import make_unit

UNITS = [
    make_unit(relation, rows=rows, id="p" if rows > 1 else None)
    for relation in Neighbours
    for rows in ((1,) if relation is Neighbours.REPLACE_WITHIN else (1, 2, 3))
]
# ε, δ and the number of marginals.
PROMISES = [
    ("1/10", "1/100", 1),
    ("1", "1/100", 1),
    ("1", "1/100", 4),
    ("1", "1/1000000", 1),
    ("3", "1/10000", 1),
]


def moves(unit: PrivacyUnit) -> Iterator[tuple[int, ...]]:
    """Yield how far the cells of one marginal can move between neighbours: rows of one unit, or of one for another."""
    spreads = [
        cells
        for count in range(1, unit.rows + 1)
        for cells in combinations_with_replacement(range(1, unit.rows + 1), count)
        if sum(cells) <= unit.rows
    ]
    if unit.neighbours is Neighbours.ADD_REMOVE:
        yield from spreads
        return
    for mine, theirs in product(spreads, repeat=2):
        yield (*mine, *(-count for count in theirs))


def hockey_stick(variance: float, moved: tuple[int, ...], *, epsilon: float) -> float:
    """Σ max(P − e^ε·Q, 0), P with noise around 0 and Q around where cells moved; both ways round are the same.

    ln P/Q = (Σv² − 2Σvz)/2σ², and Σvz is a whole number with a law of its own. What lies beyond 12 deviations has a
    probability below 1e-32.
    """
    reach = math.ceil(12 * math.sqrt(variance)) + 1
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    mass /= mass.sum()
    mechanism = np.ones(1)
    for step in map(abs, moved):
        strided = np.zeros(2 * reach * step + 1)
        strided[::step] = mass
        mechanism = np.convolve(mechanism, strided)
    sums = np.arange(len(mechanism)) - len(mechanism) // 2
    ratios = (sum(step**2 for step in moved) - 2 * sums) / (2 * variance)
    return float((mechanism * np.maximum(-np.expm1(epsilon - ratios), 0)).sum())


def bought(unit: PrivacyUnit, *, epsilon: Fraction, delta: Fraction, marginals: int) -> EpsilonDeltaGaussian:
    """The law that a whole budget buys."""
    budget = Budget(currency=Currency.PURE, cap=epsilon, unit=unit, keys=delta)
    return budget.measure_gaussian(Fraction(1), marginals=marginals, delta=delta)


def worst(unit: PrivacyUnit, variance: Fraction, *, epsilon: Fraction, marginals: int) -> float:
    """The most that neighbours differ by, every marginal moved alike."""
    return max(
        hockey_stick(float(variance), moved * marginals, epsilon=float(epsilon)) for moved in moves(unit)
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.rows} {unit.neighbours.value}")
@pytest.mark.parametrize(("epsilon", "delta", "marginals"), PROMISES)
def test_no_neighbours_are_further_apart_than_booked(unit, epsilon, delta, marginals):
    """Half the variance breaks the promise; twice the variance leaves most of δ unused."""
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    mechanism = bought(unit, epsilon=epsilon, delta=delta, marginals=marginals)
    spend = Spend(
        verb="measure",
        what="pairs",
        mechanism=mechanism,
        answers=marginals,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )
    assert epsilon * Fraction(99, 100) < price(spend, currency=Currency.PURE) <= epsilon
    assert delta_price(mechanism, unit=unit) == delta
    right, half, twice = (
        worst(unit, mechanism.variance * factor, epsilon=epsilon, marginals=marginals) / float(delta)
        for factor in (1, Fraction(1, 2), 2)
    )
    assert right <= 1 < half
    # Whole numbers are coarse: narrow noise cannot use all of δ.
    assert right > (0.9 if mechanism.variance > 14 else 0.4)
    assert twice < 0.35


CASE = Case(method="stability", sizes=(2, 2), epsilon="1", delta="1e-2")
EMPTY, ONE = (), (((1, 1),),)
MOST = Fraction(9, 10)
# 8 deviations of the first noise where it is widest; later numbers go as far as a scale of 14 needs.
FIRST, LATER = np.arange(-25, 26), np.arange(-400, 401)


def curious(oracle, workload, progress):
    """Count a column with most of ε and δ; the rest buys Gaussian noise after an even count, else Laplace noise."""
    budget, rest = oracle.budget, 1 - MOST
    noise = budget.measure_gaussian(MOST, marginals=1, delta=MOST * budget.keys)
    first = oracle.measure([Marginal(("a",))], noise=noise)
    if first[0].counts[1] % 2 == 0:
        noise = budget.measure_gaussian(rest, marginals=1, delta=rest * budget.keys)
        return first + oracle.measure([Marginal(("a", "b"))], noise=noise)
    return first + oracle.measure([Marginal(("b",))], noise=budget.measure_noise(rest, marginals=1))


class Script:
    """Says one number about the first column, and nothing of interest about anything else."""

    def __init__(self, number):
        self.number, self.transcript = number, Transcript()

    def add(self, exact, *, mechanism):
        answer = np.zeros_like(exact) if self.transcript.entries else np.array([0, self.number])
        self.transcript.record(NoisyAnswer(exact.copy(), mechanism, answer))
        return answer


def met(number):
    """Return the laws of all that met noise after this first answer; every time one cell had moved by one row."""
    transcripts = []
    for table in (EMPTY, ONE):
        source = Script(number)
        whole_run(CASE, table, source)
        transcripts.append(source.transcript.entries)
    laws = []
    for one, other in zip(*transcripts, strict=True):
        assert one.mechanism == other.mechanism
        assert np.abs(other.exact - one.exact).sum() == 1
        laws.append(one.mechanism)
    return laws


def masses(mechanism, numbers):
    """Return the probabilities of one number on both tables: noise around 0, and around 1."""
    power = 2 if isinstance(mechanism, DiscreteGaussian) else 1
    spread = 2 * float(mechanism.variance) if power == 2 else float(mechanism.scale)
    both = [np.exp(-(np.abs(numbers - centre) ** power) / spread) for centre in (0, 1)]
    return [each / each.sum() for each in both]


def divergences():
    """Return Σ max(P − e^ε·Q, 0) over all transcripts, both ways round, and the names of the laws that were met."""
    gamma, found, seen = math.exp(float(CASE.epsilon)), [0.0, 0.0], set()
    for place, number in enumerate(FIRST):
        mechanism, second = met(int(number))
        first = [mass[place] for mass in masses(mechanism, FIRST)]
        one, other = (at * mass for at, mass in zip(first, masses(second, LATER), strict=True))
        found[0] += float(np.maximum(one - gamma * other, 0).sum())
        found[1] += float(np.maximum(other - gamma * one, 0).sum())
        seen |= {type(mechanism).__name__, type(second).__name__}
    return found, seen


@pytest.mark.parametrize(
    ("fault", "kept", "used"),
    [
        (nullcontext, True, True),
        (mutants.noise_passed_on(Fraction(7, 10)), False, True),
        (mutants.noise_passed_on(Fraction(10, 7)), True, False),
    ],
    ids=["right", "half the variance", "twice the variance"],
)
@pytest.mark.slow
def test_delta_of_all_transcripts_is_kept_when_questions_follow_answers(fault, kept, used):
    """Parts of ε and δ are added up, which is more than a whole run loses: this asker can use about half of δ."""
    with (
        patch("populace.methods.registry.METHODS", {"stability": replace(STABILITY, measure=curious)}),
        fault(),
    ):
        found, seen = divergences()
    assert len(seen) == 2
    delta = float(CASE.delta)
    assert (max(found) <= delta) is kept
    assert (max(found) > delta / 3) is used
