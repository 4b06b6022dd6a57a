"""Rules that a log must keep when it is read: a forged or faulty one, with every seal right, is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError, UsageError
from populace.privacy.accounting import gaussian_dp as gaussian
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Spend
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.ledgers import HALF, append_raw, forge, half_of, reserve, rows

PERSON = PrivacyUnit(name="person", rows=3, id="p")
TINY = Fraction(1, 2**50)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


def body_of(spend: Spend, *, price: Fraction) -> dict[str, object]:
    return SpendRecord(spend=spend, price=price).to_json()


class TestOneUnit:
    """An account adds up guarantees for one unit. Proof: docs/proofs/rows-per-unit.md."""

    @pytest.mark.parametrize(
        ("other", "message", "hint"),
        [
            (
                PrivacyUnit(name="person", rows=3, id="q"),
                "all rows with one value of 'p', in this run all rows with one value of 'q'",
                'set id = "p" in the schema',
            ),
            (
                PrivacyUnit(name="person"),
                "all rows with one value of 'p', in this run one row",
                'set id = "p" in the schema',
            ),
            (
                PrivacyUnit(name="patient", rows=3, id="p"),
                "protects each person, this run each patient",
                "same unit",
            ),
            (
                PrivacyUnit(name="person", rows=3, id="p", neighbours=Neighbours.REPLACE_ONE),
                "add-remove neighbours, this run for replace-one",
                "one relation",
            ),
        ],
        ids=str,
    )
    def test_another_unit_is_refused(self, ledger, other, message, hint):
        ledger.open_account("adult", epsilon="9", delta="1e-6")
        reserve(ledger, unit=PERSON)
        with pytest.raises(UsageError, match=message) as refusal:
            reserve(ledger, unit=other)
        assert hint in refusal.value.hint
        assert len(Ledger.existing(ledger.path).runs("adult")) == 1, "nothing was booked"

    def test_an_id_after_runs_without_one_is_refused(self, ledger):
        ledger.open_account("adult", epsilon="9", delta="1e-6")
        reserve(ledger, unit=PrivacyUnit(name="person"))
        with pytest.raises(UsageError, match="is one row, in this run all rows") as refusal:
            reserve(ledger, unit=PrivacyUnit(name="person", id="p"))
        assert "leave out id" in refusal.value.hint

    def test_rows_per_unit_may_differ(self, ledger):
        ledger.open_account("adult", epsilon="9", delta="1e-6")
        for count in (3, 1, 7):
            reserve(ledger, unit=replace(PERSON, rows=count))
        account = Ledger.existing(ledger.path).account("adult")
        assert (account.unit, account.id, account.left_epsilon) == ("person", "p", 6)

    def test_the_first_run_fixes_the_unit(self, ledger):
        account = ledger.open_account("adult", epsilon="9", delta="1e-6")
        assert (account.unit, account.id) == (None, None)
        reserve(ledger, unit=PrivacyUnit(name="person"))
        account = ledger.account("adult")
        assert (account.unit, account.id) == ("person", None)

    @pytest.mark.parametrize("change", [{"id": "q"}, {"id": None, "rows_per_unit": 1}, {"unit": "patient"}])
    def test_a_log_that_mixes_units_is_refused(self, ledger, change):
        ledger.open_account("adult", epsilon="9", delta="1e-6")
        reserve(ledger, unit=PERSON)
        reserve(ledger, unit=PERSON)
        forge(ledger.path, row=3, rows_per_unit=2)
        assert Ledger.existing(ledger.path).verify() == 3, "a forgery that keeps the rules is not seen"
        forge(ledger.path, row=3, **change)
        with pytest.raises(LedgerError, match=r"row 3 breaks the rules \(.*person"):
            Ledger.existing(ledger.path)


class TestPrices:
    """Rows: 1 open, 2 reserve, 3 spend."""

    @pytest.fixture
    def run(self, ledger):
        run = reserve(ledger, unit=PERSON)
        run.charge(half_of(run))
        return run

    def refused(self, ledger, match):
        with pytest.raises(LedgerError, match=match):
            Ledger.existing(ledger.path)

    def test_a_spend_below_its_price_is_refused_and_one_above_is_not(self, ledger, run):
        spend, right = run.record().spends[0].spend, run.record().used
        forge(ledger.path, row=3, **body_of(spend, price=right * (1 + TINY)))
        assert Ledger.existing(ledger.path).record(run.id).used > right
        forge(ledger.path, row=3, **body_of(spend, price=right * (1 - TINY)))
        self.refused(ledger, r"row 3 breaks the rules \(.*below its price")

    @pytest.mark.parametrize("price", ["0", "-1"])
    def test_a_spend_that_is_free_or_pays_is_refused(self, ledger, run, price):
        forge(ledger.path, row=3, price=price)
        self.refused(ledger, "costs nothing")

    def test_a_price_is_for_the_law_that_was_booked(self, ledger, run):
        spend = run.record().spends[0].spend
        forge(
            ledger.path,
            row=3,
            law=DiscreteGaussian(spend.mechanism.variance * Fraction(999, 1000)).to_json(),
        )
        self.refused(ledger, "below its price")

    @pytest.mark.parametrize(
        "change", [{"l1": 2, "l2_squared": 4}, {"l2_squared": 8}, {"l1": 1, "l2_squared": 1}]
    )
    def test_a_spend_for_less_than_the_unit_moves_is_refused(self, ledger, run, change):
        forge(ledger.path, row=3, **change)
        self.refused(ledger, "less than one person can move")

    def test_such_a_spend_cannot_be_charged_either(self, ledger, run):
        with pytest.raises(LedgerError, match=r"hint: one person moves an answer by 3 in L1 and by 9"):
            run.charge(replace(half_of(run), l1=1, l2_squared=1))
        score = Spend(
            verb="score", what="x", mechanism=DiscreteLaplace(Fraction(9999)), answers=1, l1=3, l2_squared=8
        )
        with pytest.raises(LedgerError, match="less than one person can move"):
            run.charge(score)
        assert len(run.record().spends) == 1

    def test_gaussian_noise_in_a_pure_run_is_refused(self, ledger):
        run = reserve(ledger, delta="0")
        mechanism = DiscreteGaussian(Fraction(10**9))
        spend = Spend(verb="measure", what="sex", mechanism=mechanism, answers=1, l1=1, l2_squared=1)
        booked = body_of(spend, price=Fraction(1, 2))
        append_raw(ledger.path, Event(kind=EventKind.SPEND, dataset="adult", run=run.id, body=booked))
        self.refused(ledger, "no price in pure")

    def test_more_than_the_cap_is_refused(self, ledger, run):
        run.charge(half_of(run))
        third = body_of(half_of(run), price=run.record().spends[0].price)
        append_raw(ledger.path, Event(kind=EventKind.SPEND, dataset="adult", run=run.id, body=third))
        self.refused(ledger, r"row 5 breaks the rules \(.* is left")

    def test_a_cap_above_the_guarantee_is_refused_and_one_below_is_not(self, ledger, run):
        cap = run.record().cap
        forge(ledger.path, row=2, cap=str(cap * (1 - TINY)))
        Ledger.existing(ledger.path)
        forge(ledger.path, row=2, cap=str(cap * (1 + TINY)))
        self.refused(ledger, r"row 2 breaks the rules \(.*above what")

    @pytest.mark.parametrize(
        "change",
        [
            {"currency": "pure"},
            {"currency": "zcdp"},
            {"cap": "-1"},
            {"delta": "0"},
            {"epsilon": "1/2"},
            {"rows_per_unit": 2.5},
            {"rows_per_unit": True},
        ],
        ids=str,
    )
    def test_a_reservation_that_contradicts_itself_is_refused(self, ledger, run, change):
        forge(ledger.path, row=2, **change)
        self.refused(ledger, "row 2 (breaks the rules|cannot be read)")


class TestReturns:
    """Rows: 1 open, 2 reserve, 3 spend, 4 finish."""

    def finished(self, ledger, plan):
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        run = reserve(ledger, plan=plan)
        run.charge(half_of(run))  # half of μ² is about ε = 0.7
        run.finish()
        return run

    @pytest.mark.parametrize(
        "returned", [["1", "1/1000000000"], ["1/1000000", "0"], ["0", "1/1000000000000"]]
    )
    def test_an_adaptive_run_that_gives_back_is_refused(self, ledger, returned):
        self.finished(ledger, Adaptivity.ADAPTIVE)
        forge(ledger.path, row=4, returned=returned)
        with pytest.raises(LedgerError, match=r"row 4 breaks the rules \(.*gives nothing back"):
            Ledger.existing(ledger.path)

    def test_a_fixed_plan_gives_back_what_is_left_over_and_not_more(self, ledger):
        run = self.finished(ledger, Adaptivity.FIXED)
        forge(ledger.path, row=4, returned=["1/4", "0"])
        again = Ledger.existing(ledger.path)
        assert again.account("adult").left_epsilon == Fraction(1, 4)
        again.record(run.id).check()
        for returned in (["1/2", "0"], ["1", "1/1000000000"], ["0", "1/1000000000"]):
            forge(ledger.path, row=4, returned=returned)
            with pytest.raises(LedgerError, match=r"row 4 breaks the rules \(.*less than it used"):
                Ledger.existing(ledger.path)
        for returned in (["2", "0"], ["-1", "0"], ["0", "-1"], ["0", "1/2"]):
            forge(ledger.path, row=4, returned=returned)
            with pytest.raises(LedgerError, match=r"row 4 breaks the rules \(.*more than it has"):
                Ledger.existing(ledger.path)

    def test_a_return_needs_two_numbers(self, ledger):
        self.finished(ledger, Adaptivity.FIXED)
        for returned in ([], ["0"], ["0", "0", "0"], [0, 0], None):
            forge(ledger.path, row=4, returned=returned)
            with pytest.raises(LedgerError, match="row 4 cannot be read"):
                Ledger.existing(ledger.path)

    def test_records_refuse_the_same(self, ledger):
        record = self.finished(ledger, Adaptivity.FIXED).record()
        replace(record, returned=(Fraction(1, 4), Fraction(0))).check()
        for returned in ((HALF, Fraction(0)), (Fraction(2), Fraction(0)), (Fraction(0), Fraction(-1))):
            with pytest.raises(LedgerError, match="broke a rule"):
                replace(record, returned=returned).check()
        with pytest.raises(LedgerError, match="gives nothing back"):
            replace(record, plan=Adaptivity.ADAPTIVE, returned=(Fraction(1, 10**6), Fraction(0))).check()


class TestDigests:
    def test_runs_tell_the_digest_that_a_release_names(self, ledger):
        ledger.open_account("adult", epsilon="2", delta="2e-9")
        first, second = reserve(ledger), reserve(ledger)
        first.charge(half_of(first))
        first.finish()
        released = first.record().digest
        second.finish()
        told = {run.run: run.digest for run in Ledger.existing(ledger.path).runs("adult")}
        log = rows(ledger.path)
        assert told == {first.id: log[4].hash, second.id: log[5].hash}
        assert told[first.id] == released, "what happens to other runs later does not change it"


def test_reading_asks_for_each_price_once_and_adds_up_in_line(ledger, monkeypatch):
    # A run of n spends is read in n steps: with sums made anew at each spend 2,000 rows took nine seconds.
    run = reserve(ledger)
    for _ in range(3):
        run.charge(replace(half_of(run, marginals=1), mechanism=DiscreteGaussian(Fraction(10**7))))
    gaussian.discrete_gaussian_mu_squared.cache_clear()
    monkeypatch.setattr(
        "populace.privacy.ledger.run_record.RunRecord.used", property(lambda _: pytest.fail("added up anew"))
    )
    Ledger.existing(ledger.path)
    assert gaussian.discrete_gaussian_mu_squared.cache_info().misses == 1
