"""Counts told within a range: the exact law, what it costs on all neighbours, and how far it errs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

from populace.api import synthesize as synthesize_api
from populace.core.errors import UsageError
from populace.privacy.accounting.budget import MAX_EPSILON, Budget
from populace.privacy.accounting.mechanisms import (
    DiscreteLaplace,
    ExponentialCount,
    Spend,
    mechanism_from_json,
)
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.noise.samplers import draw_exponential_counts
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.replay import NoisyAnswer, privacy_loss

SMALL = ExponentialCount(Fraction(2), 3)
LARGE = ExponentialCount(Fraction(20), 400)
UNITS = [
    PrivacyUnit(),
    PrivacyUnit(rows=3, id="p"),
    PrivacyUnit(neighbours=Neighbours.REPLACE_ONE),
    PrivacyUnit(rows=3, id="p", neighbours=Neighbours.REPLACE_ONE),
]


@cache
def law_at(x: int, mechanism: ExponentialCount) -> tuple[float, ...]:
    """P[a | x] for a = 0 … most, from the score alone."""
    weights = [math.exp(-abs(a - x) / float(mechanism.scale)) for a in range(mechanism.most + 1)]
    return tuple(weight / math.fsum(weights) for weight in weights)


def test_the_law_on_0_to_3():
    """Worked by hand at scale 2: q = e^−½, P[a | 0] = qᵃ/(1 + q + q² + q³), P[a | 1] = q^|a − 1|/(1 + 2q + q²)."""
    q = math.exp(-0.5)
    assert law_at(0, SMALL) == pytest.approx([q**a / (1 + q + q**2 + q**3) for a in range(4)])
    assert law_at(1, SMALL) == pytest.approx([p / (1 + q) ** 2 for p in (q, 1, q, q * q)])
    assert law_at(3, SMALL) == pytest.approx(law_at(0, SMALL)[::-1])
    assert law_at(0, SMALL)[0] == pytest.approx(0.455053, abs=1e-5)


@pytest.mark.parametrize(("factor", "fits"), [("1", True), ("1/2", False), ("3/2", False)])
def test_counts_are_drawn_by_that_law(factor, fits):
    """10,000 draws at each x of 0 … 3 and beyond: chi-square on 15 degrees, false alarms below 1e-9; fixed seed."""
    source = ExactNoise(RehearsalEntropy(5))
    exact = np.repeat([0, 1, 2, 3, 9], 10_000)
    drawn = source.add(exact, mechanism=ExponentialCount(SMALL.scale * Fraction(factor), SMALL.most)).reshape(
        5, -1
    )
    statistic = 0.0
    for x, answers in zip([0, 1, 2, 3, 3], drawn, strict=True):
        expected = 10_000 * np.array(law_at(x, SMALL))
        statistic += float(((np.bincount(answers, minlength=4) - expected) ** 2 / expected).sum())
    assert bool(chi2.sf(statistic, 15) > 1e-9) is fits


def loss(one, other, mechanism: ExponentialCount) -> float:
    """The greatest |ln P[answer | one] − ln P[answer | other]|: cells are independent, so their greatest ones add."""
    total = np.zeros(2)
    for x, y in zip(one, other, strict=True):
        ratios = np.log(law_at(min(x, mechanism.most), mechanism)) - np.log(
            law_at(min(y, mechanism.most), mechanism)
        )
        total += ratios.max(), -ratios.min()
    return float(total.max())


def moved(unit: PrivacyUnit, base):
    """All that one unit can do to three bins."""
    change = [c for c in product(range(unit.rows + 1), repeat=3) if sum(c) <= unit.rows]
    for mine in change:
        one = np.add(base, mine)
        others = change if unit.neighbours is Neighbours.REPLACE_ONE else [(0, 0, 0)]
        for theirs in others:
            yield one, np.add(base, theirs)


@pytest.mark.parametrize(
    ("unit", "mechanism"),
    [
        pytest.param(unit, mechanism, marks=pytest.mark.slow)
        if unit is UNITS[-1] and mechanism is LARGE
        else (unit, mechanism)
        for unit in UNITS
        for mechanism in (SMALL, LARGE)
    ],
    ids=lambda part: (
        f"{part.rows} {part.neighbours.value}" if isinstance(part, PrivacyUnit) else str(part.most)
    ),
)
def test_no_neighbours_lose_more_than_the_price_and_some_nearly_that(unit, mechanism):
    cost = float(price(asked(mechanism, unit=unit), currency=Currency.PURE))
    worst = max(
        loss(one, other, mechanism)
        for base in ((0, 0, 0), (0, 1, 2), (5, 0, 300), (0, 397, 0), (0, 399, 0))
        for one, other in moved(unit, base)
    )
    assert worst <= cost * (1 + 1e-12)
    # The price of Laplace noise without a range would be half of it.
    if mechanism is LARGE:
        assert worst > 0.8 * cost


def asked(mechanism, *, unit: PrivacyUnit, verb="measure") -> Spend:
    return Spend(
        verb=verb,
        what="a",
        mechanism=mechanism,
        answers=1,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )


@pytest.mark.parametrize("mechanism", [SMALL, ExponentialCount(Fraction(5), 60)], ids=str)
def test_the_error_is_within_what_is_saved_beside_the_counts(mechanism):
    """At every x: the mean square by the variance, and every tail by that of the noise without a range."""
    q = math.exp(-1 / float(mechanism.scale))
    for x in range(mechanism.most + 1):
        gaps = np.abs(np.arange(mechanism.most + 1) - x)
        chances = np.array(law_at(x, mechanism))
        assert chances @ gaps**2 <= float(mechanism.variance) * (1 + 1e-12)
        for far in range(1, mechanism.most + 1):
            assert chances[gaps >= far].sum() <= 2 * q**far / (1 + q) * (1 + 1e-12)


def test_replay_weighs_answers_by_that_law():
    one, other, answer = np.array([0, 2, 9]), np.array([1, 2, 3]), np.array([0, 3, 2])
    tapes = [[NoisyAnswer(exact, SMALL, answer)] for exact in (one, other)]
    expected = sum(
        math.log(law_at(min(x, 3), SMALL)[a] / law_at(min(y, 3), SMALL)[a])
        for x, y, a in zip(one, other, answer, strict=True)
    )
    assert privacy_loss(*tapes) == pytest.approx(expected)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_share_of_the_budget_buys_it(delta):
    unit = PrivacyUnit(rows=3, id="p")
    budget = Budget.of(Fraction(1), Fraction(delta), unit=unit)
    mechanism = budget.measure_bounded(Fraction(1, 2), marginals=2, most=10**6)
    assert mechanism.scale == 24 if delta == "0" else mechanism.scale > 24
    share = 2 * budget.share(asked(mechanism, unit=unit))
    assert Fraction(4999, 10_000) < share <= Fraction(1, 2)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.rows} {unit.neighbours.value}")
def test_the_sharpest_law_that_a_run_can_buy_has_no_bias(unit):
    """At the largest ε allowed the noise is all but 0; its bias, q/(1 − q), must not overflow after it was paid for."""
    mechanism = Budget.of(MAX_EPSILON, Fraction(0), unit=unit).measure_bounded(
        Fraction(1), marginals=1, most=10**6
    )
    assert 0 <= mechanism.bias < 1e-300
    assert SMALL.bias == pytest.approx(1 / math.expm1(0.5))
    assert ExponentialCount(Fraction(10**6), 10**6).bias == pytest.approx(10**6 - 0.5)


def test_a_run_at_the_largest_epsilon_ends_with_a_release(tmp_path):
    schema = Schema.parse('[table]\nmax_rows = 1000\n\n[columns.a]\nkind = "integer"\nmin = 0\nmax = 3\n')
    found = synthesize_api.synthesize(
        pa.table({"a": [0, 1, 1, 3]}),
        schema=schema,
        epsilon=MAX_EPSILON,
        delta=0,
        method="histogram-exponential",
        ledger=tmp_path / "l.db",
    )
    found.save(tmp_path / "release", report=False)
    assert sorted(found.synthetic["a"].to_pylist()) == [0, 1, 1, 3]


def test_the_law_reads_back_and_refuses_what_cannot_be_drawn():
    assert mechanism_from_json(SMALL.to_json()) == SMALL
    for scale, most in ((4, 3), (1, True), (1, 0), (Fraction(1, 2), Fraction(7, 2))):
        with pytest.raises(UsageError, match="counts up to"):
            ExponentialCount(Fraction(scale), most)
    with pytest.raises(ValueError, match="whole number"):
        mechanism_from_json({"law": "exponential-count", "scale": "1", "most": "7/2"})
    with pytest.raises(UsageError, match="below their noise"):
        draw_exponential_counts(np.array([1]), scale=Fraction(4), most=3, entropy=RehearsalEntropy(1))
    for verb in ("score", "choose", "discover"):
        with pytest.raises(UsageError, match="does not go with"):
            asked(SMALL, unit=PrivacyUnit(), verb=verb)
    assert asked(DiscreteLaplace(Fraction(2)), unit=PrivacyUnit(), verb="discover")
