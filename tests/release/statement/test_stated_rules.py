"""What a release says about rules and public totals, and how it is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import UsageError
from populace.privacy.ledger.ledger import Ledger
from populace.release.manifest import Manifest, digest_file
from populace.release.verify.verify import verify

SCHEMA = """
[table]
dataset = "people"
unit = "person"

[columns.age]
kind = "integer"
min = 0
max = 99
other = "0"

[columns.job]
kind = "categorical"
values = ["farm", "shop"]
other = "farm"
universe = "age >= 15"
outside = "N"
"""
TOTALS = """
[[totals]]
by = ["job"]
counts = { farm = 250, shop = 100, N = 61 }
"""


def people(rows: int = 400) -> pd.DataFrame:
    ages = [number % 90 for number in range(rows)]
    return pd.DataFrame(
        {"age": ages, "job": ["N" if age < 15 else "farm" if age % 3 else "shop" for age in ages]}
    )


def release(tmp_path: Path, text: str, **more: object) -> pp.Release:
    options = {"epsilon": 2, "delta": "1e-6", "ledger": tmp_path / "ledger.db", "seed": 1}
    return pp.synthesize(people(), schema=pp.Schema.parse(text), **options | more)


def reseal(folder: Path, name: str, text: str) -> None:
    """Alter a file and make the manifest vouch for it."""
    (folder / name).write_text(text)
    manifest = Manifest.load(folder)
    told = json.loads((folder / "manifest.json").read_text())
    told["files"][name] = digest_file(folder / name)
    (folder / "manifest.json").write_text(json.dumps(told))
    assert manifest.files.keys() == Manifest.load(folder).files.keys()


def test_declared_totals_are_met_and_not_called_noisy(tmp_path):
    made = release(tmp_path, SCHEMA + TOTALS)
    assert made.table["job"].value_counts().to_dict() == {"farm": 250, "shop": 100, "N": 61}
    total = made.statement["total"]
    assert (total["rows"], total["origin"]) == (411, "declared public")
    assert "not protected" in total["text"]
    assert any("“job”" in line and "declared public" in line for line in made.statement["not_covered"])
    made.save(tmp_path / "out", format="csv")
    assert verify(tmp_path / "out").passed


def test_rules_are_told_to_people_and_programs(tmp_path):
    follows = """
[columns.adult]
kind = "categorical"
values = ["yes", "no"]
other = "yes"
function_of = ["job"]
map = { farm = "yes", shop = "yes", N = "no" }
"""
    frame = people().assign(adult="nonsense")
    options = {"epsilon": 2, "delta": "1e-6", "ledger": tmp_path / "ledger.db"}
    made = pp.synthesize(frame, schema=pp.Schema.parse(SCHEMA + follows), **options)
    assert made.statement["rules"] == ["job is 'N' unless age >= 15", "adult follows from job"]
    assert (made.table["adult"] == made.table["job"].map({"farm": "yes", "shop": "yes", "N": "no"})).all()
    made.save(tmp_path / "out")
    assert "- adult follows from job" in (tmp_path / "out" / "statement.md").read_text()
    columns = {c["name"]: c for c in json.loads((tmp_path / "out" / "codebook.json").read_text())["columns"]}
    assert (columns["job"]["universe"], columns["job"]["not_in_universe"]) == ("age >= 15", "N")
    assert columns["adult"]["function_of"] == ["job"]
    assert "universe" not in columns["age"]


def test_without_totals_the_number_stays_noisy(tmp_path):
    made = release(tmp_path, SCHEMA)
    assert made.statement["total"]["origin"] == "noisy"
    assert not any("declared public" in line for line in made.statement["not_covered"])


def test_totals_that_a_rule_forbids_are_refused_before_anything_is_spent(tmp_path):
    bad = """
[[totals]]
by = ["age", "job"]
counts = [ { age = 5, job = "farm", count = 10 } ]
"""
    with pytest.raises(UsageError, match="rule forbids"):
        release(tmp_path, SCHEMA + bad)
    assert not (tmp_path / "ledger.db").exists() or not Ledger.existing(tmp_path / "ledger.db").accounts()


def test_verify_sees_a_row_that_breaks_a_rule(tmp_path):
    folder = tmp_path / "out"
    release(tmp_path, SCHEMA).save(folder, format="csv")
    assert verify(folder).passed
    lines = (folder / "synthetic.csv").read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if line.endswith('"N"'))
    reseal(folder, "synthetic.csv", "\n".join([*lines[:place], '3,"farm"', *lines[place + 1 :]]) + "\n")
    wrong = [check for check in verify(folder).checks if not check.passed]
    assert [check.name for check in wrong] == ["rows"]
    assert "age >= 15" in wrong[0].detail


def test_a_column_of_which_no_value_was_told_is_not_passed_over(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("city\n" + "Ulm\n" * 30)
    (tmp_path / "schema.toml").write_text('[columns.city]\nkind = "categorical"\nvalues = "learn"\n')
    words = [
        "synth",
        str(tmp_path / "people.csv"),
        "--schema",
        str(tmp_path / "schema.toml"),
        "--epsilon",
        "0.1",
    ]
    words += ["--delta", "1e-6", "--out", str(tmp_path / "out"), "--ledger", str(tmp_path / "ledger.db")]
    assert main(words) == 0
    assert "no value of 'city'" in capsys.readouterr().err
    statement = json.loads((tmp_path / "out" / "statement.json").read_text())
    assert any("“city”" in line for line in statement["warnings"])


def test_check_shows_what_the_rules_leave_to_nobody(tmp_path, capsys):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    assert main(["schema", "check", str(path)]) == 0
    told = capsys.readouterr()
    assert "2 columns, 1 rule," in told.out
    assert told.err == ""
    path.write_text(
        SCHEMA
        + """
[[zeros]]
when = "job != 'N' and age < 18"
"""
    )
    assert main(["schema", "check", str(path)]) == 0
    assert "no row can have age = 15, 16, 17;" in capsys.readouterr().err
