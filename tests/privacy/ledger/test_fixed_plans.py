"""What a plan fixed in advance gives back by its privacy loss distribution, and what it never does."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import LedgerError, UsageError
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    PartitionSelection,
    Spend,
)
from populace.privacy.accounting.privacy_loss_distribution import composed_epsilon, gaussian_variances
from populace.privacy.ledger import run_record
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.release.statement.membership_power import bound_membership_power
from populace.schema.unit import Neighbours
from tests.helpers.ledgers import forge, rows
from tests.helpers.privacy_units import exact_totals, make_unit

DELTA = Fraction("1e-6")
NOTHING = (Fraction(0), Fraction(0))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


def reserve(ledger, *, neighbours=Neighbours.ADD_REMOVE, plan=Adaptivity.FIXED, keys=Fraction(0), epsilon=1):
    unit = make_unit(neighbours)
    return ledger.reserve(
        "counted",
        epsilon=epsilon,
        delta=DELTA,
        unit=unit,
        method="topdown",
        schema_digest="",
        rehearsal=False,
        plan=plan,
        keys=keys,
        exact=exact_totals(unit),
    )


def measure(run, *, share=1, marginals=4, mechanism=None):
    """Spend nearly all of a run's budget on some marginals."""
    unit = run.record().unit
    noise = mechanism or run.record().budget.measure_noise(Fraction(share), marginals=marginals)
    run.charge(
        Spend(
            verb="measure",
            what=f"{marginals} marginals",
            mechanism=noise,
            answers=marginals,
            l1=unit.marginal_l1,
            l2_squared=unit.marginal_l2_squared,
        )
    )
    return noise


def hockey_stick(variance: float, *, cells: int, epsilon: float) -> float:
    """δ of so many cells that each move by one: the loss is (Σ2z + cells)/2σ², and Σz has a law of its own."""
    reach = int(np.ceil(40 * variance**0.5))
    law = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    law /= law.sum()
    total = np.ones(1)
    for _ in range(cells):
        total = np.convolve(total, law)
    sums = np.arange(len(total)) - reach * cells
    losses = (2 * sums + cells) / (2 * variance)
    above = losses > epsilon
    return float((total[above] * -np.expm1(epsilon - losses[above])).sum())


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_fixed_plan_gives_back_what_its_noise_shows_was_not_needed(ledger, neighbours):
    """The law of the noise itself, added up: kept is enough, half the variance breaks it, twice wastes most of δ."""
    run = reserve(ledger, neighbours=neighbours)
    noise = measure(run)
    record = run.record()
    back = record.compute_unneeded()
    assert 0 < back[0] < Fraction(1, 10)
    assert back[1] == 0
    run.finish(returned=back)
    kept, delta = run.record().guarantee
    assert (kept, delta) == (1 - back[0], DELTA)
    cells = 4 * record.unit.marginal_l2_squared
    found = hockey_stick(float(noise.variance), cells=cells, epsilon=float(kept))
    assert float(DELTA) * 0.99 < found <= float(DELTA)
    assert hockey_stick(float(noise.variance) / 2, cells=cells, epsilon=float(kept)) > 2 * float(DELTA)
    assert hockey_stick(float(noise.variance) * 2, cells=cells, epsilon=float(kept)) < float(DELTA) / 2
    assert Ledger.existing(ledger.path).account("counted").left_epsilon == back[0]
    run.record().check()
    assert run.record().by_distribution
    assert Ledger.existing(ledger.path).verify() == len(rows(ledger.path))


def test_what_is_kept_is_short_and_above_the_distribution(ledger):
    run = reserve(ledger)
    measure(run, share=Fraction(1, 3))
    record = run.record()
    kept = 1 - record.compute_unneeded()[0]
    least = composed_epsilon(gaussian_variances(each.spend for each in record.spends), delta=DELTA)
    assert least * (1 + Fraction(1, 10**6)) <= kept <= least * (1 + Fraction(3, 10**6))
    assert kept * 10**7 % 1 == 0, "seven digits"


def test_nothing_more_is_given_back(ledger):
    run = reserve(ledger)
    measure(run)
    back = run.record().compute_unneeded()[0]
    for more in (back + Fraction(1, 10**5), back + Fraction(1, 2)):
        with pytest.raises(UsageError, match="less than it used"):
            run.finish(returned=(more, Fraction(0)))
    with pytest.raises(UsageError, match="less than it used"):
        run.finish(returned=(back, DELTA / 1000))
    assert not run.record().finished
    run.finish(returned=(back, Fraction(0)))


def test_another_machine_with_other_last_digits_agrees(ledger, monkeypatch):
    """A δ that comes out a ten-millionth larger or smaller changes nothing: what is kept has more to spare."""
    run = reserve(ledger)
    measure(run)
    run.finish(returned=run.record().compute_unneeded())
    record, real = run.record(), run_record.composed_delta
    for factor in (1 - 1e-7, 1 + 1e-7):
        monkeypatch.setattr(run_record, "composed_delta", lambda *a, f=factor, **k: real(*a, **k) * f)
        record.check()
    monkeypatch.setattr(run_record, "composed_delta", lambda *a, **k: real(*a, **k) * 1.001)
    with pytest.raises(LedgerError):
        record.check()


