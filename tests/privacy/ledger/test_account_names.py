"""Names of accounts: which look alike, and what a data file is called by default."""

from __future__ import annotations

import os

import pytest

from populace.api.request import default_dataset
from populace.core.errors import UsageError
from populace.privacy.ledger.account import normalize_name
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from populace.private.public_table import check_not_private
from tests.helpers.ledgers import append_raw, reserve

OPENED = {"epsilon": "1", "delta": "0", "neighbours": "add-remove"}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.open_account("Café 2019", epsilon="1", delta="1e-6")
    return ledger


@pytest.mark.parametrize(
    "name",
    [
        "Cafe\u0301 2019",
        "café 2019",
        "CAFÉ 2019",
        "Café 2019 ",
        " Café 2019",
        "Café  2019",
        "Café\u00a02019",
        "Ｃafé 2019",
        *(f"Café 2019{unseen}" for unseen in "\ufe0f\u034f\u2800\u3164\u115f\u200b"),
    ],
)
def test_an_account_that_looks_like_another_is_not_opened(ledger, name):
    for attempt in (
        lambda: ledger.open_account(name, epsilon="1", delta="0"),
        lambda: reserve(ledger, name, epsilon="1/2", delta="0"),
    ):
        with pytest.raises(UsageError, match=r"\nhint: (name the dataset 'Café 2019'|name the dataset with)"):
            attempt()
    assert [account.dataset for account in ledger.accounts()] == ["Café 2019"]


@pytest.mark.parametrize("name", ["Café 2018", "Cafe 2019", "Café2019", "Café-2019"])
def test_names_that_can_be_told_apart_are_two_accounts(ledger, name):
    ledger.open_account(name, epsilon="1", delta="0")
    assert len(ledger.accounts()) == 2


def test_an_account_by_its_own_name_is_there_already(ledger):
    with pytest.raises(UsageError, match="already has an account"):
        ledger.open_account("Café 2019", epsilon="1", delta="0")
    reserve(ledger, "Café 2019", epsilon="1/2", delta="0")


def test_a_ledger_that_holds_two_alike_still_opens_and_both_can_be_used(ledger):
    append_raw(ledger.path, Event(kind=EventKind.OPEN, dataset="café 2019", body=OPENED))
    again = Ledger.open(ledger.path)
    assert again.verify() == 2
    for name in ("café 2019", "Café 2019"):
        reserve(again, name, epsilon="1/2", delta="0")


@pytest.mark.parametrize(
    "letters", ["\u1e9e", "\u0345\u03b1", "\u01c5", "\u00df", "\u0130", "\ufb03", "\u212a"]
)
def test_levelling_a_name_twice_changes_nothing(letters):
    assert normalize_name(normalize_name(letters)) == normalize_name(letters)


def test_links_to_a_file_have_its_name(tmp_path):
    data, link, chain = tmp_path / "people.csv", tmp_path / "a" / "others.csv", tmp_path / "third.csv"
    data.touch()
    link.parent.mkdir()
    link.symlink_to(data)
    chain.symlink_to(link)
    assert {default_dataset(path) for path in (data, link, chain, str(chain))} == {"people"}


@pytest.mark.parametrize("name", ["SHARE2019", "MD5-sums", "a--b", "ACS-2019--v2"])
def test_names_that_only_begin_like_those_of_a_content_store_are_names(tmp_path, name):
    (tmp_path / f"{name}.csv").touch()
    (tmp_path / "link.csv").symlink_to(f"{name}.csv")
    assert default_dataset(tmp_path / "link.csv") == name


@pytest.mark.parametrize("name", ["WORM-s3-m1289672605--people", "SHA256E-s43--0123", "0123456789abcdef"])
def test_names_of_content_stores_are_refused(tmp_path, name):
    (tmp_path / f"{name}.csv").touch()
    (tmp_path / "link.csv").symlink_to(f"{name}.csv")
    with pytest.raises(UsageError, match=r"named by its content.*\nhint: name the dataset") as refusal:
        default_dataset(tmp_path / "link.csv")
    assert name not in str(refusal.value)


def test_what_is_no_file_keeps_the_name_that_was_given(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "people.csv").symlink_to("pipe")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert default_dataset(tmp_path / "people.csv") == "people"
    assert default_dataset(tmp_path / "loop.csv") == "loop"
    assert default_dataset("nowhere/people.csv") == "people"
    assert default_dataset(object()) == "table"


def test_a_folder_that_is_a_link_changes_no_name(tmp_path):
    store = tmp_path / "0123456789abcdef"
    store.mkdir()
    (store / "people.csv").touch()
    (tmp_path / "data").symlink_to(store)
    assert default_dataset(tmp_path / "data" / "people.csv") == "people"


def test_a_name_like_a_digest_that_was_given_is_the_callers_choice(tmp_path):
    (tmp_path / "0123456789abcdef0.csv").touch()
    assert default_dataset(tmp_path / "0123456789abcdef0.csv") == "0123456789abcdef0"


@pytest.mark.parametrize("name", ["people.csv", "People.csv", "link.csv", "people", "people.parquet"])
def test_a_table_that_has_an_account_is_not_public_by_any_of_its_names(tmp_path, name):
    (tmp_path / "people.csv").touch()
    (tmp_path / "link.csv").symlink_to("people.csv")
    with pytest.raises(UsageError, match="names a private table"):
        check_not_private(tmp_path / name, accounts={"people"})
    check_not_private(tmp_path / "other.csv", accounts={"people"})


@pytest.mark.parametrize("data", ["/*.csv", "/*", "-"])
def test_a_table_without_a_name_needs_one(data):
    with pytest.raises(UsageError, match="no name that could name an account"):
        default_dataset(data)
