"""The examples of the guide and the README run as they are written, and no page is lost."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pyarrow.csv
import pytest

from populace.cli.main import main

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "first-release.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The guide's private table and schema, in the folder the commands run in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    draw = random.Random(5)
    rows = [
        f"{draw.choice(['north', 'south'])},{draw.choice('fm')},{draw.randrange(100)},"
        f"{draw.choice(['employed', 'retired', 'refused'])},{draw.randrange(90_000)}"
        for _ in range(500)
    ]
    Path("people.csv").write_text("\n".join(["region,sex,age,work,income", *rows]) + "\n", encoding="utf-8")
    (schema,) = blocks(GUIDE, "toml")
    Path("schema.toml").write_text(schema, encoding="utf-8")
    return tmp_path / "people.csv"


def test_guide_commands_say_what_the_guide_shows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in blocks(GUIDE, "console") for line in block.splitlines()]
    assert lines[0].startswith("$ ")
    said: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            words = shlex.split(line[2:])
            assert words[0] == "populace"
            assert main(words[1:]) == 0, capsys.readouterr().err
            said = capsys.readouterr().out.splitlines()
        else:
            assert any(one.startswith(line) for one in said), f"{line!r} is not in {said}"


def test_guide_python_runs(table: Path) -> None:
    (code,) = blocks(GUIDE, "python")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["release"].statement["epsilon"] == 0.5
    assert Path("python-release/manifest.json").is_file()


def test_readme_python_runs(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) == 5
    names: dict[str, object] = {"frame": pyarrow.csv.read_csv(table)}
    exec(code, names)
    assert Path("release/manifest.json").is_file()


def test_readme_shows_commands_that_exist() -> None:
    words = [shlex.split(line, comments=True)[1:] for line in blocks(README, "console")[0].splitlines()]
    assert words[0] == ["make", "demo"]
    assert words[1][:2] == [".venv/bin/populace", "synth"]
    assert "\ndemo: " in (ROOT / "Makefile").read_text("utf-8")


def links(path: Path) -> list[Path]:
    """Return the local files that a page links to."""
    targets = re.findall(r"\]\(([^)#\s]+)\)", path.read_text("utf-8"))
    return [(path.parent / target).resolve() for target in targets if "://" not in target]


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    assert [str(target) for target in links(page) if not target.exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set(), [ROOT / "docs" / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += links(page)
    assert sorted(set((ROOT / "docs").rglob("*.md")) - reached) == []


@pytest.mark.parametrize(
    "fragment",
    sorted({*(ROOT / "changes").glob("*.md")} - {ROOT / "changes" / "README.md"}),
    ids=lambda p: p.stem,
)
def test_changelog_fragments_put_privacy_first(fragment: Path) -> None:
    known = ["Privacy", "Added", "Changed", "Fixed", "Removed"]
    sections = re.findall(r"^\*\*(\w+)\*\*$", fragment.read_text("utf-8"), flags=re.MULTILINE)
    assert sections
    assert sections == sorted(sections, key=known.index)