def test_an_adaptive_run_gives_nothing_back(ledger):
    run = reserve(ledger, plan=Adaptivity.ADAPTIVE)
    measure(run)
    assert run.record().compute_unneeded() == NOTHING
    with pytest.raises(UsageError, match="chose its questions as it went"):
        run.finish(returned=(Fraction(1, 1000), Fraction(0)))
    run.finish()
    assert run.record().guarantee == (1, DELTA)


@pytest.mark.parametrize(
    "other",
    [
        Spend(
            verb="measure", what="x", mechanism=DiscreteLaplace(Fraction(1000)), answers=1, l1=1, l2_squared=1
        ),
        Spend(
            verb="choose", what="x", mechanism=Exponential(Fraction(1, 1000)), answers=1, l1=1, l2_squared=1
        ),
        Spend(
            verb="score", what="x", mechanism=DiscreteGaussian(Fraction(10**6)), answers=1, l1=1, l2_squared=1
        ),
        Spend(
            verb="discover",
            what="x",
            mechanism=PartitionSelection(DiscreteGaussian(Fraction(10**6)), 10**5),
            answers=1,
            l1=1,
            l2_squared=1,
        ),
        Spend(
            verb="measure",
            what="x",
            mechanism=DiscreteGaussian(Fraction(10**6)),
            answers=1,
            l1=2,
            l2_squared=4,
        ),
    ],
    ids=["Laplace", "choice", "score", "keys", "two rows in a cell"],
)
def test_a_plan_with_anything_but_counts_and_gaussian_noise_gives_nothing_back(ledger, other):
    run = reserve(ledger, keys=DELTA / 10)
    measure(run, share=Fraction(9, 10))
    assert run.record().compute_unneeded()[0] > 0
    back = run.record().compute_unneeded()
    run.charge(other)
    assert run.record().compute_unneeded() == NOTHING
    with pytest.raises(UsageError, match="less than it used"):
        run.finish(returned=(back[0], Fraction(0)))


def test_a_pure_run_and_an_empty_one_have_no_distribution(ledger):
    assert reserve(ledger, epsilon=Fraction(1, 2)).record().compute_unneeded() == NOTHING
    pure = ledger.reserve(
        "pure",
        epsilon=1,
        delta=0,
        unit=make_unit(Neighbours.ADD_REMOVE),
        method="m",
        schema_digest="",
        rehearsal=False,
        plan=Adaptivity.FIXED,
    )
    measure(pure, share=Fraction(1, 2))
    assert pure.record().compute_unneeded() == NOTHING


def test_delta_that_was_set_aside_stays_aside(ledger):
    run = reserve(ledger, keys=DELTA / 2)
    measure(run)
    record = run.record()
    kept = 1 - record.compute_unneeded()[0]
    variances = gaussian_variances(each.spend for each in record.spends)
    assert kept >= composed_epsilon(variances, delta=DELTA / 2) > composed_epsilon(variances, delta=DELTA)


def test_forged_returns_are_refused_when_read(ledger):
    """Rows: 1 open, 2 reserve, 3 spend, 4 finish."""
    run = reserve(ledger)
    measure(run)
    back = run.record().compute_unneeded()
    run.finish(returned=back)
    forge(ledger.path, row=4, returned=[str(back[0] + Fraction(1, 10**5)), "0"])
    with pytest.raises(LedgerError, match="row 4 breaks the rules"):
        Ledger.existing(ledger.path)
    forge(ledger.path, row=4, returned=[str(back[0]), "0"])
    assert Ledger.existing(ledger.path).record(run.id).guarantee[0] == 1 - back[0]
    forge(ledger.path, row=2, plan="adaptive")
    with pytest.raises(LedgerError, match="row 4 breaks the rules"):
        Ledger.existing(ledger.path)


def test_records_too_large_to_compute_give_nothing_back(ledger):
    run = reserve(ledger)
    measure(run)
    record = run.record()
    (charged,) = record.spends
    huge = replace(charged.spend, answers=10**15, mechanism=DiscreteGaussian(Fraction(2**32)))
    wide = replace(charged.spend, mechanism=DiscreteGaussian(Fraction(2**60)))
    for spend in (huge, wide):
        assert gaussian_variances([spend]) is None
    many = [replace(charged.spend, mechanism=DiscreteGaussian(Fraction(10**6 + n))) for n in range(300)]
    assert gaussian_variances(many) is None
    assert gaussian_variances(many[:200]) is not None


def test_the_power_of_tests_is_bounded_by_prices_where_the_distribution_needs_less(ledger):
    """The Gaussian curve of the smaller ε would claim more protection than the noise gives."""
    run = reserve(ledger)
    measure(run)
    whole = bound_membership_power(run.record())
    run.finish(returned=run.record().compute_unneeded())
    record = run.record()
    assert float(whole) * 0.999 < bound_membership_power(record) <= whole
    forgotten = replace(record, spends=())
    assert bound_membership_power(forgotten) < bound_membership_power(record)


def test_a_record_survives_json_with_what_it_gave_back(ledger):
    run = reserve(ledger, neighbours=Neighbours.REPLACE_WITHIN)
    measure(run)
    run.finish(returned=run.record().compute_unneeded())
    again = RunRecord.from_json(run.record().to_json())
    assert again == run.record()
    again.check()
    with pytest.raises(LedgerError):
        replace(again, plan=Adaptivity.ADAPTIVE).check()
    with pytest.raises(LedgerError):
        replace(again, returned=(again.returned[0] * 2, Fraction(0))).check()
