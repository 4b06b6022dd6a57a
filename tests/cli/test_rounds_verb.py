"""`--method nist2018` through the command line: with a file of queries, in one go, in stages and in a plan."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest

from populace.cli.main import main

from .desk import Desk

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


def prepare(desk: Desk, queries: str = QUERIES) -> str:
    rows = [f"f,{age}" for age in (1, 3)] + [f"m,{age}" for age in (6, 8)]
    desk.write("people.csv", "\n".join(["sex,age", *(rows * 200)]) + "\n")
    return desk.write("queries.toml", queries)


def test_a_file_of_queries_goes_all_the_way(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    queries = prepare(desk)
    assert desk.synth(method="nist2018", workload=queries, epsilon="2") == 0
    assert capsys.readouterr().out == desk.path("release") + "\n"
    assert main(["verify", desk.path("release")]) == 0
    release = desk.folder / "release"
    statement = json.loads((release / "statement.json").read_text("utf-8"))
    assert (statement["method"], statement["epsilon"]) == ("nist2018", 2)
    assert statement["workload"].startswith("own ")
    with (release / "synthetic.csv").open(encoding="utf-8", newline="") as file:
        halves = Counter((row["sex"], row["age"] < "5") for row in csv.DictReader(file) if row["sex"])
    assert halves["f", True] > 5 * halves["f", False]
    assert halves["m", False] > 5 * halves["m", True]


def test_in_stages_and_in_a_plan(desk: Desk) -> None:
    queries = prepare(desk)
    words = [*desk.spending(), "--method", "nist2018", "--workload", queries, "--out", desk.path("measured")]
    assert main(["measure", desk.path("people.csv"), *words]) == 0
    assert main(["fit", desk.path("measured"), "--out", desk.path("model")]) == 0
    assert main(["generate", desk.path("model"), "--out", desk.path("release")]) == 0
    words = [
        "--schema",
        desk.path("schema.toml"),
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
        (QUERIES.replace('"*"', '"10"'), "nist2018", "'10', which is no value"),
        (QUERIES.replace(', "*"]', "]"), "nist2018", "has no bin for"),
        (QUERIES.replace('"age"]', '"aeg"]'), "nist2018", "did you mean 'age'"),
        (QUERIES, "mst", "use nist2018"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_spent(
    queries: str, method: str, said: str, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    before = desk.entries
    assert desk.synth(method=method, workload=prepare(desk, queries)) == 2
    assert said in capsys.readouterr().err
    assert desk.entries == before
    assert not (desk.folder / "release").exists()


def test_the_statement_says_that_a_name_changes_nothing(desk: Desk) -> None:
    prepare(desk)
    assert desk.synth(method="nist2018", workload="pairs") == 0
    page = (desk.folder / "release" / "statement.md").read_text("utf-8")
    assert "nist2018 measures the same whatever is asked" in page
