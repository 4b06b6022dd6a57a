"""populace ledger head and verify --head, and which account a run takes: links, copies and names that look alike."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import pytest

from populace.cli.main import main
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.split_record import SplitRecord
from populace.privacy.noise.split_key import Split
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.cli.workspace import SCHEMA, Workspace
from tests.helpers import geographies

NAMELESS = SCHEMA.replace('dataset = "people"\n', "")


def told(words, workspace, capsys):
    code = main(["ledger", *words, "--ledger", str(workspace.ledger)])
    return code, capsys.readouterr()


class TestHead:
    def test_a_rollback_shows(self, workspace: Workspace, capsys) -> None:
        older = workspace.ledger.read_bytes()
        assert told(["grant", "--dataset", "people", "--epsilon", "1"], workspace, capsys)[0] == 0
        kept = told(["head"], workspace, capsys)[1].out.strip()
        assert kept == f"2:{Ledger.existing(workspace.ledger).head().hash}"
        assert told(["grant", "--dataset", "people", "--epsilon", "1"], workspace, capsys)[0] == 0
        for text in (kept, kept.split(":")[1]):
            code, printed = told(["verify", "--head", text], workspace, capsys)
            assert code == 0
            assert "entry 2 is as it was kept" in printed.out
        workspace.ledger.write_bytes(older)
        assert told(["verify"], workspace, capsys)[0] == 0, "an older copy verifies"
        for text in (kept, kept.split(":")[1]):
            code, printed = told(["verify", "--head", text], workspace, capsys)
            assert code == 2
            assert "rolled back" in printed.err
            assert printed.out == ""

    def test_a_number_that_is_not_that_of_the_hash_is_refused(self, workspace: Workspace, capsys) -> None:
        digest = Ledger.existing(workspace.ledger).head().hash
        assert told(["verify", "--head", f"2:{digest}"], workspace, capsys)[0] == 2
        assert told(["verify", "--head", f"1:{digest}"], workspace, capsys)[0] == 0

    @pytest.mark.parametrize(
        "text", ["", "x", "1:", "1:" + "A" * 64, "-1:" + "a" * 64, "a" * 63, "1:1:" + "a" * 64]
    )
    def test_what_is_no_head_is_bad_usage(self, workspace: Workspace, capsys, text) -> None:
        code, printed = told(["verify", f"--head={text}"], workspace, capsys)
        assert code == 2
        assert "hint: give NUMBER:HASH" in printed.err

    def test_an_empty_ledger_has_a_head_that_every_ledger_holds(self, workspace: Workspace, capsys) -> None:
        empty = Ledger.open(workspace.path("empty.db")).head()
        assert str(empty) == "0:" + "0" * 64
        assert told(["verify", "--head", str(empty)], workspace, capsys)[0] == 0

    def test_machines_read_the_same(self, workspace: Workspace, capsys) -> None:
        found = json.loads(told(["head", "--json"], workspace, capsys)[1].out)
        assert found == {"ledger": str(workspace.ledger), "seq": 1, "hash": found["hash"]}
        kept = f"1:{found['hash']}"
        verified = json.loads(told(["verify", "--json", "--head", kept], workspace, capsys)[1].out)
        assert verified == {"ledger": str(workspace.ledger), "entries": 1, "verified": True, "head": kept}

    def test_looking_leaves_no_trace(self, workspace: Workspace, capsys) -> None:
        def traces():
            found = (workspace.folder / "only").iterdir()
            return {entry.name: (entry.stat().st_mtime_ns, entry.read_bytes()) for entry in found}

        (workspace.folder / "only").mkdir()
        workspace.ledger.rename(workspace.folder / "only" / "ledger.db")
        before = traces()
        for verb in ("show", "head", "verify"):
            assert main(["ledger", verb, "--ledger", str(workspace.folder / "only" / "ledger.db")]) == 0
        assert traces() == before


class TestWhichAccount:
    @pytest.fixture(autouse=True)
    def nameless(self, workspace: Workspace) -> None:
        workspace.write("schema.toml", NAMELESS)

    def accounts(self, workspace: Workspace) -> list[str]:
        return [account.dataset for account in Ledger.existing(workspace.ledger).accounts()]

    def test_a_link_to_the_data_takes_the_same_account(self, workspace: Workspace) -> None:
        (workspace.folder / "others.csv").symlink_to("people.csv")
        assert workspace.synth("others.csv") == 0
        assert self.accounts(workspace) == ["people"]
        assert Ledger.existing(workspace.ledger).account("people").left_epsilon == 2

    def test_a_copy_of_the_data_opens_no_account_unless_it_is_named(
        self, workspace: Workspace, capsys
    ) -> None:
        assert workspace.synth() == 0
        assert "WARNING" not in capsys.readouterr().err
        shutil.copy(workspace.path("people.csv"), workspace.path("others.csv"))
        before = workspace.entries
        assert workspace.synth("others.csv", out=workspace.path("second")) == 2
        err = capsys.readouterr().err
        assert "'others' would be a new account, and the ledger has one of the same columns: 'people'" in err
        assert "--dataset people" in err
        assert "charging" not in err
        assert workspace.entries == before
        workspace.write("schema.toml", f'[table]\ndataset = "elsewhere"\n{NAMELESS.replace("[table]", "")}')
        assert workspace.synth("others.csv", out=workspace.path("second")) == 2, (
            "a name in the schema is no answer"
        )
        assert self.accounts(workspace) == ["people"]
        assert workspace.synth("others.csv", out=workspace.path("second"), dataset="others") == 0
        err = capsys.readouterr().err
        assert err.index("charging new account 'others'") < err.index("one was opened")
        assert self.accounts(workspace) == ["people", "others"]
        assert workspace.synth("others.csv", out=workspace.path("third"), dataset="others") == 3

    def test_the_account_is_named_before_it_is_charged(self, workspace: Workspace, capsys) -> None:
        assert workspace.synth(ledger=workspace.path("fresh.db")) == 0, (
            "a default name works on a fresh ledger"
        )
        err = capsys.readouterr().err
        assert (
            f"charging new account 'people': epsilon 1, delta 1e-6 (new ledger {workspace.path('fresh.db')})"
            in err
        )
        assert err.index("charging") < err.index("account 'people': epsilon")

    def test_columns_of_the_same_names_with_an_edited_domain_are_warned_about(
        self, workspace: Workspace, capsys
    ) -> None:
        assert workspace.synth() == 0
        workspace.write("schema.toml", NAMELESS.replace("max = 9", "max = 8"))
        shutil.copy(workspace.path("people.csv"), workspace.path("others.csv"))
        assert "WARNING" not in capsys.readouterr().err
        assert workspace.synth("others.csv", out=workspace.path("second")) == 0
        err = capsys.readouterr().err
        assert (
            "'others' is a new account, and there are other accounts with the same columns: 'people'" in err
        )
        out = workspace.path("draft.toml")
        shutil.copy(workspace.path("people.csv"), workspace.path("third.csv"))
        words = ["inspect", workspace.path("third.csv"), "--data-is-public", "--out", out]
        assert main([*words, "--ledger", str(workspace.ledger)]) == 0
        err = capsys.readouterr().err
        assert "WARNING: columns of the same names have an account: 'people', 'others'" in err

    @pytest.mark.parametrize(
        "store",
        ["0123456789abcdef0123456789abcd.csv", "SHA256E-s43--0123.csv", "MD5-s43--0.csv"],
    )
    def test_the_name_in_a_content_store_does_not_reach_the_ledger(
        self, workspace: Workspace, capsys, store
    ) -> None:
        (workspace.folder / "people.csv").rename(workspace.path(store))
        (workspace.folder / "people.csv").symlink_to(store)
        before = workspace.entries
        assert workspace.synth() == 2
        assert "named by its content" in capsys.readouterr().err
        assert workspace.entries == before
        workspace.write("schema.toml", SCHEMA)
        assert workspace.synth() == 0, "a dataset named in the schema needs no name of a file"


@pytest.mark.parametrize("name", ["people ", " people", "PEOPLE", "ｐeople"])
def test_names_that_look_alike_are_refused(workspace: Workspace, capsys, name) -> None:
    code, printed = told(["init", "--dataset", name, "--epsilon", "1", "--delta", "0"], workspace, capsys)
    assert code == 2
    assert "hint: name the dataset 'people'" in printed.err
    assert workspace.entries == 1


def test_what_recipients_of_a_piece_are_told_has_its_conditions_beside_it(tmp_path, capsys):
    ledger = Ledger.open(tmp_path / "ledger.db")
    shares = Split(shares=(Fraction(1, 10), Fraction(9, 10)), neighbours=Neighbours.ADD_REMOVE)
    pieces = {"pieces": ("people 1", "people 2"), "recipients": ((1,), (2,))}
    ledger.book_split(SplitRecord(parent="people", tag="t", id="who", split=shares, **pieces))
    unit = PrivacyUnit(name="person", id="who")
    ledger.reserve(
        "people 1", epsilon=1, delta=0, unit=unit, method="m", schema_digest="0" * 64, rehearsal=False
    )
    assert main(["ledger", "show", "--dataset", "people", "--ledger", str(ledger.path)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "see piece 1 alone" in line)
    assert "unless what was asked of it followed from answers about other pieces" in line
    assert line.endswith("runs on the whole table and other splits add to it")


def test_exact_totals_are_shown_with_the_account_and_the_run(tmp_path, capsys):
    place = ["--ledger", str(tmp_path / "ledger.db")]
    opened = ["ledger", "init", "--dataset", "counted", "--epsilon", "3", "--delta", "1e-3"]
    assert main([*opened, "--neighbours", "replace-within-invariants", *place]) == 0
    assert "neighbours: replace-within-invariants\n" in capsys.readouterr().out
    run = geographies.reserve(tmp_path / "ledger.db", geographies.make_schema())
    run.book_totals("county", what="total of every county")
    assert main(["ledger", "show", "--dataset", "counted", *place]) == 0
    shown = capsys.readouterr().out
    assert "protects one person; neighbours: replace-within-invariants, exact totals by county\n" in shown
    assert "not finished: what it reserved stays taken, exact totals by county" in shown
    assert main(["ledger", "show", "--dataset", "counted", "--json", *place]) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    assert (account["within"], account["runs"][0]["invariants"]) == ("county", ["county"])
    assert main(["ledger", "verify", *place]) == 0
