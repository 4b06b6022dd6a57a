"""Releases in the ledger: digests of what a run published, booked at no cost beside its record."""

from __future__ import annotations

import pytest

from populace.core.errors import LedgerError, UsageError
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from tests.helpers.ledgers import append_raw, half_of, reserve

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


@pytest.fixture
def run(ledger):
    run = reserve(ledger)
    run.charge(half_of(run))
    return run


def test_a_release_is_booked_after_the_run_has_finished_and_leaves_its_record_alone(ledger, run):
    run.finish()
    record, account = run.record(), ledger.account("adult")
    booked = ledger.book_release(run.id, manifest=A, files={"synthetic.csv": B})
    assert (booked.manifest, booked.files) == (A, {"synthetic.csv": B})
    assert ledger.releases(run.id) == (booked,)
    again = Ledger.existing(ledger.path)
    assert again.releases(run.id) == (booked,)
    assert again.record(run.id) == record
    assert again.account("adult") == account


def test_a_run_may_publish_before_it_ends_and_several_times(ledger, run):
    first = ledger.book_release(run.id, manifest=A, files={"synthetic.csv": B})
    run.finish()
    second = ledger.book_release(run.id, manifest=C, files={"synthetic.csv": B})
    assert ledger.releases(run.id) == (first, second)
    assert first.entry != second.entry


def test_the_same_digests_are_booked_once(ledger, run):
    first = ledger.book_release(run.id, manifest=A, files={"synthetic.csv": B})
    rows = ledger.verify()
    assert ledger.book_release(run.id, manifest=A, files={"synthetic.csv": B}) == first
    assert ledger.verify() == rows
    assert ledger.book_release(run.id, manifest=A, files={"synthetic.csv": C}) != first


def test_a_run_that_published_nothing_has_no_releases(ledger, run):
    assert ledger.releases(run.id) == ()


def test_unknown_runs_have_and_book_none(ledger, run):
    for ask in (
        lambda: ledger.releases("nobody"),
        lambda: ledger.book_release("nobody", manifest=A, files={}),
    ):
        with pytest.raises(LedgerError, match="does not know the run"):
            ask()


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "g" * 64, "a" * 64 + "\n", 7])
def test_only_digests_are_booked(ledger, run, digest):
    before = ledger.verify()
    with pytest.raises(UsageError, match=r"no digest.*\nhint: "):
        ledger.book_release(run.id, manifest=digest, files={})
    with pytest.raises(UsageError, match="no digest"):
        ledger.book_release(run.id, manifest=A, files={"synthetic.csv": digest})
    assert ledger.verify() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "other"}, "breaks the rules"),
        ({"run": "nobody"}, "breaks the rules"),
        ({"run": None}, "breaks the rules"),
        ({"body": {"manifest": A}}, "cannot be read"),
        ({"body": {"manifest": A, "files": [1]}}, "cannot be read"),
        ({"body": {"manifest": "x", "files": {}}}, "breaks the rules"),
        ({"body": {"manifest": A, "files": {}, "rows": 1}}, "breaks the rules"),
    ],
    ids=str,
)
def test_rows_that_are_no_release_of_their_run_do_not_verify(ledger, run, change, message):
    told = {"dataset": "adult", "run": run.id, "body": {"manifest": A, "files": {}}} | change
    append_raw(ledger.path, Event(kind=EventKind.RELEASE, **told))
    with pytest.raises(LedgerError, match=message):
        Ledger.existing(ledger.path)


def test_a_void_account_can_still_say_what_it_published(ledger, run):
    ledger.declare_nonprivate("adult", reason="the rows were sent by mail")
    assert ledger.book_release(run.id, manifest=A, files={}).manifest == A
