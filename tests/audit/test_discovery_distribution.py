"""The exact law of telling values: every neighbour of tiny tables against what the ledger books for it.

Nothing is drawn. The law of an answer is computed with mpmath from the weights exp(−z²/2σ²) alone, and the
hockey-stick divergence Σ max(P − e^ε·Q, 0) between neighbours is held against the booked (ε, δ).
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from populace.privacy.accounting.mechanisms import DiscreteGaussian, PartitionSelection
from populace.privacy.accounting.partition_selection import delta_price, min_threshold
from populace.privacy.accounting.privacy_loss import Currency, gdp_delta, price
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.unit_keys import UNITS, neighbours, telling
from tests.helpers.sampled_cases import sample_cases

KEYS = ("common", "x", "y")
VARIANCES = [Fraction(1), Fraction(9, 4), Fraction(6)]
SET_ASIDE = Fraction(1, 500)
EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0]


@cache
def weights(variance: Fraction) -> dict[int, mp.mpf]:
    with mp.workdps(50):
        spread = mp.mpf(variance.numerator) / variance.denominator
        reach = int(16 * mp.sqrt(spread)) + 4
        raw = {z: mp.exp(-(mp.mpf(z) ** 2) / (2 * spread)) for z in range(-reach, reach + 1)}
        total = mp.fsum(raw.values())
        return {z: weight / total for z, weight in raw.items()}


@cache
def told(count: int, mechanism: PartitionSelection) -> dict[int | None, float]:
    """The law of one key's part of the answer: None where it is not told. A key that does not occur is never told."""
    if count == 0:
        return {None: 1.0}
    found = {count + z: p for z, p in weights(mechanism.variance).items() if count + z > mechanism.threshold}
    with mp.workdps(50):
        below = mp.fsum(p for z, p in weights(mechanism.variance).items() if count + z <= mechanism.threshold)
    return {None: float(below)} | {answer: float(p) for answer, p in found.items()}


def hockey_stick(
    one: Counter[str], other: Counter[str], mechanism: PartitionSelection, *, epsilon: float
) -> float:
    """Σ max(P − e^ε·Q, 0) over all answers; keys that both have alike tell nothing and are left out."""
    p, q = np.ones(1), np.ones(1)
    for key in KEYS:
        if one[key] == other[key]:
            continue
        mine, theirs = told(one[key], mechanism), told(other[key], mechanism)
        answers = {**mine, **theirs}
        p = np.outer(p, [mine.get(answer, 0.0) for answer in answers]).ravel()
        q = np.outer(q, [theirs.get(answer, 0.0) for answer in answers]).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def booked(mechanism: PartitionSelection, unit: PrivacyUnit, *, epsilon: float) -> float:
    """The δ that the books promise at ε: that of the price, and the part for keys."""
    cost = price(telling(mechanism, unit), currency=Currency.GDP)
    return float(gdp_delta(cost, epsilon=Fraction(epsilon)) + delta_price(mechanism, unit=unit))


def lawful(variance: Fraction, unit: PrivacyUnit, *, lower: int = 0) -> PartitionSelection:
    noise = DiscreteGaussian(variance)
    return PartitionSelection(noise, min_threshold(noise, delta=SET_ASIDE, unit=unit) - lower)


@pytest.mark.parametrize("variance", sample_cases(VARIANCES, to=1), ids=str)
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_no_neighbours_are_further_apart_than_booked(variance, unit):
    mechanism = lawful(variance, unit)
    promised = {epsilon: booked(mechanism, unit, epsilon=epsilon) * (1 + 1e-12) for epsilon in EPSILONS}
    for base in (Counter(), Counter(common=1), Counter(common=mechanism.threshold)):
        for one, other in neighbours(unit, base, KEYS):
            for epsilon, delta in promised.items():
                assert hockey_stick(one, other, mechanism, epsilon=epsilon) <= delta


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_threshold_cannot_be_lower(variance, unit):
    """At an ε where noise alone gives nothing away, some neighbours use the part for keys up, and T − 1 breaks it.

    Under replace-one the divergence counts the keys of one side; the books count both.
    """
    mechanism, lower = lawful(variance, unit), lawful(variance, unit, lower=1)
    twice = 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1
    worst, broken = (
        max(hockey_stick(one, other, each, epsilon=80.0) for one, other in neighbours(unit, Counter(), KEYS))
        for each in (mechanism, lower)
    )
    assert worst == pytest.approx(float(delta_price(mechanism, unit=unit)) / twice, rel=1e-9)
    assert worst <= SET_ASIDE / twice < broken


