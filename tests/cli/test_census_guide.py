"""The guide to a census runs as it is written, and its examples are what they say."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.methods.workload import Workload
from populace.schema.schema import Schema
from tests.cli.test_docs import ROOT, blocks, matches

GUIDE = (ROOT / "docs" / "guides" / "census.md").read_text("utf-8")
EXAMPLE = ROOT / "examples" / "census"
# The blocks that run, of those that the guide has.
CONSOLE_BLOCKS = (0, 1, 2)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *words = shlex.split(command)
    if program == "python":
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(words[0], run_name="__main__")
    else:
        assert program == "populace"
        assert main(words) == 0


@pytest.mark.slow
def test_the_guide_says_what_its_commands_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("examples").symlink_to(ROOT / "examples")
    (district,) = re.findall(r"<!-- file: district.csv -->\n```\n(.*?)```", GUIDE, flags=re.DOTALL)
    Path("district.csv").write_text(district, encoding="utf-8")
    for number in CONSOLE_BLOCKS:
        command, *shown = blocks(GUIDE, "console")[number].splitlines()
        capsys.readouterr()
        run(command.removeprefix("$ "), monkeypatch)
        assert matches(shown, capsys.readouterr().out.splitlines()), command
    made = (tmp_path / "census" / "spine.csv").read_bytes()
    assert made == (EXAMPLE / "spine.csv").read_bytes()


def test_the_excerpts_are_those_of_the_files() -> None:
    files = ("redistricting.toml", "demographic-budget.toml")
    for excerpt, name in zip(blocks(GUIDE, "toml"), files, strict=False):
        held = (EXAMPLE / name).read_text("utf-8").splitlines()
        assert [line for line in excerpt.splitlines() if line not in held] == []


@pytest.mark.parametrize(("name", "cells"), [("redistricting", 48), ("demographic", 70)])
def test_the_examples_fit_together(name: str, cells: int) -> None:
    schema = Schema.load(EXAMPLE / f"{name}.toml")
    assert schema.geography is not None
    assert [schema.geography.spine.units(level) for level in range(6)] == [1, 4, 12, 50, 100, 500]
    assert schema.domain.cells([each for each in schema.domain if each != "geocode"]) == cells
    text = (EXAMPLE / f"{name}-budget.toml").read_text("utf-8")
    budget = Workload.parse(text, schema=schema).levels
    assert budget is not None
    asked = budget.allocate(schema.geography)
    by_level = [sum(each.share for each in asked if each.level == level) for level in range(6)]
    assert by_level == [Fraction(share, 4099) for share in (104, 1440, 447, 687, 1256, 165)]


def test_invariants_of_the_guide_are_read(tmp_path: Path) -> None:
    text = (
        (EXAMPLE / "redistricting.toml").read_text("utf-8").replace("spine.csv", str(EXAMPLE / "spine.csv"))
    )
    invariants = next(text for text in blocks(GUIDE, "toml") if "[[invariants]]" in text)
    (tmp_path / "schema.toml").write_text(text + invariants, encoding="utf-8")
    assert Schema.load(tmp_path / "schema.toml").invariants == ("all", "state")
