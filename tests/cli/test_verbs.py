"""The verbs, from a private file to a verified release."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from populace.cli import console
from populace.cli.main import main
from populace.privacy.ledger.ledger import Ledger
from populace.schema.schema import Schema
from populace.simulation import sample_survey as survey
from tests.cli.workspace import CANARY, Workspace


def test_synth_writes_a_release_that_verifies(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    out, err = capsys.readouterr()
    assert out == workspace.path("release") + "\n"
    assert "2 left of 3" in err
    assert main(["verify", workspace.path("release")]) == 0
    assert "FAILED" not in capsys.readouterr().out
    files = {path.name for path in (workspace.folder / "release").iterdir()}
    assert files >= {
        *("synthetic.csv", "statement.json", "statement.md", "measurements.parquet", "measurements.json"),
        *("codebook.json", "report.html", "manifest.json"),
    }
    told = json.loads((workspace.folder / "release" / "statement.json").read_text("utf-8"))
    assert set(told) >= {
        *("epsilon", "delta", "neighbours", "unit", "rows_per_unit", "dataset"),
        *("total", "spends", "domains", "not_covered"),
    }
    assert (told["epsilon"], told["delta"], told["unit"], told["dataset"]) == (1, 1e-6, "person", "people")


def test_synth_opens_an_account_and_says_so(workspace: Workspace, capsys) -> None:
    fresh = workspace.path("fresh.db")
    assert workspace.synth(ledger=fresh) == 0
    said = capsys.readouterr().err
    assert "opened with exactly this run's budget" in said
    assert f"a new ledger was made at {fresh}; it knows of no earlier runs" in said
    assert workspace.synth(ledger=fresh, out=workspace.path("second")) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "people" in err
    assert "a new ledger" not in err
    assert not (workspace.folder / "second").exists()


def test_default_ledger_is_in_the_state_folder(workspace: Workspace, capsys) -> None:
    assert workspace.synth(ledger=None) == 0
    assert (workspace.folder / "state" / "populace" / "ledger.db").is_file()
    assert main(["ledger", "show"]) == 0
    assert "0 left of 1" in capsys.readouterr().out


def test_json_is_all_of_stdout(workspace: Workspace, capsys) -> None:
    words = workspace.spending(delta="0")
    assert (
        main(["synth", workspace.path("people.csv"), *words, "--out", workspace.path("release"), "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["release"] == workspace.path("release")
    assert told["statement"]["delta"] == 0
    for verb in (
        ["verify", workspace.path("release")],
        ["ledger", "show", "--ledger", str(workspace.ledger)],
    ):
        assert main([*verb, "--json"]) == 0
        json.loads(capsys.readouterr().out)
    for verb in ("check", "show"):
        assert main(["schema", verb, workspace.path("schema.toml"), "--json"]) == 0
        json.loads(capsys.readouterr().out)


def test_three_stages_make_the_same_kind_of_release(workspace: Workspace, capsys) -> None:
    spend = workspace.spending()
    assert main(["measure", workspace.path("people.csv"), *spend, "--out", workspace.path("measured")]) == 0
    booked = workspace.entries
    assert main(["fit", workspace.path("measured"), "--out", workspace.path("model")]) == 0
    for name in ("one", "two"):
        words = ["--rows", "40", "--seed", "7", "--format", "parquet", "--out", workspace.path(name)]
        assert main(["generate", workspace.path("model"), *words]) == 0
        assert main(["verify", workspace.path(name)]) == 0
    assert workspace.entries == booked, "a later stage spent something"
    one, two = (workspace.folder / name / "synthetic.parquet" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes(), "the same seed draws the same rows"
    statement = json.loads((workspace.folder / "measured" / "statement.json").read_text("utf-8"))
    assert statement["epsilon"] == 1


def test_stages_refuse_what_does_not_belong_together(workspace: Workspace, capsys) -> None:
    spend = workspace.spending()
    assert main(["measure", workspace.path("people.csv"), *spend, "--out", workspace.path("measured")]) == 0
    assert main(["fit", workspace.path("measured"), "--out", workspace.path("model")]) == 0
    assert main(["fit", workspace.path("model"), "--out", workspace.path("again")]) == 0
    with (workspace.folder / "model" / "model.json").open("a") as handle:
        handle.write(" ")
    capsys.readouterr()
    for words in (
        ["generate", workspace.path("model"), "--out", workspace.path("release")],
        ["generate", workspace.path("measured"), "--out", workspace.path("release")],
        ["generate", workspace.path("none-such"), "--out", workspace.path("release")],
        ["fit", workspace.path("state"), "--out", workspace.path("release")],
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "hint: give the folder" in said
        assert "Error" not in said, "an exception of Python's is no explanation"
    assert not (workspace.folder / "release").exists()


def test_a_release_can_be_fitted_and_drawn_from_again(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    assert main(["fit", workspace.path("release"), "--out", workspace.path("model")]) == 0
    for source in ("model", "release"):
        words = ["--rows", "0", "--out", workspace.path(f"{source}-again")]
        assert main(["generate", workspace.path(source), *words]) == 0
        assert main(["verify", workspace.path(f"{source}-again")]) == 0
    with (workspace.folder / "release" / "measurements.json").open("a") as handle:
        handle.write(" ")
    capsys.readouterr()
    for verb in ("fit", "generate"):
        assert main([verb, workspace.path("release"), "--out", workspace.path("third")]) == 2
        assert "do not belong together" in capsys.readouterr().err


def test_seed_never_reaches_the_noise(workspace: Workspace) -> None:
    for name in ("one", "two"):
        assert workspace.synth(seed="7", out=workspace.path(name)) == 0
    one, two = ((workspace.folder / name / "measurements.parquet").read_bytes() for name in ("one", "two"))
    assert one != two


def test_verify_refuses_an_altered_release(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    with (workspace.folder / "release" / "synthetic.csv").open("a") as handle:
        handle.write("f,1\n")
    capsys.readouterr()
    assert main(["verify", workspace.path("release")]) == 2
    out, err = capsys.readouterr()
    assert "FAILED" in out
    assert "hint: " in err


def test_ledger_verbs(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    ledger = ["--ledger", str(workspace.ledger)]
    assert (
        main(["ledger", "grant", "--dataset", "people", "--epsilon", "0.5", "--delta", "1e-6", *ledger]) == 0
    )
    assert main(["ledger", "show", "--dataset", "people", *ledger]) == 0
    lines = capsys.readouterr().out.splitlines()[-5:]
    assert lines[:4] == [
        "people",
        "  epsilon 2.5 left of 3.5",
        "  delta 1e-5 left of 1.1e-5",
        "  protects one person; neighbours: add-remove",
    ]
    assert re.fullmatch(
        r"  run [0-9a-f]{8}, entry [0-9a-f]{16}: independent, epsilon 1, delta 1e-6, 100 % used, finished",
        lines[4],
    )
    words = ["--dataset", "more people", "--epsilon", "1", "--delta", "9e-9", *ledger]
    assert main(["ledger", "init", *words]) == 0
    assert "the first run says who is protected" in capsys.readouterr().out
    assert main(["ledger", "show", *ledger]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "people       epsilon 2.5 left of 3.5, delta 1e-5 left of 1.1e-5, 1 run",
        "more people  epsilon 1 left of 1, delta 9e-9 left of 9e-9, 0 runs",
    ]
    assert main(["ledger", "verify", *ledger]) == 0
    assert "whole" in capsys.readouterr().out
    content = bytearray(workspace.ledger.read_bytes())
    place = content.find(b'"epsilon"')
    content[place + 11] ^= 1
    workspace.ledger.write_bytes(content)
    for words in (["ledger", "verify", *ledger], ["ledger", "show", *ledger]):
        assert main(words) == 2
        assert "damaged" in capsys.readouterr().err
    assert workspace.synth(out=workspace.path("second")) == 2, "a ledger that does not verify means refusal"


@pytest.mark.parametrize(
    ("asked", "noted"),
    [
        ({"epsilon": "3.2", "delta": "1e-6"}, []),
        ({"epsilon": "5"}, ["protection: weak."]),
        ({"delta": "1.1e-5"}, ["delta 1.1e-5"]),
        ({"epsilon": "30", "delta": "0.001"}, ["protection: very", "delta 0.001"]),
    ],
)
def test_weak_promises_are_noted(
    workspace: Workspace, capsys, asked: dict[str, str], noted: list[str]
) -> None:
    """Before anything is spent: the account cannot pay for these, and the note comes first."""
    workspace.synth(**asked)
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert [" ".join(note.split()[1:3]) for note in notes] == noted
    assert all("hint: " in note for note in notes)
    assert workspace.entries == 1


@pytest.mark.parametrize(("codes", "noted"), [(2000, True), (3, False)])
def test_release_lost_in_noise_is_noted(workspace: Workspace, capsys, codes: int, noted: bool) -> None:
    """Noise of a few rows in each cell: in 2,000 cells it moves the 101 rows many times over, in 3 it hardly does.

    The report reads it otherwise five standard deviations away: below one false alarm in 100,000 runs.
    """
    schema = workspace.write("domain.json", json.dumps({"sex": codes, "age": codes}))
    assert workspace.synth(schema=schema, epsilon="3") == 0
    assert (
        "note: 2 of 2 measured columns and pairs are dominated by noise" in capsys.readouterr().err
    ) is noted


def test_schema_verbs(workspace: Workspace, capsys) -> None:
    assert main(["schema", "check", workspace.path("schema.toml")]) == 0
    assert "2 columns" in capsys.readouterr().out
    assert main(["schema", "show", workspace.path("schema.toml")]) == 0
    shown = workspace.write("shown.toml", capsys.readouterr().out)
    assert main(["schema", "show", shown]) == 0
    assert capsys.readouterr().out == Path(shown).read_text("utf-8")


def test_schema_show_says_every_default(workspace: Workspace, capsys) -> None:
    assert main(["schema", "show", workspace.path("schema.toml")]) == 0
    text = capsys.readouterr().out
    for line in ('neighbours = "add-remove"', 'origin = "declared"', 'beyond = "nearest"', "# other: "):
        assert f"\n{line}" in text
    assert main(["schema", "show", workspace.path("schema.toml"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["table"]["max_rows"] is None
    assert told["columns"]["age"]["other"] is None
    assert Schema.parse(text) == Schema.load(workspace.path("schema.toml"))
    assert told["digest"] == Schema.parse(text).digest


def test_codebook_is_no_schema_but_holds_one(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    capsys.readouterr()
    assert workspace.synth(schema=workspace.path("release/codebook.json"), out=workspace.path("second")) == 2
    assert 'save the text under its key "schema"' in capsys.readouterr().err
    told = json.loads((workspace.folder / "release" / "codebook.json").read_text("utf-8"))
    assert Schema.parse(told["schema"]) == Schema.load(workspace.path("schema.toml"))


@pytest.mark.slow
def test_demo_can_be_repeated_and_replaces_only_a_demo(workspace: Workspace, capsys, monkeypatch) -> None:
    monkeypatch.setattr(survey, "simulate_survey", partial(survey.simulate_survey, households=300))
    for _ in range(2):
        assert main(["demo"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "demo-release"
    assert main(["verify", "demo-release"]) == 0
    capsys.readouterr()
    workspace.write("demo-release.input/schema.toml", "mine")
    assert main(["demo"]) == 0
    assert "left as they are" in capsys.readouterr().err
    assert (workspace.folder / "demo-release.input" / "schema.toml").read_text() == "mine"
    workspace.write("demo-release/notes.txt", "mine")
    assert main(["demo"]) == 2
    assert "not empty" in capsys.readouterr().err
    assert (workspace.folder / "demo-release" / "notes.txt").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "terminal", "drawn"), [(0.3, True, True), (0.0, True, False), (0.3, False, False)]
)
def test_progress_is_drawn_on_a_terminal_for_long_work(
    monkeypatch: pytest.MonkeyPatch, seconds: float, terminal: bool, drawn: bool
) -> None:
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "BAR_DELAY_SECONDS", 0.1)
    monkeypatch.setenv("TERM", "xterm")
    with console.progress() as moved:
        moved("measuring", 0.2)
        time.sleep(seconds)
        moved("fitting", 0.9)
        time.sleep(seconds / 2)
    assert ("fitting" in screen.getvalue()) is drawn


def test_no_message_shows_a_private_value(workspace: Workspace, capsys) -> None:
    assert workspace.synth() == 0
    out, err = capsys.readouterr()
    assert CANARY not in out + err
    for path in (workspace.folder / "release").iterdir():
        assert CANARY.encode() not in path.read_bytes()


@pytest.mark.parametrize("verb", ["synth", "measure"])
def test_a_run_is_paid_by_the_account_that_is_named(workspace: Workspace, verb: str) -> None:
    words = [verb, workspace.path("people.csv"), *workspace.spending(), "--out", workspace.path("out")]
    assert main([*words, "--dataset", "same people"]) == 0
    assert [account.dataset for account in Ledger.existing(workspace.ledger).accounts()] == [
        "people",
        "same people",
    ]
    assert (
        json.loads((workspace.folder / "out" / "statement.json").read_text("utf-8"))["dataset"]
        == "same people"
    )
