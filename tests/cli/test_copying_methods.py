"""Histograms, told rows and field groups through the command line, in one go and in three stages."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest

from populace.cli.main import main
from populace.methods.registry import METHODS
from tests.cli.test_docs import ROOT
from tests.cli.workspace import SCHEMA, Workspace

COPYING = ("field-groups", "histogram", "histogram-exponential", "stability")


def told(workspace: Workspace, folder: str, name: str) -> dict:
    return json.loads((workspace.folder / folder / name).read_text("utf-8"))


def prepare(workspace: Workspace) -> None:
    workspace.write("schema.toml", SCHEMA.replace("[table]", "[table]\nmax_rows = 2000"))
    rows = [f"{sex},{age}" for sex in "fm" for age in (1, 4, 7) for _ in range(60)]
    workspace.write("people.csv", "\n".join(["sex,age", *rows, "x,5"]) + "\n")


@pytest.mark.parametrize("method", COPYING)
def test_a_tiny_table_goes_all_the_way(
    method: str, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(workspace)
    words = [
        "--schema",
        workspace.path("schema.toml"),
        "--ledger",
        str(workspace.ledger),
        "--out",
        workspace.path("release"),
    ]
    budget = ["--epsilon", "3", "--delta", "1e-6", "--method", method, "--workload", "pairs", "--no-report"]
    assert main(["synth", workspace.path("people.csv"), *words, *budget]) == 0
    said = capsys.readouterr().err
    assert "--workload changes nothing" in said
    assert ("nothing is known about which columns belong together" in said) is (method == "field-groups")
    statement = told(workspace, "release", "statement.json")
    assert statement["method"] == method
    assert statement["delta"] == (1e-6 if method == "stability" else 0)
    assert main(["verify", workspace.path("release")]) == 0
    with (workspace.folder / "release" / "synthetic.csv").open(encoding="utf-8", newline="") as file:
        rows = Counter((row["sex"], row["age"]) for row in csv.DictReader(file))
    common = [(sex, age) for sex in "fm" for age in "147"]
    assert all(30 < rows[row] < 90 for row in common)
    if method == "stability":
        assert set(rows) == set(common)
        assert any("all rarer ones are suppressed" in line for line in statement["warnings"])


def test_three_stages_tell_the_same_rows(workspace: Workspace) -> None:
    prepare(workspace)
    words = [
        "--schema",
        workspace.path("schema.toml"),
        "--ledger",
        str(workspace.ledger),
        "--out",
        workspace.path("m"),
    ]
    budget = ["--epsilon", "3", "--delta", "1e-6", "--method", "stability"]
    assert main(["measure", workspace.path("people.csv"), *words, *budget]) == 0
    assert main(["fit", workspace.path("m"), "--out", workspace.path("f")]) == 0
    assert main(["generate", workspace.path("f"), "--out", workspace.path("r"), "--no-report"]) == 0
    assert main(["verify", workspace.path("r")]) == 0
    rows = told(workspace, "m", "measurements.json")["told"]
    assert sum(rows["counts"]) == told(workspace, "r", "statement.json")["total"]["rows"]


def test_no_row_is_invented_where_none_was_told(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(workspace)
    workspace.write("people.csv", "sex,age\nf,1\nm,4\nf,7\n")
    words = [
        "--schema",
        workspace.path("schema.toml"),
        "--ledger",
        str(workspace.ledger),
        "--out",
        workspace.path("release"),
    ]
    budget = ["--epsilon", "3", "--delta", "1e-6", "--method", "stability", "--no-report", "--rows", "20"]
    assert main(["synth", workspace.path("people.csv"), *words, *budget]) == 0
    assert "so the table is empty, however many rows were asked for" in capsys.readouterr().err
    assert (workspace.folder / "release" / "synthetic.csv").read_text("utf-8").splitlines() == ['"sex","age"']
    statement = told(workspace, "release", "statement.json")
    assert statement["total"]["rows"] == 0
    assert any("No row was released" in line for line in statement["warnings"])
    assert main(["verify", workspace.path("release")]) == 0


def test_mistakes_are_named_and_cost_nothing(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = workspace.entries
    assert workspace.synth(method="histogram-exponential") == 2
    assert "max_rows = N" in capsys.readouterr().err
    assert workspace.synth(method="stability", delta="0") == 2
    assert "delta above 0" in capsys.readouterr().err
    assert workspace.synth(method="histograms") == 2
    assert "did you mean 'histogram'?" in capsys.readouterr().err
    assert workspace.entries == before


@pytest.mark.parametrize("method", COPYING)
def test_each_has_a_page(method: str) -> None:
    page = (ROOT / "docs" / "methods" / f"{method.removesuffix('-exponential')}.md").read_text("utf-8")
    index = (ROOT / "docs" / "methods" / "README.md").read_text("utf-8")
    assert f"`{method}`" in page
    assert len(page.splitlines()) <= 60
    assert all(f"`{name}`" in index for name in METHODS)