@pytest.mark.parametrize("variance", sample_cases(VARIANCES, to=1), ids=str)
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_noise_cannot_be_less(variance, unit):
    """Neighbours that move a common key far above the threshold use most of the price; at half the noise they break it.

    The price of a discrete Gaussian is attained by moves of one row; moves of several are covered by group privacy.
    """
    mechanism = lawful(variance, unit)
    halved = PartitionSelection(DiscreteGaussian(mechanism.variance / 4), mechanism.threshold)
    far = Counter(common=3 * mechanism.threshold + 40, x=3 * mechanism.threshold + 40)
    epsilon = 1.0
    # What the noise's own price promises; no key is new here.
    promised = booked(mechanism, unit, epsilon=epsilon) - float(delta_price(mechanism, unit=unit))
    apart = [(one, other) for one, other in neighbours(unit, far, KEYS) if one != other]
    worst = max(hockey_stick(one, other, mechanism, epsilon=epsilon) for one, other in apart)
    assert promised / 2 < worst <= promised * (1 + 1e-12)
    assert max(hockey_stick(one, other, halved, epsilon=epsilon) for one, other in apart) > promised


@pytest.mark.parametrize("variance", sample_cases(VARIANCES, to=1), ids=str)
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_two_questions_and_what_follows_add_up(variance, unit):
    """Two columns told one after the other, and a measurement at the price that is left: within (ε, δ) as reserved."""
    mechanism = lawful(variance, unit)
    kappa = float(2 * delta_price(mechanism, unit=unit))
    base = Counter(common=mechanism.threshold)
    for one, other in (
        (base + Counter("x"), base),
        (base, base + Counter("x")),
        (base + Counter({"common": 1}), base),
    ):
        if unit.neighbours is Neighbours.REPLACE_ONE:
            other = other + Counter("y")
        # A marginal that moves as far as a unit can, drawn with the same noise.
        moved = unit.rows
        cells = {z: float(p) for z, p in weights(variance).items()}
        shifts = [(0, moved)] + ([(moved, 0)] if unit.neighbours is Neighbours.REPLACE_ONE else [])
        for epsilon in (0.5, 2.0, 8.0):
            cost = 3 * price(telling(mechanism, unit), currency=Currency.GDP)
            promised = float(gdp_delta(cost, epsilon=Fraction(epsilon))) + kappa
            assert joint(one, other, mechanism, cells, shifts, epsilon=epsilon) <= promised * (1 + 1e-12)


def joint(one, other, mechanism, cells, shifts, *, epsilon: float) -> float:
    """The divergence of two independent answers about keys and noisy cells that move by the given shifts."""
    p, q = np.ones(1), np.ones(1)
    for key in KEYS:
        if one[key] == other[key]:
            continue
        mine, theirs = told(one[key], mechanism), told(other[key], mechanism)
        # All answers of equal likelihood ratio may be taken together: those that only one table can give.
        shared = [answer for answer in {**mine, **theirs} if answer in mine and answer in theirs]
        a = np.array([*(mine[s] for s in shared), sum(v for k, v in mine.items() if k not in theirs), 0.0])
        b = np.array([*(theirs[s] for s in shared), 0.0, sum(v for k, v in theirs.items() if k not in mine)])
        p, q = np.outer(np.outer(p, a).ravel(), a).ravel(), np.outer(np.outer(q, b).ravel(), b).ravel()
        kept = (p > 1e-18) | (q > 1e-18)
        p, q = p[kept], q[kept]
    for first, second in shifts:
        places = sorted({z + s for z in cells for s in (first, second)})
        a = np.array([cells.get(z - first, 0.0) for z in places])
        b = np.array([cells.get(z - second, 0.0) for z in places])
        p, q = np.outer(p, a).ravel(), np.outer(q, b).ravel()
        kept = (p > 1e-18) | (q > 1e-18)
        p, q = p[kept], q[kept]
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_release_probabilities_at_small_counts(count):
    """P[a key of 0, 1, 2, 3 rows is told], for a unit of three rows: 0, and each at most what is set aside."""
    unit = UNITS["three rows"]
    for variance in VARIANCES:
        mechanism = lawful(variance, unit)
        chance = 1 - told(count, mechanism)[None]
        assert chance == 0 if count == 0 else 0 < chance <= SET_ASIDE
