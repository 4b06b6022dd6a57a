"""Pieces of a secret split: the whole table pays the most that one took, and recipients of some are told less."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError, OverBudget, PopulaceError, UsageError
from populace.privacy.accounting.amplification import amplify_epsilon
from populace.privacy.accounting.parallel_composition import seen_share
from populace.privacy.ledger import log_replay
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import Adaptivity
from populace.privacy.ledger.split_record import SplitRecord
from populace.privacy.noise.split_key import Split
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.planted_faults import seeded

PERSON = PrivacyUnit(name="person", rows=2, id="who")
NAMES = ("people 1", "people 2", "people 3")
SHARES = (Fraction(1, 10), Fraction(2, 10), Fraction(7, 10))


def split(neighbours=Neighbours.ADD_REMOVE, *, pieces=NAMES, **changes):
    given = {"parent": "people", "tag": "t", "id": "who", "pieces": pieces, **changes}
    return SplitRecord(split=Split(shares=SHARES, neighbours=neighbours), **given)


@pytest.fixture
def ledger(tmp_path):
    found = Ledger.open(tmp_path / "ledger.db")
    found.open_account("people", epsilon=3, delta="1e-3")
    found.book_split(split())
    return found


def run(ledger, dataset, epsilon, delta="0", *, unit=PERSON, **options):
    given = {"method": "m", "schema_digest": "0" * 64, "rehearsal": False, "columns": "c", "named": False}
    return ledger.reserve(dataset, epsilon=epsilon, delta=delta, unit=unit, **(given | options))


def taken(ledger, dataset="people"):
    account = ledger.account(dataset)
    return account.taken_epsilon, account.taken_delta


def test_the_whole_table_pays_the_most_that_one_piece_took(ledger):
    run(ledger, NAMES[0], 1, "1e-6")
    assert taken(ledger) == (1, Fraction("1e-6"))
    run(ledger, NAMES[1], 2)
    assert taken(ledger) == (2, Fraction("1e-6"))
    # Another run on a piece adds to what that piece took.
    run(ledger, NAMES[0], "1/2")
    assert taken(ledger) == (2, Fraction("1e-6"))
    run(ledger, NAMES[0], 1)
    assert taken(ledger) == (Fraction(5, 2), Fraction("1e-6"))
    assert taken(ledger, NAMES[0]) == (Fraction(5, 2), Fraction("1e-6"))
    assert ledger.verify()
    assert taken(Ledger.existing(ledger.path)) == (Fraction(5, 2), Fraction("1e-6"))


def test_runs_on_the_whole_and_other_splits_add_to_it(ledger):
    run(ledger, NAMES[0], 1)
    run(ledger, "people", 1)
    ledger.book_split(split(tag="u", pieces=("other 1", "other 2", "other 3")))
    run(ledger, "other 2", 1)
    assert taken(ledger) == (3, 0)
    with pytest.raises(OverBudget, match="'people' cannot pay"):
        run(ledger, "other 2", "1/10")
    # Where another piece took more already, nothing more is paid.
    run(ledger, "other 1", 1)
    assert taken(ledger) == (3, 0)


def test_a_new_table_is_opened_with_its_first_piece(tmp_path):
    ledger = Ledger.open(tmp_path / "new.db")
    ledger.book_split(split())
    run(ledger, NAMES[1], 1)
    assert [each.dataset for each in ledger.accounts()] == ["people", NAMES[1]]
    with pytest.raises(OverBudget, match=r"'people' cannot pay for this run: epsilon 0\.1 is asked"):
        run(ledger, NAMES[1], "1/10")
    # All pieces share the budget; nobody is in two of them.
    run(ledger, NAMES[2], 1)
    ledger.grant("people", epsilon=1, delta=0)
    run(ledger, NAMES[1], 1)
    assert taken(ledger) == (2, 0)


def test_what_a_fixed_plan_gives_back_is_given_back_to_the_whole(ledger):
    fixed = run(ledger, NAMES[0], 2, plan=Adaptivity.FIXED)
    run(ledger, NAMES[1], 1)
    assert taken(ledger) == (2, 0)
    fixed.finish(returned=(Fraction(3, 2), Fraction(0)))
    assert taken(ledger) == (1, 0)


@pytest.mark.parametrize(
    "unit",
    [
        PrivacyUnit(name="person", rows=2, id="home"),
        PrivacyUnit(name="person"),
        replace(PERSON, neighbours=Neighbours.REPLACE_ONE),
    ],
    ids=["another id", "rows", "another relation"],
)
def test_units_that_may_be_in_several_pieces_are_refused(ledger, unit):
    before = ledger.head()
    with pytest.raises(PopulaceError) as refusal:
        run(ledger, NAMES[0], 1, unit=unit)
    assert refusal.value.hint
    assert ledger.head() == before


@pytest.mark.parametrize("order", [1, -1], ids=["piece first", "whole first"])
def test_the_whole_and_its_pieces_protect_the_same_unit(ledger, order):
    asked = [(NAMES[0], PERSON), ("people", replace(PERSON, id="home"))][::order]
    run(ledger, asked[0][0], 1, unit=asked[0][1])
    with pytest.raises(UsageError, match="in the account of 'people'"):
        run(ledger, asked[1][0], 1, unit=asked[1][1])
    assert taken(ledger) == (1, 0)


def test_a_piece_has_no_budget_of_its_own(ledger):
    run(ledger, NAMES[0], 1)
    for refused in (
        lambda: ledger.grant(NAMES[0], epsilon=1, delta=0),
        lambda: ledger.open_account(NAMES[1], epsilon=9, delta=0),
    ):
        with pytest.raises(UsageError, match="none of its own"):
            refused()


def test_a_split_is_booked_once_and_pieces_are_not_split(ledger):
    before = ledger.head()
    ledger.book_split(split())
    assert ledger.head() == before
    for other in (
        split(tag="u"),
        split(parent=NAMES[0], pieces=("a", "b", "c")),
    ):
        with pytest.raises(LedgerError):
            ledger.book_split(other)


def test_what_is_published_of_a_piece_without_privacy_voids_the_whole(ledger):
    run(ledger, NAMES[0], 1)
    run(ledger, NAMES[1], 1)
    ledger.declare_nonprivate(NAMES[0], reason="looked at")
    for dataset in ("people", *NAMES[:2]):
        with pytest.raises(OverBudget, match="void"):
            run(ledger, dataset, "1/10")


def test_a_rehearsal_on_a_piece_is_one_on_the_whole(ledger):
    run(ledger, NAMES[0], 1)
    assert not ledger.account("people").rehearsal
    run(ledger, NAMES[1], 1, rehearsal=True)
    assert [ledger.account(each).rehearsal for each in ("people", *NAMES[:2])] == [True, False, True]


def test_a_checkpoint_keeps_splits(ledger, monkeypatch):
    monkeypatch.setattr(log_replay, "CHECKPOINT_EVERY", 1)
    run(ledger, NAMES[0], 1)
    again = Ledger.existing(ledger.path)
    assert again.splits("people") == (split(),)
    run(again, NAMES[1], "3/2")
    assert taken(again) == (Fraction(3, 2), 0)
    assert again.verify()


def describe(ledger):
    accounts = {each.dataset: each for each in ledger.accounts()}
    return ledger.splits("people")[0].describe(accounts)


@pytest.mark.parametrize(
    ("recipients", "shares"),
    [
        (((1,), (2,), (3,)), {0: "0.1", 1: "0.2", 2: "0.7"}),
        # Who sees two pieces, together or because one is published, has the sum of their shares.
        (((1, 2), (3,)), {0: "0.3", 1: "0.7"}),
        (((1,), (2,)), {0: "0.8", 1: "0.9"}),
        (((1, 2, 3),), {0: "1"}),
    ],
)
def test_amplification_is_applied_once_to_the_total_of_the_pieces_seen(tmp_path, recipients, shares):
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.open_account("people", epsilon=9, delta="1e-3")
    ledger.book_split(split(recipients=recipients))
    for _ in range(4):
        for piece in NAMES:
            run(ledger, piece, "1/2", "1e-6")
    found = describe(ledger)
    assert (found["epsilon"], found["delta"]) == ("2", "4e-6")
    # The account of the whole is charged the unamplified maximum.
    assert taken(ledger) == (2, Fraction("4e-6"))
    for number, share in shares.items():
        told = found["recipients"][number]
        beta = Fraction(share)
        once = math.log1p(float(beta) * math.expm1(2))
        assert float(told["epsilon"]) == pytest.approx(once, rel=1e-5)
        assert float(told["epsilon"]) >= once
        assert Fraction(told["delta"]) == beta * Fraction("4e-6")
        if beta < 1:
            # Query by query it would come to less than is told.
            each = float(amplify_epsilon(Fraction(1, 2), share=beta))
            assert 4 * each < once
            assert float(told["source"]) == pytest.approx(
                math.log((math.exp(2) * float(beta) + 1 - float(beta)) / (1 - float(beta))), rel=1e-5
            )


def test_published_pieces_hide_nobody(ledger):
    run(ledger, NAMES[0], 1)
    assert describe(ledger)["recipients"] == []


def test_shares_are_of_whole_persons_where_their_number_is_public(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    unit = replace(PERSON, neighbours=Neighbours.REPLACE_ONE)
    ledger.book_split(split(Neighbours.REPLACE_ONE, persons=12, recipients=((1,), (2, 3))))
    run(ledger, NAMES[0], 1, unit=unit)
    assert describe(ledger)["recipients"][0]["share"] == "1/12"
    for persons, relation in ((None, Neighbours.REPLACE_ONE), (12, Neighbours.ADD_REMOVE)):
        with pytest.raises(UsageError, match="number of persons"):
            split(relation, persons=persons)


@pytest.mark.parametrize("recipients", [((1,), (1,)), ((4,),), ((),)])
def test_recipients_are_groups_of_different_pieces(recipients):
    with pytest.raises(UsageError, match="groups of different pieces"):
        split(recipients=recipients)


def test_a_log_in_which_a_piece_overspends_the_whole_is_damaged(ledger, monkeypatch):
    monkeypatch.setattr(SplitRecord, "charge_parent", lambda self, accounts, piece: accounts[self.parent])
    run(ledger, NAMES[0], 3)
    run(ledger, NAMES[0], 3)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="breaks the rules"):
        ledger.verify()


ROWS = PrivacyUnit(name="person", rows=2, id="home")
GROUPS = (((1, 2), (3,)), {0: "0.3", 1: "0.7"})
FAULTS = [
    (SplitRecord.take_greatest, "max((account.taken_epsilon", "min((account.taken_epsilon"),
    (SplitRecord.take_greatest, "max((account.taken_delta", "min((account.taken_delta"),
    (SplitRecord.charge_parent, "+ after[0] - before[0]", ""),
    (SplitRecord.charge_parent, "+ after[0] - before[0]", "+ (after[0] - before[0]) * Fraction(1, 10)"),
    (SplitRecord.check_unit, "unit.id != self.id or ", ""),
    (SplitRecord.pay_for_piece, "more[0] > before.left_epsilon or ", ""),
    (LedgerState._finish, "split.charge_parent(self.accounts, after)", "self.account(split.parent)"),
    (SplitRecord._describe_group, "share * delta", "share * share * delta"),
    (SplitRecord._describe_group, "if n in group or n not in assigned", "if n in group"),
    (
        SplitRecord._describe_group,
        "self.take_greatest(accounts, among=numbers)",
        "(Fraction(1, 2), Fraction(0))",
    ),
    (seen_share, "split.shares[piece] for piece in pieces", "split.shares[piece] for piece in pieces[:1]"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0].__name__}: {fault[2][:30]}")
def test_a_fault_is_seen(fault, tmp_path):
    """Each fault makes one of the tests above fail: an overlapping unit, another sum than the greatest, β per query."""

    def fresh(name):
        found = Ledger.open(tmp_path / name)
        found.open_account("people", epsilon=3, delta="1e-3")
        found.book_split(split())
        return found

    def check():
        test_the_whole_table_pays_the_most_that_one_piece_took(fresh("a.db"))
        test_runs_on_the_whole_and_other_splits_add_to_it(fresh("b.db"))
        test_what_a_fixed_plan_gives_back_is_given_back_to_the_whole(fresh("c.db"))
        test_units_that_may_be_in_several_pieces_are_refused(fresh("d.db"), ROWS)
        for number, groups in enumerate((GROUPS, (((1,), (2,)), {0: "0.8", 1: "0.9"}))):
            (tmp_path / str(number)).mkdir()
            test_amplification_is_applied_once_to_the_total_of_the_pieces_seen(
                tmp_path / str(number), *groups
            )

    with seeded(*fault), pytest.raises((AssertionError, PopulaceError, pytest.fail.Exception)):
        check()
