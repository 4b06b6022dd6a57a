"""Estimates with missing values through the barrier: what is charged, and that no exact number is told."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand
from populace.survey.imputation.imputation_plan import ImputationNoise, ImputationPlan
from populace.survey.imputation.missing_values import estimate_missing
from populace.survey.smooth_questions import Donors

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 9
[columns.PAY]
kind = "integer"
min = 0
max = 100
missing = ["R"]
""")
DONORS = Donors(
    column="PAY",
    match=Marginal(("AGE",), (Grouping("AGE", (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2)),)),
    low=Fraction(0),
    high=Fraction(100),
    default=Fraction(50),
)
WISHES = (Estimand(query="pay"), Estimand(query="poor", where="AGE < 5", between=(Fraction(0), Fraction(30))))


class Paid:
    """A run that pays for everything and remembers what it was charged."""

    rehearsal = True
    id = "0" * 32

    def __init__(self, epsilon):
        self.left = Budget.of(Fraction(epsilon), Fraction(0), unit=SCHEMA.unit)
        self.spends = []

    def charge(self, *spends):
        self.spends += spends


def asked(how, *, epsilon=12, seed=1):
    rng = np.random.default_rng(5)
    age = rng.integers(0, 10, 600)
    pay = np.clip(rng.normal(30 + 3 * age, 15), 0, 100).astype(int).astype(str)
    pay[rng.random(600) < 0.1 + 0.03 * age] = "R"
    run = Paid(epsilon)
    barrier = Barrier(
        PrivateTable.of(pa.table({"AGE": age, "PAY": pay.tolist()}), schema=SCHEMA),
        run=run,
        noise=ExactNoise(RehearsalEntropy(seed)),
    )
    filling = ImputationPlan(donors=DONORS, estimands=WISHES, how=how, schema=SCHEMA)
    return estimate_missing(barrier, filling, noise=ImputationNoise.of(filling, budget=run.left)), run


@pytest.mark.parametrize(
    "how",
    [
        MissingHandling.IGNORE,
        MissingHandling.MODEL,
        pytest.param(MissingHandling.IMPUTE, marks=pytest.mark.slow),
    ],
)
def test_all_is_paid_for(how):
    """What is charged is the whole budget, and never more; other noise gives other numbers, all of them near."""
    found, run = asked(how)
    spent = sum(price(spend, currency=Currency.PURE) for spend in run.spends)
    assert Fraction(1199, 100) < spent <= 12
    again, _ = asked(how, seed=2)
    for row, other in zip(found, again, strict=True):
        assert row.estimate != other.estimate
        assert row.privacy_error > 0
        assert abs(row.estimate - other.estimate) < 12 * row.privacy_error + 1e-9


def test_nothing_is_charged_for_a_refusal():
    """An epsilon that no smooth noise can keep is refused before the barrier is asked."""
    with pytest.raises(UsageError, match="needs more than"):
        asked(MissingHandling.IMPUTE, epsilon=1)
