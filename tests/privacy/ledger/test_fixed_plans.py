"""Plans fixed in advance: noise calibrated by its privacy loss distribution, and what is given back by it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import LedgerError, OverBudget, UsageError
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    PartitionSelection,
    Spend,
)
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.accounting.privacy_loss_distribution import composed_epsilon, gaussian_variances
from populace.privacy.ledger import run_record
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.release.statement.membership_power import bound_membership_power
from populace.schema.unit import Neighbours
from tests.helpers.ledgers import forge, rows
from tests.helpers.privacy_units import exact_totals, make_unit
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(3)

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
    whole = composed_epsilon(variances, delta=DELTA)
    assert kept >= composed_epsilon(variances, delta=DELTA / 2) > whole
    with pytest.raises(UsageError, match="less than it used"):
        run.finish(returned=(1 - whole * (1 + Fraction(1, 1000)), Fraction(0)))


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


def charge_plan(run, *, factor=Fraction(1)):
    """Ask the questions of a calibrated plan; a factor falsifies their noise."""
    unit = run.record().unit
    noise = run.left.plan_noise([Fraction(1, 10), Fraction(1, 10), Fraction(2, 5), Fraction(2, 5)])
    spends = [
        Spend(
            verb="measure",
            what=f"question {number}",
            mechanism=DiscreteGaussian(each.variance * factor),
            answers=1,
            l1=unit.marginal_l1,
            l2_squared=unit.marginal_l2_squared,
        )
        for number, each in enumerate(noise)
    ]
    run.charge(*spends)
    return spends


@pytest.mark.sampled(1)
@pytest.mark.parametrize("neighbours", sample_cases(Neighbours, to=2))
def test_a_calibrated_plan_needs_all_it_reserved_and_is_within_it(ledger, neighbours):
    """The ledger takes prices above the cap where the distribution is within (ε, δ), and gives nothing back."""
    run = reserve(ledger, neighbours=neighbours, epsilon=8)
    charge_plan(run)
    record = run.record()
    assert record.cap < record.used
    assert record.compute_unneeded() == NOTHING
    run.finish(returned=record.compute_unneeded())
    record = run.record()
    assert record.guarantee == (8, DELTA)
    least = composed_epsilon(gaussian_variances(each.spend for each in record.spends), delta=DELTA)
    assert Fraction("7.999") < least <= 8
    record.check()
    assert record.by_distribution
    assert record.used_share == 1 == sum(record.share(each) for each in record.spends)
    assert bound_membership_power(record) > bound_membership_power(replace(record, spends=()))
    assert RunRecord.from_json(record.to_json()) == record
    again = Ledger.existing(ledger.path)
    assert again.verify() == len(rows(ledger.path))
    assert again.account("counted").left_epsilon == 0


def test_less_noise_than_calibrated_is_refused_and_nothing_is_booked(ledger):
    run = reserve(ledger, epsilon=8)
    for factor in (Fraction(1, 2), Fraction(999, 1000)):
        with pytest.raises(OverBudget, match="more than the"):
            charge_plan(run, factor=factor)
    assert not run.record().spends
    charge_plan(run, factor=Fraction(2))
    assert run.record().compute_unneeded()[0] > 1, "twice the noise: much is given back"


def test_an_adaptive_run_is_held_to_its_prices(ledger):
    fixed = reserve(ledger, epsilon=8)
    spends = charge_plan(fixed)
    adaptive = ledger.reserve(
        "other",
        epsilon=8,
        delta=DELTA,
        unit=make_unit(Neighbours.ADD_REMOVE),
        method="mst",
        schema_digest="",
        rehearsal=False,
    )
    assert adaptive.left.promise is None
    with pytest.raises(OverBudget, match="is left"):
        adaptive.charge(*spends)
    with pytest.raises(LedgerError, match="broke a rule"):
        replace(fixed.record(), plan=Adaptivity.ADAPTIVE).check()


def test_one_question_more_is_refused(ledger):
    """The distribution is that of all spends of the run, in however many transactions they came."""
    run = reserve(ledger, epsilon=8)
    spends = charge_plan(run)
    assert run.left.cap == 0
    assert run.left.promise is None
    with pytest.raises(OverBudget):
        run.charge(replace(spends[0], mechanism=DiscreteGaussian(Fraction(500))))
    assert len(run.record().spends) == 4
    # Noise whose price is all that was ever looked at before.
    with pytest.raises(OverBudget):
        run.charge(replace(spends[0], mechanism=DiscreteLaplace(Fraction(10**6))))


def test_delta_that_was_set_aside_is_not_calibrated_with(ledger):
    run = reserve(ledger, epsilon=8, keys=DELTA / 2)
    assert run.left.promise == (8, DELTA / 2)
    spends = charge_plan(run)
    variances = gaussian_variances(spends)
    assert composed_epsilon(variances, delta=DELTA / 2) <= 8 < Fraction("8.01")
    assert composed_epsilon(variances, delta=DELTA) < Fraction("7.9")


def test_noise_calibrated_with_all_of_delta_is_refused_where_some_is_set_aside(ledger):
    spends = charge_plan(reserve(ledger, epsilon=8))
    ledger.grant("counted", epsilon=8, delta=DELTA)
    run = reserve(ledger, epsilon=8, keys=DELTA / 2)
    with pytest.raises(OverBudget, match="more than the"):
        run.charge(*spends)
    assert not run.record().spends


def test_forged_noise_of_a_calibrated_plan_is_refused_when_read(ledger):
    """Rows: 1 open, 2 reserve, 3 to 6 spends."""
    run = reserve(ledger, epsilon=8)
    last = charge_plan(run)[-1]
    halved = DiscreteGaussian(last.mechanism.variance / 2)
    dear = price(replace(last, mechanism=halved), currency=Currency.GDP)
    forge(ledger.path, row=6, law=halved.to_json(), price=str(dear))
    with pytest.raises(LedgerError, match="a run breaks the rules"):
        Ledger.existing(ledger.path)
    with pytest.raises(LedgerError, match="a run breaks the rules"):
        Ledger(ledger.path, books=LedgerState()).verify()
