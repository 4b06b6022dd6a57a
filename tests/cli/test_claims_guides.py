"""The commands of the guides to claims and disclosure run as they are written."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pytest

from populace.cli.main import main
from tests.cli.test_docs import ROOT, blocks, matches

SCHEMA = """
[columns.sex]
kind = "categorical"
values = ["female", "male"]
[columns.age]
kind = "integer"
min = 0
max = 99
[columns.work]
kind = "categorical"
values = ["employed", "retired"]
[columns.income]
kind = "numeric"
min = 0
max = 100_000
width = 5000
"""


def write_rows(path: str, *, seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        f"{draw.choice(['female', 'male'])},{draw.randrange(100)},{draw.choice(['employed', 'retired'])},"
        f"{draw.randrange(90_000)}"
        for _ in range(400)
    ]
    Path(path).write_text("\n".join(["sex,age,work,income", *rows]) + "\n", encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["check-claims", "disclosure"])
def test_guide_commands_say_what_the_guide_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    guide = (ROOT / "docs" / "guides" / f"{name}.md").read_text("utf-8")
    Path("schema.toml").write_text(SCHEMA)
    for number, file in enumerate(("people", "others", "north", "south")):
        write_rows(f"{file}.csv", seed=number)
    for claims in blocks(guide, "toml"):
        Path("claims.toml").write_text(claims)
    words = ["--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-9", "--method", "mst", "--no-report"]
    assert main(["synth", "people.csv", *words, "--out", "release"]) == 0
    commands: list[tuple[str, list[str]]] = []
    for line in (line for block in blocks(guide, "console") for line in block.splitlines()):
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    capsys.readouterr()
    for command, shown in commands:
        program, *asked = shlex.split(command)
        assert program == "populace"
        assert main(asked) == 0, capsys.readouterr().err
        assert matches(shown, capsys.readouterr().out.splitlines()), command
