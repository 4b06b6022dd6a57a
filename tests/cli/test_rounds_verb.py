"""`--method nist2018` through the command line: with a file of queries, in one go, in stages and in a plan."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace

QUERIES = """
[rounds]
share = 0.4

[columns.age]
compress = "neighbours"

[[marginals]]
columns = ["sex", "age"]
weight = 2
coarse = { age = ["0..4", "5..9", "*"] }
"""


def prepare(workspace: Workspace, queries: str = QUERIES) -> str:
    rows = [f"f,{age}" for age in (1, 3)] + [f"m,{age}" for age in (6, 8)]
    workspace.write("people.csv", "\n".join(["sex,age", *(rows * 200)]) + "\n")
    return workspace.write("queries.toml", queries)


def test_a_file_of_queries_goes_all_the_way(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    queries = prepare(workspace)
    assert workspace.synth(method="nist2018", workload=queries, epsilon="2") == 0
    assert capsys.readouterr().out == workspace.path("release") + "\n"
    assert main(["verify", workspace.path("release")]) == 0
    release = workspace.folder / "release"
    statement = json.loads((release / "statement.json").read_text("utf-8"))
    assert (statement["method"], statement["epsilon"]) == ("nist2018", 2)
    assert statement["workload"].startswith("own ")
    with (release / "synthetic.csv").open(encoding="utf-8", newline="") as file:
        halves = Counter((row["sex"], row["age"] < "5") for row in csv.DictReader(file) if row["sex"])
    assert halves["f", True] > 5 * halves["f", False]
    assert halves["m", False] > 5 * halves["m", True]


def test_in_stages_and_in_a_plan(workspace: Workspace) -> None:
    queries = prepare(workspace)
    words = [
        *workspace.spending(),
        "--method",
        "nist2018",
        "--workload",
        queries,
        "--out",
        workspace.path("measured"),
    ]
    assert main(["measure", workspace.path("people.csv"), *words]) == 0
    assert main(["fit", workspace.path("measured"), "--out", workspace.path("model")]) == 0
    assert main(["generate", workspace.path("model"), "--out", workspace.path("release")]) == 0
    words = [
        "--schema",
        workspace.path("schema.toml"),
        "--population",
        "5000",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    ]
    assert main(["plan", *words, "--method", "nist2018", "--workload", queries]) == 0


@pytest.mark.parametrize(
    ("queries", "method", "said"),
    [
        (QUERIES.replace('"*"', '"10"'), "nist2018", "'10', which is no value or span of them"),
        (QUERIES.replace(', "*"]', "]"), "nist2018", "has no bin for"),
        (QUERIES.replace('"age"]', '"aeg"]'), "nist2018", "did you mean 'age'"),
        (QUERIES, "mst", "use nist2018"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_spent(
    queries: str, method: str, said: str, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = workspace.entries
    assert workspace.synth(method=method, workload=prepare(workspace, queries)) == 2
    assert said in capsys.readouterr().err
    assert workspace.entries == before
    assert not (workspace.folder / "release").exists()


def test_the_statement_says_that_a_name_changes_nothing(workspace: Workspace) -> None:
    prepare(workspace)
    assert workspace.synth(method="nist2018", workload="pairs") == 0
    page = (workspace.folder / "release" / "statement.md").read_text("utf-8")
    assert "nist2018 measures the same for every workload" in page
