"""Linked tables on the command line: both files by name, and one form of everything whatever the rows are."""

from __future__ import annotations

import numpy as np
import pyarrow.csv as pacsv
import pytest

from populace.cli.main import main
from populace.schema.schema import Schema
from tests.helpers.linked_files import ROLES, RULES, SPINE, TEXT, draw_neighbours, to_frames

SCHEMA = TEXT.format(most=3, neighbours="add-remove", roles=ROLES) + RULES


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "homes.toml").write_text(SCHEMA)
    return tmp_path


def write(folder, tables, stem=""):
    for name, frame in to_frames(tables).items():
        pacsv.write_csv(frame, folder / f"{stem}{name}.csv")


def synth(*more, stem="", out="out", data=None):
    given = data or [f"person={stem}person.csv", f"household={stem}household.csv"]
    asked = ["--schema", "homes.toml", "--epsilon", "1", "--delta", "1e-9", "--out", out, "--no-report"]
    return main(["synth", *given, *asked, *more])


def test_from_two_files_to_a_folder_that_verifies(folder, capsys):
    write(folder, draw_neighbours(np.random.default_rng(1), most=3)[1])
    assert synth("--rows", "30") == 0
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"synthetic-household.csv", "synthetic-person.csv"} <= names
    assert main(["verify", "out"]) == 0
    assert (
        main(
            ["generate", "out", "--out", "more", "--rows", "9", "--where", "tenure == 'owned'", "--no-report"]
        )
        == 0
    )
    assert main(["verify", "more"]) == 0
    assert (folder / "more" / "synthetic-household.csv").read_text().count("\n") == 10
    capsys.readouterr()


def test_what_is_given_wrongly_is_refused_before_anything_is_spent(folder, capsys):
    write(folder, ([], []))
    for data, said in (
        (["household.csv"], "one table is given"),
        (["household=household.csv"], "are given"),
        (["household.csv", "person.csv"], "not each by a name"),
        (["household=household.csv", "household=person.csv"], "not each by a name"),
        (["household=person.csv", "person=household.csv"], "has no column"),
        (["household=household.csv", "person=gone.csv"], "no file"),
    ):
        assert synth(data=data) == 2
        assert said in capsys.readouterr().err
    assert not (folder / "state" / "populace" / "ledger.db").exists()


def test_exit_code_words_and_files_are_the_same_for_any_rows(folder, capsys):
    """Empty tables, orphans, duplicates and odd values alike: what is said differs in noisy numbers alone."""
    rng = np.random.default_rng(2)
    seen = set()
    for number, tables in enumerate([([], []), ([("1", "owned")] * 3, []), *draw_neighbours(rng, most=3)]):
        write(folder, tables, stem=f"{number}-")
        code = synth("--rows", "20", "--ledger", f"{number}.db", stem=f"{number}-", out=f"out-{number}")
        said = [
            line.split(" (")[0].replace(f" {number}.db", " LEDGER")
            for line in capsys.readouterr().err.splitlines()
            if "dominated" not in line
        ]
        kept = tuple(line for line in said if "ledger was made" not in line and "lie outside" not in line)
        seen.add((code, kept, tuple(sorted(path.name for path in (folder / f"out-{number}").iterdir()))))
    assert len(seen) == 1
    assert next(iter(seen))[0] == 0


def test_schema_verbs_take_linked_tables(folder, capsys):
    for text in (SCHEMA, SCHEMA + SPINE):
        (folder / "homes.toml").write_text(text)
        assert main(["schema", "check", "homes.toml"]) == 0
        capsys.readouterr()
        assert main(["schema", "show", "homes.toml"]) == 0
        assert Schema.parse(capsys.readouterr().out) == Schema.parse(text)
