"""The ledger: accounts, runs and records, and what each of them refuses."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError, OverBudget, UsageError
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential, Spend
from populace.privacy.accounting.privacy_loss import price
from populace.privacy.ledger.ledger import Ledger, default_ledger_path
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.ledgers import HALF, half_of, reserve


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


class TestAccounts:
    def test_a_run_opens_an_account_with_exactly_its_budget(self, ledger):
        run = reserve(ledger, epsilon="0.3", delta="1e-7")
        account = ledger.account("adult")
        assert (account.epsilon, account.delta) == (Fraction(3, 10), Fraction(1, 10**7))
        assert (account.left_epsilon, account.left_delta) == (0, 0)
        assert (account.neighbours, account.unit, account.runs) == (Neighbours.ADD_REMOVE, "row", (run.id,))

    def test_runs_add_up_exactly_to_the_account_and_not_further(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="3e-9")
        for _ in range(3):
            reserve(ledger, epsilon="1/3", delta="1e-9")
        assert [each.dataset for each in ledger.accounts()] == ["adult"]
        with pytest.raises(OverBudget, match="epsilon 1e-9 is asked, 0 of 1 is left, 1e-9 short"):
            reserve(ledger, epsilon="1e-9", delta="0")
        assert len(ledger.runs("adult")) == 3

    def test_refusals_name_what_is_asked_left_and_short(self, ledger):
        ledger.open_account("adult", epsilon="2", delta="1e-9")
        reserve(ledger, epsilon="1.5", delta="0")
        with pytest.raises(OverBudget) as refusal:
            reserve(ledger, epsilon="1", delta="3e-9")
        assert refusal.value.message == (
            "the account of 'adult' cannot pay for this run: epsilon 1 is asked, 0.5 of 2 is left, 0.5 short; "
            "delta 3e-9 is asked, 1e-9 of 1e-9 is left, 2e-9 short."
        )
        assert f"populace ledger grant --ledger {ledger.path} --dataset adult" in refusal.value.hint
        assert refusal.value.exit_code == 3

    def test_refusals_of_the_default_ledger_need_not_name_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        ledger = Ledger.open(default_ledger_path())
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        with pytest.raises(OverBudget) as refusal:
            reserve(ledger, epsilon="2", delta="0")
        assert "populace ledger grant --dataset adult --epsilon 1" in refusal.value.hint

    def test_delta_alone_can_run_out(self, ledger):
        ledger.open_account("adult", epsilon="10", delta="1e-9")
        with pytest.raises(OverBudget, match=r"run: delta 2e-9 is asked"):
            reserve(ledger, delta="2e-9")

    def test_a_refused_run_leaves_the_file_as_it_was(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="0")
        before = ledger.path.read_bytes()
        with pytest.raises(OverBudget):
            reserve(ledger, epsilon="2", delta="0")
        assert ledger.path.read_bytes() == before

    def test_grants_extend_an_account(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        reserve(ledger)
        ledger.grant("adult", epsilon="1", delta="1e-9")
        reserve(ledger)
        assert ledger.account("adult").epsilon == 2

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [("0", "0"), ("-1", "0"), ("1", "1"), ("abc", "0"), (None, "0"), (True, "0")]
    )
    def test_amounts_must_mean_something(self, ledger, epsilon, delta):
        ledger.open_account("adult", epsilon="1", delta="0")
        for ask in (ledger.open_account, ledger.grant):
            with pytest.raises(UsageError, match="hint"):
                ask("adult" if ask == ledger.grant else "new", epsilon=epsilon, delta=delta)
        with pytest.raises(UsageError):
            reserve(ledger, "new", epsilon=epsilon, delta=delta)
        assert [account.dataset for account in ledger.accounts()] == ["adult"]

    def test_the_deltas_of_an_account_stay_below_one(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="0.6")
        with pytest.raises(UsageError, match="below 1"):
            ledger.grant("adult", epsilon="1", delta="0.4")

    def test_accounts_are_opened_once_and_found_by_name(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="0")
        with pytest.raises(LedgerError, match="already has"):
            ledger.open_account("adult", epsilon="1", delta="0")
        with pytest.raises(LedgerError, match="did you mean 'adult'"):
            ledger.account("adlut")
        with pytest.raises(LedgerError, match="ledger init"):
            ledger.grant("zzz", epsilon="1", delta="0")

    @pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201, "\ud800"])
    def test_odd_names_are_refused(self, ledger, name):
        with pytest.raises(UsageError, match="cannot name an account"):
            reserve(ledger, name)

    def test_an_account_carries_one_relation(self, ledger):
        replaced = PrivacyUnit(neighbours=Neighbours.REPLACE_ONE)
        ledger.open_account("adult", epsilon="5", delta="0")
        with pytest.raises(UsageError, match='set neighbours = "add-remove"'):
            reserve(ledger, delta="0", unit=replaced)
        ledger.open_account("other", epsilon="5", delta="0", neighbours=Neighbours.REPLACE_ONE)
        reserve(ledger, "other", delta="0", unit=replaced)
        with pytest.raises(UsageError, match='set neighbours = "replace-one"'):
            reserve(ledger, "other", delta="0")

    def test_an_account_protects_one_unit(self, ledger):
        ledger.open_account("adult", epsilon="5", delta="0")
        reserve(ledger, delta="0", unit=PrivacyUnit(name="household"))
        with pytest.raises(UsageError, match="protects each household, this run each row"):
            reserve(ledger, delta="0")

    def test_what_was_published_without_privacy_costs_infinity(self, ledger):
        ledger.open_account("adult", epsilon="5", delta="1e-6")
        run = reserve(ledger)
        assert ledger.declare_nonprivate("adult", reason="exact table 3 was published").void
        for ask in (
            lambda: reserve(ledger, epsilon="1e-9", delta="0"),
            lambda: ledger.grant("adult", epsilon="100", delta="0"),
            lambda: run.charge(half_of(run)),
        ):
            with pytest.raises(OverBudget, match="void"):
                ask()
        assert Ledger.existing(ledger.path).account("adult").void

    def test_accounts_do_not_touch_each_other(self, ledger):
        first, second = reserve(ledger, "a"), reserve(ledger, "b")
        first.charge(half_of(first))
        assert second.record().used == 0
        assert [account.dataset for account in ledger.accounts()] == ["a", "b"]


class TestRuns:
    def test_spends_are_on_disk_before_charge_returns(self, ledger):
        run = reserve(ledger)
        spend = half_of(run)
        run.charge(spend)
        with closing(sqlite3.connect(ledger.path)) as other:
            kinds = [kind for (kind,) in other.execute("select kind from events order by seq")]
        assert kinds == ["open", "reserve", "spend"]
        assert (
            run.record().used
            == price(spend, currency=run.record().budget.currency)
            <= run.record().budget.cap / 2
        )
        assert [booked.spend for booked in Ledger.existing(ledger.path).record(run.id).spends] == [spend]

    def test_the_filter_stops_before_it_overspends(self, ledger):
        run = reserve(ledger)
        run.charge(half_of(run))
        run.charge(half_of(run))
        with pytest.raises(OverBudget, match=r"costs .* of .* \(gdp\) is left, .* short.\nhint: "):
            run.charge(half_of(run))
        assert len(run.record().spends) == 2
        assert run.record().used <= run.record().budget.cap
        run.finish()

    def test_a_spend_that_just_fits_is_taken_and_the_next_is_not(self, ledger):
        run = reserve(ledger, delta="0")
        choice = Spend(
            verb="choose", what="1 of 3", mechanism=Exponential(Fraction(1, 3)), answers=1, l1=1, l2_squared=1
        )
        for _ in range(3):
            run.charge(choice)
        assert run.record().used == run.record().budget.cap == 1
        with pytest.raises(OverBudget):
            run.charge(replace(choice, mechanism=Exponential(Fraction(1, 10**9))))

    @pytest.mark.parametrize("delta", ["0", "1e-9"])
    def test_a_spend_slightly_above_what_is_left_is_refused(self, ledger, delta):
        run = reserve(ledger, delta=delta)
        choice = Spend(
            verb="choose",
            what="1 of 3",
            mechanism=run.record().budget.choice(Fraction(2, 3), choices=1),
            answers=1,
            l1=1,
            l2_squared=1,
        )
        run.charge(choice)
        for share in (Fraction(2, 3), Fraction(1, 2), Fraction(334, 1000)):  # a third is left
            with pytest.raises(OverBudget):
                run.charge(replace(choice, mechanism=run.record().budget.choice(share, choices=1)))
        assert len(run.record().spends) == 1
        run.charge(replace(choice, mechanism=run.record().budget.choice(Fraction(1, 3), choices=1)))

    def test_spends_that_are_charged_together_are_all_booked_or_none(self, ledger):
        run = reserve(ledger)
        with pytest.raises(OverBudget):
            run.charge(half_of(run), half_of(run), half_of(run))
        assert run.record().spends == ()
        run.charge(half_of(run), half_of(run))
        assert len(run.record().spends) == 2

    def test_gaussian_noise_is_refused_in_a_pure_run_and_not_booked(self, ledger):
        run = reserve(ledger, delta="0")
        mechanism = DiscreteGaussian(Fraction(10**9))
        with pytest.raises(UsageError, match="no price"):
            run.charge(Spend(verb="measure", what="sex", mechanism=mechanism, answers=1, l1=1, l2_squared=1))
        assert run.record().spends == ()

    def test_a_finished_run_asks_nothing_more(self, ledger):
        run = reserve(ledger)
        run.finish()
        for ask in (lambda: run.charge(half_of(run)), run.finish):
            with pytest.raises(UsageError, match="finished"):
                ask()

    def test_a_run_that_never_finished_stays_paid(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        run = reserve(ledger)
        run.charge(half_of(run))
        del run
        again = Ledger.existing(ledger.path)
        assert again.account("adult").left_epsilon == 0
        assert not again.runs("adult")[0].finished
        with pytest.raises(OverBudget):
            reserve(again)

    def test_only_a_plan_fixed_in_advance_gives_back(self, ledger):
        run = reserve(ledger)
        with pytest.raises(UsageError, match="gives nothing back"):
            run.finish(returned=(Fraction(1, 10), Fraction(0)))
        assert not run.record().finished

    def test_a_fixed_plan_gives_back_what_it_did_not_use_and_no_more(self, ledger):
        ledger.open_account("adult", epsilon="1", delta="1e-9")
        run = reserve(ledger, plan=Adaptivity.FIXED)
        run.charge(half_of(run))  # half of μ² is about ε = 0.7
        for too_much in (
            (HALF, Fraction(0)),
            (Fraction(0), Fraction("1e-9")),
            (Fraction(2), Fraction(0)),
            (Fraction(-1), Fraction(0)),
        ):
            with pytest.raises(UsageError):
                run.finish(returned=too_much)
        run.finish(returned=(Fraction(1, 4), Fraction(0)))
        assert run.record().guarantee == (Fraction(3, 4), Fraction("1e-9"))
        assert ledger.account("adult").left_epsilon == Fraction(1, 4)
        run.record().check()
        reserve(ledger, epsilon="1/4", delta="0")

    def test_a_fixed_plan_that_asked_nothing_gives_all_back(self, ledger):
        run = reserve(ledger, plan=Adaptivity.FIXED)
        run.finish(returned=(Fraction(1), Fraction("1e-9")))
        assert ledger.account("adult").left_epsilon == 1

    def test_rehearsals_are_stamped_for_good(self, ledger):
        ledger.open_account("adult", epsilon="2", delta="2e-9")
        secret, rehearsed = reserve(ledger), reserve(ledger, rehearsal=True)
        assert (secret.rehearsal, rehearsed.rehearsal) == (False, True)
        assert Ledger.existing(ledger.path).record(rehearsed.id).rehearsal
        assert not secret.record().rehearsal
        assert ledger.account("adult").rehearsal

    def test_ids_are_random_and_digests_follow_the_last_row(self, ledger):
        ledger.open_account("adult", epsilon="2", delta="2e-9")
        first, second = reserve(ledger), reserve(ledger)
        assert first.id != second.id
        seen = {first.record().digest}
        first.charge(half_of(first))
        seen.add(first.record().digest)
        first.finish()
        seen.add(first.record().digest)
        assert len(seen) == 3

    def test_nothing_in_the_file_tells_the_time(self, tmp_path):
        ledger = Ledger.open(tmp_path / "ledger.db")
        run = reserve(ledger)
        run.charge(half_of(run))
        run.finish()
        with closing(sqlite3.connect(ledger.path)) as other:
            columns = {name for _, name, *_ in other.execute("pragma table_info(events)")}
            bodies = [json.loads(body) for (body,) in other.execute("select body from events")]
        assert columns == {"seq", "kind", "dataset", "run", "body", "previous", "hash"}
        assert not {key for body in bodies for key in body if "time" in key or "date" in key}


class TestRecords:
    @pytest.fixture
    def record(self, ledger):
        unit = PrivacyUnit(name="person", rows=2, id="who", neighbours=Neighbours.REPLACE_ONE)
        run = reserve(ledger, unit=unit)
        run.charge(half_of(run))
        run.finish()
        return run.record()

    def test_records_hold_what_a_statement_needs_and_survive_json(self, record):
        told = json.loads(json.dumps(record.to_json()))
        assert RunRecord.from_json(told) == record
        assert told["neighbours"] == "replace-one"
        assert (told["unit"], told["rows_per_unit"], told["id"]) == ("person", 2, "who")
        assert (told["epsilon"], told["delta"], told["currency"]) == ("1", "1/1000000000", "gdp")
        assert told["spends"][0]["share"] == pytest.approx(0.5, abs=1e-6)
        assert (record.unit.rows, record.unit.neighbours) == (2, Neighbours.REPLACE_ONE)
        record.check()

    @pytest.mark.parametrize(
        "change",
        [
            {"used": "1"},
            {"cap": 0.5},
            {"cap": "1e999999999"},
            {"currency": "gold"},
            {"spends": None},
            {"rehearsal": 0},
            {"rows_per_unit": 0},
            {"returned": ["0"]},
        ],
        ids=str,
    )
    def test_broken_records_are_refused(self, record, change):
        with pytest.raises(LedgerError, match="not a complete record"):
            RunRecord.from_json(record.to_json() | change)
        for key in record.to_json():
            if key != "share":
                with pytest.raises(LedgerError):
                    RunRecord.from_json(
                        {name: value for name, value in record.to_json().items() if name != key}
                    )

    def test_what_was_booked_too_cheaply_is_found(self, record):
        booked = record.spends[0]
        spend = booked.spend
        for cheap in (
            replace(record, spends=(replace(booked, price=booked.price * Fraction(999, 1000)),)),
            replace(record, spends=(replace(booked, spend=replace(spend, l2_squared=1)),)),
            replace(
                record,
                spends=(
                    replace(
                        booked, spend=replace(spend, mechanism=DiscreteGaussian(spend.mechanism.variance / 2))
                    ),
                ),
            ),
            replace(record, spends=(booked, booked, booked)),
            replace(record, cap=record.cap * 2),
            replace(record, epsilon=record.epsilon / 2),
            replace(record, returned=(HALF, Fraction(0))),
        ):
            with pytest.raises(LedgerError):
                cheap.check()
