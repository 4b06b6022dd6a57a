"""The noise that comes out of the barrier has the law that went into the ledger: no less, no more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.marginals import Candidates, Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.schema.schema import Schema
from tests.audit.transcripts import Workspace

CODES = 6000


class Scaled:
    """A faulty noise source: it draws at another scale than it is told."""

    def __init__(self, factor: Fraction, seed: int) -> None:
        self.factor = factor
        self.true = ExactNoise(RehearsalEntropy(seed))

    def add(self, exact, *, mechanism):
        if isinstance(mechanism, DiscreteGaussian):
            return self.true.add(exact, mechanism=DiscreteGaussian(mechanism.variance * self.factor**2))
        return self.true.add(exact, mechanism=DiscreteLaplace(mechanism.scale * self.factor))

    def pick(self, scores, *, rate):
        return self.true.pick(scores, rate=rate / self.factor)


def barrier(noise, *, delta="1e-2"):
    schema = Schema.from_sizes({"code": CODES, "flag": 2})
    frame = pa.table({"code": pa.array([], pa.int64()), "flag": pa.array([], pa.int64())})
    run = Workspace().reserve(
        "empty",
        epsilon=Fraction(1000),
        delta=Fraction(delta),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
    )
    return Barrier(PrivateTable.of(frame, schema=schema), run=run, noise=noise), run


def within(values, mechanism) -> bool:
    """Whether the second moment of noise fits its law, to 6 standard errors: false alarms below 1e-8."""
    squares = np.asarray(values, dtype=np.float64).ravel() ** 2
    if isinstance(mechanism, DiscreteGaussian):
        mean, kurtosis = float(mechanism.variance), 3.0
    else:
        q = np.exp(-1 / float(mechanism.scale))
        mean, kurtosis = 2 * q / (1 - q) ** 2, 6.2
    error = mean * np.sqrt((kurtosis - 1) / squares.size)
    return bool(abs(squares.mean() - mean) < 6 * error)


LAWS = [DiscreteGaussian(Fraction(25)), DiscreteGaussian(Fraction(9, 4)), DiscreteLaplace(Fraction(7))]
FACTORS = [(Fraction(1), True), (Fraction(1, 2), False), (Fraction(2), False)]


@pytest.mark.parametrize("mechanism", LAWS, ids=str)
@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_measure_noise(mechanism, factor, fits):
    door, run = barrier(Scaled(factor, seed=1))
    got = door.measure([Marginal(("code",))], noise=mechanism)
    assert within(got[0].counts, run.record().spends[-1].spend.mechanism) is fits
    assert run.record().spends[-1].spend.mechanism == mechanism


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_batches_have_the_noise_that_each_is_charged_for(factor, fits):
    door, run = barrier(Scaled(factor, seed=4), delta="0.1")
    loud, quiet = DiscreteGaussian(Fraction(100)), DiscreteGaussian(Fraction(4))
    got = door.measure_batches([([Marginal(("code",))], loud), ([Marginal(("code",))], quiet)])
    booked = [record.spend.mechanism for record in run.record().spends]
    assert booked == [loud, quiet]
    assert [item.variance for item in got] == [loud.variance, quiet.variance]
    assert [within(item.counts, mechanism) for item, mechanism in zip(got, booked, strict=True)] == [
        fits,
        fits,
    ]


@pytest.mark.parametrize("mechanism", LAWS, ids=str)
@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_score_noise(mechanism, factor, fits):
    door, run = barrier(Scaled(factor, seed=2))
    slate = slate_of(np.zeros(3000, dtype=np.int64))
    assert within(door.score(slate, noise=mechanism), run.record().spends[-1].spend.mechanism) is fits


def slate_of(penalties) -> Candidates:
    count = len(penalties)
    zero = np.zeros(2, dtype=np.int64)
    return Candidates((Marginal(("flag",)),) * count, (zero,) * count, tuple(int(p) for p in penalties))


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_choice_noise(factor, fits):
    """One candidate of score 4 against none (score 0) at ε = 1: it wins with probability e²/(1 + e²).

    400 choices, 4.5 standard errors: false alarms below 1e-5, and the seed is fixed. Halved and doubled noise
    give .982 and .731 instead of .881.
    """
    door, run = barrier(Scaled(factor, seed=3))
    slate = slate_of([-4])
    wins = np.mean(
        [door.choose(slate, among=[0], mechanism=Exponential(Fraction(1))) == 0 for _ in range(400)]
    )
    mechanism = run.record().spends[-1].spend.mechanism
    truth = 1 / (1 + np.exp(-float(mechanism.epsilon) * 4 / 2))
    assert bool(abs(wins - truth) < 4.5 * np.sqrt(truth * (1 - truth) / 400)) is fits
