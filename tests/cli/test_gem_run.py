"""A generator through the command line: in one go, in three stages, with a condition and several tables."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter

import pytest

from populace.cli.main import main
from tests.cli.workspace import SCHEMA, Workspace


@pytest.fixture
def words(workspace: Workspace) -> list[str]:
    draw = random.Random(3)
    ages = [(sex, draw.choice((1, 2, 3) if sex == "f" else (6, 7, 8))) for sex in "fm" for _ in range(300)]
    workspace.write("schema.toml", SCHEMA)
    workspace.write("people.csv", "\n".join(["sex,age", *(f"{sex},{age}" for sex, age in ages)]) + "\n")
    budget = ["--epsilon", "3", "--delta", "0", "--method", "gem"]
    return [
        workspace.path("people.csv"),
        "--schema",
        workspace.path("schema.toml"),
        "--ledger",
        str(workspace.ledger),
        *budget,
    ]


def rows(workspace: Workspace, name: str) -> Counter[tuple[str, str]]:
    with (workspace.folder / name).open(encoding="utf-8", newline="") as file:
        return Counter((row["sex"], row["age"]) for row in csv.DictReader(file))


@pytest.mark.slow
def test_a_release_holds_what_goes_together(words: list[str], workspace: Workspace) -> None:
    assert main(["synth", *words, "--out", workspace.path("r"), "--no-report"]) == 0
    assert main(["verify", workspace.path("r")]) == 0
    found = rows(workspace, "r/synthetic.csv")
    assert 560 < found.total() < 640
    assert sum(found["f", str(age)] + found["m", str(9 - age)] for age in (1, 2, 3)) > 0.9 * found.total()
    statement = json.loads((workspace.folder / "r" / "statement.json").read_text("utf-8"))
    assert (statement["method"], statement["delta"]) == ("gem", 0)


@pytest.mark.slow
def test_three_stages_repeat_and_shape_rows(words: list[str], workspace: Workspace) -> None:
    assert main(["measure", *words, "--out", workspace.path("m")]) == 0
    for name in ("f", "again"):
        assert main(["fit", workspace.path("m"), "--out", workspace.path(name)]) == 0
    one, other = ((workspace.folder / name / "model.json").read_bytes() for name in ("f", "again"))
    assert one == other
    shape = ["--where", "sex == 'f'", "--implicates", "2", "--rows", "100", "--seed", "7", "--no-report"]
    for name in ("f", "again"):
        assert main(["generate", workspace.path(name), *shape, "--out", workspace.path(f"r{name}")]) == 0
        assert main(["verify", workspace.path(f"r{name}")]) == 0
    tables = sorted(path.name for path in (workspace.folder / "rf").glob("synthetic*"))
    assert len(tables) == 2
    for table in tables:
        found = rows(workspace, f"rf/{table}")
        assert found == rows(workspace, f"ragain/{table}")
        assert {sex for sex, _ in found} == {"f"}
        assert found.total() == 100
