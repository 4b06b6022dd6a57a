"""The exact law of telling keys with Laplace noise and all of δ set aside, on neighbours against the booked (ε, δ).

Nothing is drawn. Answers about one key fall into a few classes of equal likelihood ratio, because |a − c′| − |a − c|
is a whole number; their probabilities are sums of a geometric series, so the divergence of several keys is exact.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteLaplace, PartitionSelection
from populace.privacy.accounting.partition_selection import delta_price
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.replay import NoisyAnswer, privacy_loss
from tests.audit.unit_keys import UNITS, held, neighbours, telling

KEYS = ("common", "x", "y", "z")
DELTA = Fraction(1, 500)


def told(count: int, answer: int, mechanism: PartitionSelection) -> float:
    """P[the key is told with this number]."""
    q = math.exp(-1 / float(mechanism.noise.scale))
    return q ** abs(answer - count) * (1 - q) / (1 + q) if count and answer > mechanism.threshold else 0.0


def released(count: int, mechanism: PartitionSelection) -> float:
    """P[c + Z > T]: 0 for a key that does not occur."""
    q, gap = math.exp(-1 / float(mechanism.noise.scale)), mechanism.threshold - count
    if not count:
        return 0.0
    return q ** (gap + 1) / (1 + q) if gap >= 0 else 1 - q**-gap / (1 + q)


def classes(one: int, other: int, mechanism: PartitionSelection) -> list[tuple[float, float]]:
    """The probabilities of classes of answers about one key, under two counts."""
    found: dict[int | None, list[float]] = {
        None: [1 - released(one, mechanism), 1 - released(other, mechanism)]
    }
    if one and other:
        last = max(one, other, mechanism.threshold)
        for answer in range(mechanism.threshold + 1, last + 1):
            ratio = abs(answer - other) - abs(answer - one)
            sums = found.setdefault(ratio, [0.0, 0.0])
            sums[0] += told(one, answer, mechanism)
            sums[1] += told(other, answer, mechanism)
        rest = found.setdefault(one - other, [0.0, 0.0])
        q = math.exp(-1 / float(mechanism.noise.scale))
        for side, count in enumerate((one, other)):
            rest[side] += q ** (last + 1 - count) / (1 + q)
        return [(p, r) for p, r in found.values()]
    alone = [(released(one, mechanism), 0.0), (0.0, released(other, mechanism))]
    return [(p, r) for p, r in (*found.values(), *alone)]


def hockey_stick(
    one: Counter[str], other: Counter[str], mechanism: PartitionSelection, *, epsilon: float
) -> float:
    """Σ max(P − e^ε·Q, 0) over all answers."""
    joint = [(1.0, 1.0)]
    for key in KEYS:
        if one[key] != other[key]:
            parts = classes(one[key], other[key], mechanism)
            joint = [(p * a, q * b) for p, q in joint for a, b in parts]
    return sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in joint)


def bought(unit: PrivacyUnit, *, epsilon="1") -> PartitionSelection:
    """The law that a whole budget buys when all of δ is for keys."""
    budget = Budget(currency=Currency.PURE, cap=Fraction(epsilon), unit=unit, keys=DELTA)
    return budget.key_mechanism(Fraction(1), delta=DELTA)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_noise_has_scale_r_over_epsilon(unit):
    mechanism = bought(unit, epsilon="1/2")
    twice = 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1
    assert mechanism.noise == DiscreteLaplace(Fraction(2 * twice * unit.rows))
    assert price(telling(mechanism, unit), currency=Currency.PURE) == Fraction(1, 2)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_the_release_probability_of_new_rows_is_within_delta(unit):
    """1 − Π(1 − P[cᵢ + Z > T]) over every multiset Σcᵢ ≤ r; at T − 1 the worst of them exceeds what is set aside."""
    mechanism = bought(unit)
    twice = 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1
    spreads = [counts.values() for counts in held(unit.rows, KEYS)]

    def worst(each: PartitionSelection) -> float:
        return max(1 - math.prod(1 - released(count, each) for count in counts) for counts in spreads)

    assert 0 < released(1, mechanism) <= DELTA
    assert (
        worst(mechanism)
        <= DELTA / twice
        < worst(PartitionSelection(mechanism.noise, mechanism.threshold - 1))
    )
    assert worst(mechanism) == pytest.approx(float(delta_price(mechanism, unit=unit)) / twice, rel=1e-9)
    if unit.rows == 3:
        assert worst(mechanism) > 2.9 * released(1, mechanism), (
            "the tail of one row alone is three times too weak"
        )


def test_the_threshold_is_below_that_of_the_source():
    """Source: noise of scale 2/ε and ⌈(2/ε)·ln(1/δ)⌉ under replace-one. Ours comes from the exact tail."""
    mechanism = bought(PrivacyUnit(neighbours=Neighbours.REPLACE_ONE))
    assert mechanism.noise.scale == 2
    assert mechanism.threshold <= math.ceil(2 * math.log(1 / DELTA)) + 1


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_no_neighbours_are_further_apart_than_booked(unit):
    mechanism = bought(unit)
    for base in (Counter(), Counter(common=mechanism.threshold)):
        for one, other in neighbours(unit, base, KEYS):
            assert hockey_stick(one, other, mechanism, epsilon=1.0) <= float(DELTA) * (1 + 1e-12)


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("factor", ["1/2", "2"])
def test_other_noise_is_seen(unit, factor):
    """Halved noise breaks the promise on common keys; doubled noise leaves half of ε unused."""
    mechanism = bought(unit)
    other_law = PartitionSelection(
        DiscreteLaplace(mechanism.noise.scale * Fraction(factor)), mechanism.threshold
    )
    far, rows = Counter(dict.fromkeys(KEYS, 9 * mechanism.threshold)), unit.rows
    swapped = unit.neighbours is Neighbours.REPLACE_ONE
    pairs = [(far + Counter(common=rows), far + Counter(x=rows) if swapped else far)]
    assert max(hockey_stick(one, other, mechanism, epsilon=0.9) for one, other in pairs) > 0
    worst = max(hockey_stick(one, other, other_law, epsilon=0.9) for one, other in pairs)
    assert worst > DELTA if factor == "1/2" else worst <= DELTA / 100


def test_replay_weighs_told_keys_by_that_law():
    mechanism = PartitionSelection(DiscreteLaplace(Fraction(3)), 10)
    one, other, answer = (12, 9, 14), (11, 10, 11), {(0, 1): 13}
    keys = ((0, 1), (2, 2), (3, 0))
    tapes = [[NoisyAnswer(np.array(counts), mechanism, answer, keys)] for counts in (one, other)]
    expected = math.log(told(12, 13, mechanism) / told(11, 13, mechanism))
    expected += sum(
        math.log((1 - released(a, mechanism)) / (1 - released(b, mechanism)))
        for a, b in zip(one[1:], other[1:], strict=True)
    )
    assert privacy_loss(*tapes) == pytest.approx(expected)
    lacking = [NoisyAnswer(np.array(other[1:]), mechanism, answer, keys[1:])]
    assert privacy_loss(tapes[0], lacking) == math.inf
