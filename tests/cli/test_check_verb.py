"""`populace check` as a command: what it prints and writes, its exit codes, and a folder that verifies."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pc
import pytest

import populace as pp
from populace.cli.main import main
from populace.privacy.ledger.ledger import Ledger
from populace.release.manifest import digest_file, dump_json
from tests.helpers.small_claims import CLAIMS, SCHEMA_TEXT, make_rows


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a private file whose account has something left."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "schema.toml").write_text(SCHEMA_TEXT)
    (folder / "claims.toml").write_text(CLAIMS)
    pc.write_csv(make_rows(3000), folder / "people.csv")
    asked = {"schema": folder / "schema.toml", "epsilon": 2, "delta": "1e-9", "ledger": folder / "l.db"}
    pp.synthesize(folder / "people.csv", **asked).save(folder / "release", report=False)
    Ledger.open(folder / "l.db").grant("small-claims", epsilon=6, delta="1e-8")
    return folder


def check(place: Path, out: str, *words: str, **changed: str) -> int:
    files = {
        "release": "release",
        "data": "people.csv",
        "schema": "schema.toml",
        "claims": "claims.toml",
        **changed,
    }
    paths = {name: str(place / file) for name, file in files.items()}
    return main(
        [
            *(
                "check",
                paths["release"],
                paths["data"],
                "--schema",
                paths["schema"],
                "--claims",
                paths["claims"],
            ),
            *("--ledger", str(place / "l.db"), "--out", str(place / out), *(words or ("--epsilon", "1"))),
        ]
    )


def left(place: Path) -> str:
    return str(Ledger.open(place / "l.db").account("small-claims"))


def test_answers_are_printed_written_and_verified(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(place, "checks", "--epsilon", "4", "--delta", "1e-9", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    saved = json.loads((place / "checks" / "checks.json").read_text())
    assert printed["checks"] == saved["checks"]
    # All but the correlation are 5 noise margins or more from their threshold.
    assert {each["name"]: each["answer"] for each in saved["checks"] if each["name"] != "together"} == {
        "gap": "yes",
        "old workers": "yes",
        "pay": "yes",
        "old": "yes",
        "all pay": "no",
        "most work": "yes",
        "slope": "yes",
    }
    statement = json.loads((place / "checks" / "statement.json").read_text())
    record = Ledger.open(place / "l.db").record(saved["ledger_entry"] and statement["record"]["run"])
    assert statement["record"] == json.loads(json.dumps(record.to_json()))
    assert (statement["epsilon_exact"], statement["method"]) == ("4", "check")
    assert saved["release"] == digest_file(place / "release" / "manifest.json")
    assert pp.verify(place / "checks").passed
    assert pp.verify(place / "checks", ledger=place / "l.db").booked
    assert [each.answer.value for each in pp.Checks.load(place / "checks").answers][:2] == ["yes", "yes"]


@pytest.mark.slow
def test_people_read_one_line_for_each_claim(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(place, "pure", "--epsilon", "1", "--delta", "0") == 0
    shown = capsys.readouterr()
    assert shown.out.strip().endswith("pure")
    assert "old: count(age >= 65) within 300 of the release's (the release: " in shown.err
    assert "does not hold the run" not in shown.err
    assert pp.verify(place / "pure").passed


@pytest.mark.slow
def test_a_ledger_that_did_not_pay_for_the_release_is_told_before_the_charge(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.db"
    for number in range(2):
        # First there is no such ledger, then one that knows another run.
        assert check(place, f"other{number}", "--epsilon", "0.5", "--ledger", str(other)) == number * 3
        told = capsys.readouterr().err
        assert f"WARNING: the ledger {other} does not hold the run of this release" in told
        assert told.index("does not hold the run") < told.index("account")
    asked = {"schema": place / "schema.toml", "epsilon": 1, "claims": place / "claims.toml"}
    release = pp.Release.load(place / "release")
    found = pp.check(release, place / "people.csv", **asked, ledger=tmp_path / "third.db")
    assert "does not hold the run" in found.notes[0]
    assert "WARNING: the ledger" in repr(found)
    assert not pp.check(
        release, place / "people.csv", **{**asked, "epsilon": "0.1"}, ledger=place / "l.db"
    ).notes


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "other"), [("1e-9", "--delta 0"), ("0", None)])
def test_expect_says_which_delta_is_narrower(
    place: Path, delta: str, other: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "one.toml").write_text("[[claims]]\nclaim = 'share(age >= 65) < 0.5'")
    assert check(place, "none", "--epsilon", "1", "--delta", delta, "--expect", claims="one.toml") == 0
    told = capsys.readouterr().err
    assert (f"note: {other} would make the noise margins narrower" if other else "nothing was read") in told
    assert ("narrower" in told) == (other is not None)


def test_an_altered_answer_is_seen(place: Path, tmp_path: Path) -> None:
    check(place, "altered", "--epsilon", "0.1")
    folder = place / "altered"
    saved = json.loads((folder / "checks.json").read_text())
    saved["checks"][0]["answer"] = "yes" if saved["checks"][0]["answer"] == "no" else "no"
    (folder / "checks.json").write_text(dump_json(saved))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["checks.json"] = digest_file(folder / "checks.json")
    (folder / "manifest.json").write_text(dump_json(manifest))
    failed = [each.name for each in pp.verify(folder).checks if each.outcome.value == "failed"]
    assert failed == ["checks"]
    (folder / "more.txt").write_text("x")
    assert not pp.verify(folder).passed


@pytest.mark.parametrize(
    ("words", "changed", "code"),
    [
        (("--epsilon", "0"), {}, 2),
        (("--epsilon", "1", "--delta", "2"), {}, 2),
        (("--epsilon", "1000"), {}, 3),
        (("--epsilon", "1"), {"claims": "none.toml"}, 2),
        (("--epsilon", "1"), {"claims": "bad.toml"}, 2),
        (("--epsilon", "1"), {"claims": "decided.toml"}, 2),
        (("--epsilon", "1"), {"data": "release/../release/synthetic.csv"}, 2),
        (("--epsilon", "1"), {"release": "none"}, 2),
        (("--epsilon", "1"), {"release": "people.csv"}, 2),
        (("--epsilon", "1"), {"data": "none.csv"}, 2),
        (("--epsilon", "1"), {"schema": "claims.toml"}, 2),
    ],
)
def test_refusals_have_their_exit_code_and_spend_nothing(
    place: Path,
    words: tuple[str, ...],
    changed: dict[str, str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (place / "bad.toml").write_text("[[claims]]\nclaim = 'median(income) < 3'")
    (place / "decided.toml").write_text("[[claims]]\nclaim = 'mean(income) < 9000'")
    before = left(place)
    assert check(place, "refused", *words, "--json", **changed) == code
    told = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert told["exit_code"] == code
    assert told["hint"]
    assert left(place) == before
    assert not (place / "refused").exists()


def test_a_file_of_the_release_is_not_taken_for_the_private_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = left(place)
    assert check(place, "refused", data="release/synthetic.csv") == 2
    assert "is a file of the release itself" in capsys.readouterr().err
    assert left(place) == before
