"""`copula` through the command line: rules hold, conditions and implicates work, and stages say the same."""

from __future__ import annotations

import csv
import json

import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace

SCHEMA = """
[table]
dataset = "people"
unit = "person"

[columns.age]
kind = "integer"
min = 0
max = 79
width = 5

[columns.work]
kind = "categorical"
values = ["no", "part", "full"]
{rule}

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""
RULE = 'universe = "age >= 15"\noutside = "child"'


def prepare(workspace: Workspace, *, ruled: bool) -> list[str]:
    workspace.write("schema.toml", SCHEMA.replace("{rule}", RULE if ruled else ""))
    works = ("no", "part", "full")
    rows = [
        f"{age},{'child' if ruled and age < 15 else works[(age // 10 + k) % 3]},{'fm'[(age + k) % 2]}"
        for age in range(80)
        for k in range(15)
    ]
    workspace.write("people.csv", "\n".join(["age,work,sex", *rows]) + "\n")
    return ["--schema", workspace.path("schema.toml"), "--ledger", str(workspace.ledger)]


def synth(workspace: Workspace, words: list[str], *more: str) -> list[list[dict[str, str]]]:
    budget = [
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        "--method",
        "copula",
        "--out",
        workspace.path("release"),
        "--no-report",
    ]
    assert main(["synth", workspace.path("people.csv"), *words, *budget, *more]) == 0
    assert main(["verify", workspace.path("release")]) == 0
    found = []
    for file in sorted((workspace.folder / "release").glob("synthetic*.csv")):
        with file.open(encoding="utf-8", newline="") as text:
            found.append(list(csv.DictReader(text)))
    return found


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.slow
def test_a_release_keeps_rules_and_bins(ruled: bool, workspace: Workspace) -> None:
    (rows,) = synth(workspace, prepare(workspace, ruled=ruled))
    assert 1000 < len(rows) < 1400
    known = [row for row in rows if row["age"]]
    assert len(known) > 0.9 * len(rows)
    assert all(0 <= int(row["age"]) <= 79 for row in known)
    assert {row["sex"] for row in rows} >= {"f", "m"}
    if ruled:
        assert all((row["work"] == "child") == (int(row["age"]) < 15) for row in known)
    told = json.loads((workspace.folder / "release" / "statement.json").read_text("utf-8"))
    assert told["method"] == "copula"


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.slow
def test_conditions_and_implicates(ruled: bool, workspace: Workspace) -> None:
    found = synth(
        workspace,
        prepare(workspace, ruled=ruled),
        "--where",
        "age >= 40",
        "--implicates",
        "2",
        "--rows",
        "200",
    )
    assert [len(rows) for rows in found] == [200, 200]
    assert all(int(row["age"]) >= 40 for rows in found for row in rows)
    assert found[0] != found[1]


@pytest.mark.slow
def test_three_stages_without_delta(workspace: Workspace) -> None:
    words = prepare(workspace, ruled=False)
    budget = ["--epsilon", "2", "--delta", "0", "--method", "copula"]
    assert main(["measure", workspace.path("people.csv"), *words, *budget, "--out", workspace.path("m")]) == 0
    assert main(["fit", workspace.path("m"), "--out", workspace.path("f")]) == 0
    assert main(["generate", workspace.path("f"), "--out", workspace.path("r"), "--no-report"]) == 0
    assert main(["verify", workspace.path("r")]) == 0
    assert json.loads((workspace.folder / "r" / "statement.json").read_text("utf-8"))["delta"] == 0
