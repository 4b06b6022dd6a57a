"""The commands of the guide to estimates run as they are written, on the invented survey."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from populace.cli.demo import write_input
from populace.cli.main import main
from populace.simulation.sample_survey import simulate_survey
from tests.cli.test_docs import ROOT, blocks, matches

GUIDE = (ROOT / "docs" / "guides" / "estimates.md").read_text("utf-8")


@pytest.mark.slow
def test_guide_commands_say_what_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("examples").symlink_to(ROOT / "examples")
    write_input(simulate_survey()[0], Path("demo-release.input"))
    commands: list[tuple[str, list[str]]] = []
    first, *_, last = blocks(GUIDE, "console")
    for line in [*first.splitlines(), *last.splitlines()]:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    assert [command.split()[1] for command, _ in commands] == ["estimate", "verify", "smallarea"]
    capsys.readouterr()
    for command, shown in commands:
        program, *words = shlex.split(command)
        assert program == "populace"
        assert main(words) == 0, capsys.readouterr().err
        said = capsys.readouterr()
        assert matches(shown, said.out.splitlines()), command
        if words[0] == "estimate":
            before, _ = said.err.split("charging", 1)
            assert "noise of pure epsilon 2 gives the shorter intervals: none of delta 1e-9 is used" in before
            assert "protection: weak" in before
    assert (tmp_path / "estimates" / "report.html").stat().st_size > 100_000


def test_the_excerpts_are_those_of_the_files() -> None:
    (excerpt,) = blocks(GUIDE, "toml")
    files = [
        (ROOT / "examples/survey" / f"people-{name}.toml").read_text("utf-8")
        for name in ("design", "queries")
    ]
    held = [line.split("#")[0].strip() for text in files for line in text.splitlines()]
    assert [line for line in excerpt.splitlines() if line and line not in held] == []
