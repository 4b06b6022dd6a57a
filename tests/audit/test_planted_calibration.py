"""Faults about calibrated plans, shares and counted rows, each of one line: all are seen by checks sound code passes.

The faults that matter most: noise for fewer cells than a person moves, shares that are not those of the budget, δ that
is used twice, distributions for questions that were not fixed, and more given back than was not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import InternalError, PopulaceError
from populace.core.limits import LIMITS
from populace.core.progress import silent
from populace.measurements.measurements import Measurements
from populace.methods.topdown.level_budget import LevelBudget
from populace.methods.topdown.topdown import measure_topdown
from populace.methods.workload import Workload
from populace.privacy.accounting import privacy_loss_distribution as pld
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Spend
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.release.verify import verify_measurements
from populace.schema.codec.frequencies import read_frequencies
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.transcripts import Workspace
from tests.helpers.geographies import make_schema, make_table, reserve
from tests.helpers.planted_faults import seeded

EXACT, PLAIN = make_schema(), make_schema(invariants=())
SHARES = (Fraction(1, 10), Fraction(1, 10), Fraction(2, 5), Fraction(2, 5))
DELTA = Fraction("1e-9")


def refused(deed: Callable[[], object]) -> None:
    with pytest.raises(PopulaceError) as refusal:
        deed()
    assert not isinstance(refusal.value, InternalError)


def added_up(variances: list[float], *, epsilon: float) -> float:
    """δ of cells that each move by one, by the sum over all outcomes with losses rounded to a grid."""
    step, total, begin = 2.0**-10, np.ones(1), 0
    for variance in variances:
        far = int(12 * variance**0.5) + 3
        noise = np.arange(-far, far + 1.0)
        law = np.exp(-(noise**2) / (2 * variance))
        places = np.rint((2 * noise + 1) / (2 * variance) / step).astype(np.int64)
        masses = np.bincount(places - places[0], weights=law / law.sum())
        size = 1 << (len(total) + len(masses) - 2).bit_length()
        total = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(masses, size), size)
        begin += int(places[0])
    losses = (begin + np.arange(len(total))) * step
    above = losses > epsilon
    return float((total[above] * -np.expm1(epsilon - losses[above])).sum())


def check_noise() -> None:
    """All of δ and no more is used, by the sum over outcomes; precision is in proportion to shares; nothing is lost."""
    for neighbours in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE):
        unit = PrivacyUnit(neighbours=neighbours)
        budget = Budget.of(Fraction(4), DELTA, unit=unit)
        variances = [float(noise.variance) for noise in budget.plan_noise(SHARES)]
        assert variances[0] == pytest.approx(4 * variances[-1], rel=1e-6)
        cells = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        found = added_up(variances * cells, epsilon=4.0)
        assert 0.98 < found / float(DELTA) < 1.01, found
    for shares in ((Fraction(1, 2),), (Fraction(1), Fraction(1)), ()):
        for delta in (Fraction(0), DELTA):
            refused(lambda s=shares, d=delta: Budget.of(Fraction(1), d, unit=PrivacyUnit()).plan_noise(s))


def charge_plan(run: Any, *, factor: Fraction = Fraction(1)) -> list[Spend]:
    unit = run.record().unit
    noise = Budget.of(Fraction(4), run.record().delta - run.record().keys, unit=unit).plan_noise(SHARES)
    spends = [
        Spend(
            verb="measure",
            what="x",
            mechanism=DiscreteGaussian(each.variance * factor),
            answers=1,
            l1=unit.marginal_l1,
            l2_squared=unit.marginal_l2_squared,
        )
        for each in noise
    ]
    run.charge(*spends)
    return spends


def check_ledger() -> None:
    """Prices above the cap are booked for a fixed plan whose distribution is within (ε, δ), and for nothing else."""
    run = reserve(Workspace(), PLAIN, epsilon="4", delta=str(DELTA))
    refused(lambda: charge_plan(run, factor=Fraction(99, 100)))
    first, *_ = charge_plan(run)
    assert run.record().used > run.record().cap
    assert run.left.promise is None
    refused(lambda: run.charge(replace(first, mechanism=DiscreteGaussian(Fraction(100)))))
    run.record().check()
    refused(lambda: replace(run.record(), plan=Adaptivity.ADAPTIVE).check())
    refused(lambda: charge_plan(reserve(Workspace(), PLAIN, epsilon="4", plan=Adaptivity.ADAPTIVE)))
    # δ that is set aside is not there for noise.
    aside = reserve(Workspace(), PLAIN, epsilon="4", delta=str(2 * DELTA), keys=DELTA)
    assert aside.left.promise == aside.record().budget.promise == (4, DELTA)
    refused(lambda: charge_plan(aside, factor=Fraction(98, 100)))
    charge_plan(aside)


def check_return() -> None:
    """Twice the noise leaves much: what is given back is that, to a thousandth, and a crumb is not given back."""
    run = reserve(Workspace(), PLAIN, epsilon="4", delta=str(DELTA))
    spends = charge_plan(run, factor=Fraction(2))
    back, none = run.record().compute_unneeded()
    variances = [float(each.mechanism.variance) for each in spends]
    assert none == 0
    assert 0.98 < added_up(variances, epsilon=float(4 - back)) / float(DELTA) < 1.01
    run.finish(returned=(back, none))
    assert run.record().guarantee == (4 - back, DELTA)
    whole = reserve(Workspace(), PLAIN, epsilon="4", delta=str(DELTA))
    charge_plan(whole)
    assert whole.record().compute_unneeded() == (0, 0)


def check_run() -> None:
    """A whole run asks its questions with all of its budget, and nothing that exact totals tell."""
    run = reserve(Workspace(), EXACT, epsilon="4", delta=str(DELTA))
    barrier = Barrier(make_table(EXACT), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    items = measure_topdown(barrier, Workload(weights={}), silent)
    record = run.record()
    assert [totals.level for totals in record.invariants] == list(EXACT.invariants)
    noisy = [item for item in items if item.variance]
    # sex at three levels, and the total of tracts: those of the whole and of counties are exact.
    assert sorted(len(item.marginal.clique) for item in noisy) == [1, 1, 2, 2]
    assert len(record.spends) == len(noisy)
    found = pld.composed_epsilon(pld.gaussian_variances(each.spend for each in record.spends), delta=DELTA)
    assert Fraction("3.999") < found <= 4
    assert {item.variance for item in noisy} == {each.spend.mechanism.variance for each in record.spends}
    run.finish()
    sound = Measurements(schema=EXACT, items=items, record=run.record())
    verify_measurements.check_measurements_paid(sound)
    for method in ("mst", "nobody"):
        forged = replace(sound, record=replace(sound.record, method=method))
        refused(lambda forged=forged: verify_measurements.check_measurements_paid(forged))


def check_frequency() -> None:
    """One unit more moves what a row stands for by at most one, from nobody to beyond the limit."""
    most = LIMITS.max_frequency
    counts = [str(n) for n in (0, 1, 2, most - 1, most, most + 1)] + ["9" * 400]
    assert read_frequencies(pa.array(counts)).tolist() == [0, 1, 2, most - 1, most, most, most]
    for strange in ("-1", "0.5", "2.7", "", "x", "nan", "inf", None):
        found = read_frequencies(pa.array([strange], pa.string())).tolist()
        assert found == ([most] if strange == "inf" else [0]), strange


CHECKS = {
    "noise": check_noise,
    "ledger": check_ledger,
    "return": check_return,
    "run": check_run,
    "frequency": check_frequency,
}
FAULTS: list[tuple[str, Any, str, str]] = [
    # Noise for less than a person moves, by other shares, or beyond δ.
    ("noise", pld.calibrate_variances, "Counter(variances * cells)", "Counter(variances)"),
    ("noise", Budget.plan_noise, "cells = self.unit.marginal_l2_squared", "cells = 1"),
    (
        "noise",
        pld.calibrate_variances,
        "Fraction(scale) / share,",
        "Fraction(scale) / Fraction(math.sqrt(share)),",
    ),
    ("noise", pld.calibrate_variances, "if found <= delta:", "if found <= 2 * delta:"),
    ("noise", Budget.plan_noise, "if sum(shares) != 1:", "if False:"),
    # Distributions that are not looked at, or for questions that were not fixed.
    ("ledger", LedgerState.settle, "].check_total()", "]"),
    ("ledger", LedgerState.book, "self.settle()", "pass"),
    ("ledger", RunRecord.check_total, "self.plan is Adaptivity.FIXED", "True"),
    ("ledger", RunRecord.check_total, "self.used > self.cap and not", "False and not"),
    # δ that is used twice, and a budget that is.
    ("ledger", RunRecord.check_total, "self.delta - self.keys", "self.delta"),
    ("ledger", RunRecord._promise, "self.delta - self.keys", "self.delta"),
    ("ledger", RunRecord.left, "None if self.spends else self._promise", "self._promise"),
    # More given back than was not needed, and less.
    ("return", RunRecord.compute_unneeded, "return (self.epsilon - kept,", "return (2 * (self.epsilon - kept),"),
    ("return", RunRecord.compute_unneeded, "return (self.epsilon - kept,", "return ((self.epsilon - kept) / 2,"),
    # Shares of levels and queries.
    ("run", LevelBudget.allocate, "share / whole * query.share", "share * query.share"),
    ("run", LevelBudget.allocate, "number <= level and", "False and"),
    ("run", LevelBudget.allocate, "for level in exact)", "for level in exact[:0])"),
    ("run", measure_topdown, "oracle.measure_batches(batches)", "oracle.measure_batches(batches[1:])"),
    ("run", measure_topdown, "for level in oracle.schema.invariants", "for level in oracle.schema.invariants[:1]"),
    ("run", verify_measurements.check_measurements_paid, "check_plan(measurements)", "pass"),
    ("run", verify_measurements.check_plan, "fixed = False", "fixed = True"),
    # Rows that stand for several units.
    ("frequency", read_frequencies, "np.minimum(values, LIMITS.max_frequency)", "np.minimum(values, 2.0**62)"),
    ("frequency", read_frequencies, " & (values == np.floor(values))", ""),
    ("frequency", read_frequencies, "(values >= 0) & ", ""),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHECKS)
def test_sound_code_passes(name: str) -> None:
    CHECKS[name]()


# Distributions take half a second each; those of whole runs and of counted rows are seen in every test run.
LONG = ("noise", "ledger", "return")


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("check", "held", "old", "new"),
    [
        pytest.param(*fault, id=f"{n} {fault[0]}", marks=pytest.mark.slow if fault[0] in LONG else ())
        for n, fault in enumerate(FAULTS)
    ],
)
def test_a_fault_is_seen(check: str, held: Any, old: str, new: str) -> None:
    with (
        seeded(held, old, new),
        pytest.raises((AssertionError, PopulaceError, pytest.fail.Exception)) as found,
    ):
        CHECKS[check]()
    # A fault that cannot run is none.
    assert not isinstance(found.value, InternalError)
