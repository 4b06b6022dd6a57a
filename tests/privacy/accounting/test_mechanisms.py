"""Laws and spends: exact parameters, one spelling on disk, and nothing half-made."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction

import mpmath
import pytest

from populace.core.errors import UsageError
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Exponential,
    ExponentialCount,
    PartitionSelection,
    Spend,
    fraction_from_json,
    mechanism_from_json,
)

LAWS = [DiscreteGaussian(Fraction(25, 2)), DiscreteLaplace(Fraction(7, 3)), Exponential(Fraction(1, 10))]
GOOD = {"verb": "measure", "what": "sex", "mechanism": LAWS[0], "answers": 1, "l1": 2, "l2_squared": 2}


@pytest.mark.parametrize("mechanism", LAWS, ids=lambda mechanism: type(mechanism).__name__)
def test_laws_survive_json(mechanism):
    assert mechanism_from_json(json.loads(json.dumps(mechanism.to_json()))) == mechanism


@pytest.mark.parametrize("make", [DiscreteGaussian, DiscreteLaplace, Exponential])
@pytest.mark.parametrize("value", [0, -1, Fraction(-1, 2), 0.5, True, None, "1", float("nan")])
def test_parameters_are_exact_and_positive(make, value):
    with pytest.raises(UsageError, match="hint: give a positive Fraction or int"):
        make(value)


@pytest.mark.parametrize("make", [DiscreteGaussian, DiscreteLaplace, Exponential])
def test_whole_numbers_become_fractions_and_laws_are_frozen(make):
    mechanism = make(3)
    name = next(iter(make.__slots__))
    assert isinstance(getattr(mechanism, name), Fraction)
    with pytest.raises(FrozenInstanceError):
        setattr(mechanism, name, Fraction(1))


@pytest.mark.parametrize("scale", ["0.3", "1", "2.5", "40", "1000"])
def test_laplace_variance_is_that_of_the_law(scale):
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    second = mpmath.nsum(lambda z: z**2 * q**z, [1, mpmath.inf]) * 2 * (1 - q) / (1 + q)
    assert float(DiscreteLaplace(Fraction(scale)).variance) == pytest.approx(float(second), rel=1e-9)


def test_laplace_variance_can_always_be_divided_by():
    assert 0 < DiscreteLaplace(Fraction(1, 5000)).variance < Fraction(1, 10**6)


def test_rate_of_a_choice_has_the_factor_two():
    assert Exponential(Fraction(1)).rate(sensitivity=3) == Fraction(1, 6)


@pytest.mark.parametrize(
    "told", [{"law": "gaussian", "variance": "1"}, {"law": "exponential", "epsilon": "-1"}]
)
def test_unknown_laws_are_refused(told):
    with pytest.raises(UsageError):
        mechanism_from_json(told)


@pytest.mark.parametrize(
    "mechanism",
    [
        *LAWS,
        EpsilonDeltaGaussian(Fraction(9), Fraction(1, 100)),
        ExponentialCount(Fraction(2), 3),
        PartitionSelection(DiscreteGaussian(Fraction(9)), 20),
        PartitionSelection(DiscreteLaplace(Fraction(3)), 20),
    ],
    ids=str,
)
@pytest.mark.parametrize("field", ["delta", "variance", "scale", "epsilon", "answers"])
def test_a_field_that_a_law_does_not_have_may_be_a_spend(mechanism, field):
    """Dropped without a word, `delta` beside Laplace noise or beside a threshold would never be paid."""
    told = mechanism.to_json()
    assert mechanism_from_json(told) == mechanism
    if field not in told:
        with pytest.raises((UsageError, ValueError), match=r"has no|one distribution"):
            mechanism_from_json(told | {field: "1/100"})


@pytest.mark.parametrize(
    "text", ["1e999999999", "0.5", "", "1/", "/2", " 1", "1/2/3", "nan", 1, None, "9" * 3000]
)
def test_numbers_on_disk_have_one_spelling(text):
    with pytest.raises(ValueError, match="exact"):
        fraction_from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"verb": "peek"},
        {"verb": "choose"},
        {"mechanism": LAWS[2]},
        {"answers": 0},
        {"answers": True},
        {"l1": 0},
        {"l1": 1.0},
        {"l2_squared": 0},
        {"l2_squared": 5},
    ],
    ids=str,
)
def test_half_made_spends_are_refused(change):
    Spend(**GOOD)
    with pytest.raises(UsageError, match="hint"):
        Spend(**GOOD | change)
