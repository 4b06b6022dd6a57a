"""What is said of a run before it is paid for, and of columns that no pair holds after it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from populace.api.request import RunRequest
from populace.cli.main import main
from populace.planning.judge_rows import judge_rows
from populace.privacy.ledger.ledger import Ledger
from populace.schema.schema import Schema

SCHEMA = """[table]
unit = "person"
{more}
[columns.a]
kind = "integer"
min = 0
max = 9
[columns.b]
kind = "integer"
min = 0
max = 9
"""


class Terminal(io.StringIO):
    """A stream that somebody sits at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("a,b\n" + "".join(f"{n % 10},{n % 3}\n" for n in range(60)))
    return path


def run(people: Path, *words: str, more: str = "", verb: str = "measure") -> int:
    folder = people.parent
    (folder / "schema.toml").write_text(SCHEMA.format(more=more))
    fixed = [verb, str(people), "--schema", str(folder / "schema.toml"), "--epsilon", "0.1", "--delta", "0"]
    return main([*fixed, "--out", str(folder / "out"), "--ledger", str(folder / "ledger.db"), *words])


def sit_at_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Terminal:
    heard = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", heard)
    return heard


def test_too_few_rows_are_asked_about_on_a_terminal_and_a_no_spends_nothing(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = sit_at_a_terminal(monkeypatch, "n\n")
    assert run(people, "--population", "60") == 2
    assert "too few rows for these columns" in heard.getvalue()
    assert "Spend the budget all the same? [y/N]" in heard.getvalue()
    assert "nothing was spent" in heard.getvalue()
    assert "charging" not in heard.getvalue()
    assert not (people.parent / "ledger.db").exists()
    assert not (people.parent / "out").exists()


@pytest.mark.parametrize(("answer", "words"), [("y\n", ()), ("", ("--yes",))])
def test_a_yes_goes_on(
    people: Path, monkeypatch: pytest.MonkeyPatch, answer: str, words: tuple[str, ...]
) -> None:
    heard = sit_at_a_terminal(monkeypatch, answer)
    assert run(people, "--population", "60", *words) == 0
    assert ("[y/N]" in heard.getvalue()) is (not words)
    assert len(Ledger.existing(people.parent / "ledger.db").accounts()) == 1


def test_scripts_are_warned_and_go_on(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(people, more="max_rows = 60") == 0
    heard = capsys.readouterr().err
    assert "to be measured: 2 columns, and of 1 pair what is worth its noise (method adaptive)" in heard
    assert "WARNING: too few rows" in heard
    assert "60 (max_rows, the most)" in heard
    assert "[y/N]" not in heard


def test_nothing_is_judged_where_nothing_is_public_and_rows_are_never_counted(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(people) == 0
    assert "too few" not in capsys.readouterr().err


def test_enough_rows_are_not_asked_about(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = sit_at_a_terminal(monkeypatch, "n\n")
    assert run(people, "--population", "1000000") == 0
    assert "too few" not in heard.getvalue()


def test_a_population_below_one_is_refused(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(people, "--population", "0") == 2
    assert "the population is 0" in capsys.readouterr().err
    assert not (people.parent / "ledger.db").exists()


def test_columns_in_no_pair_are_named_with_what_favours_them(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(people, "--no-report", verb="synth") == 0
    heard = capsys.readouterr().err
    assert "in no measured pair, so released as if independent of all other columns: 'a', 'b'" in heard
    assert 'pairs = true, [[marginals]], columns = ["a", "b"], weight = 4' in heard


def test_a_public_total_that_fits_no_stata_file_is_refused_before_the_charge(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("populace.release.table_files.memory_limit", lambda: 10**6)
    schema = people.parent / "schema.toml"
    schema.write_text(SCHEMA.format(more="") + "[[totals]]\nby = []\ncount = 1000000\n")
    words = [
        "synth",
        str(people),
        "--schema",
        str(schema),
        "--epsilon",
        "1",
        "--delta",
        "0",
        "--format",
        "dta",
    ]
    assert main([*words, "--out", str(people.parent / "out"), "--ledger", str(people.parent / "l.db")]) == 4
    assert "1000000 rows do not fit in memory on their way to" in capsys.readouterr().err
    assert not (people.parent / "l.db").exists()


def test_rows_are_judged_without_a_table(tmp_path: Path) -> None:
    """The data need not even exist: what is said before the charge follows from public figures alone."""
    schema = Schema.parse(SCHEMA.format(more="max_rows = 60"))
    request = RunRequest.of(tmp_path / "nowhere.csv", schema=schema, epsilon="0.1", delta=0)
    found = judge_rows(request)
    assert found is not None
    assert found.too_few
    assert judge_rows(request, population=10**6).outcome.error < found.outcome.error  # type: ignore[union-attr]
