"""The examples of the guide and the README run as they are written, and no page is lost."""

from __future__ import annotations

import json
import random
import re
import runpy
import shlex
from pathlib import Path

import pyarrow
import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace

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


def matches(shown: list[str], said: list[str]) -> bool:
    """Say whether an output is what a page shows: … stands for some text, alone on a line for some lines."""
    parts = [r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".+") + r"\n" for line in shown]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in said)) is not None


def test_shown_outputs_are_compared_in_full() -> None:
    assert matches(["a", "…", "c: … d"], ["a", "b", "b", "c: 7 d"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["a", "…"], ["ab"])
    assert not matches(["c: … d"], ["c:  d"])


@pytest.mark.slow
def test_guide_commands_say_what_the_guide_shows(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands: list[tuple[str, list[str]]] = []
    for line in (line for block in blocks(GUIDE, "console") for line in block.splitlines()):
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    for command, shown in commands:
        program, *words = shlex.split(command)
        assert program == "populace"
        assert main(words) == 0, capsys.readouterr().err
        said = capsys.readouterr().out.splitlines()
        assert matches(shown, said), f"{command}: the guide shows {shown}, it says {said}"


def test_guide_python_runs(table: Path) -> None:
    (code,) = blocks(GUIDE, "python")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["release"].statement["epsilon"] == 0.5
    assert isinstance(names["release"].table, pyarrow.Table)
    assert Path("python-release/manifest.json").is_file()


def test_readme_python_runs_by_itself(workspace: Workspace) -> None:
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 8
    names: dict[str, object] = {}
    exec(code, names)
    assert names["release"].table.column_names == ["smokes", "age"]
    assert (workspace.folder / "smokers-release" / "manifest.json").is_file()


@pytest.mark.slow
def test_readme_commands_are_there(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    (commands,) = blocks(README, "console")
    words = [shlex.split(line, comments=True)[1:] for line in commands.splitlines()]
    assert words == [["make", "demo"], ["make", "test"], ["pip", "install", "."]]
    assert "\n\t@$(BIN)/populace demo\n" in (ROOT / "Makefile").read_text("utf-8")
    assert main(["demo"]) == 0
    assert capsys.readouterr().out == "demo-release\n"
    (synth,) = re.findall(r"`populace (synth .*)`", README)
    source = "demo-release.input"
    synth = synth.replace("people.csv", f"{source}/people.csv").replace(
        "schema.toml", f"{source}/schema.toml"
    )
    assert main(shlex.split(synth)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == "release\n"
    assert main(["verify", "release"]) == 0


def test_readme_is_one_screen() -> None:
    assert len(README.splitlines()) <= 60


def test_picture_of_the_truth_says_what_its_numbers_say() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "images" / "truth.py"))
    numbers = json.loads(script["NUMBERS"].read_text("utf-8"))
    assert f"{numbers['rows']:,} people" in README
    assert f"ε = {numbers['epsilon']}, δ = {numbers['delta']}" in README
    drawn = json.dumps(script["picture"](numbers), ensure_ascii=False)
    assert all(name in drawn for name in script["SERIES"])


@pytest.mark.slow
def test_picture_shows_what_the_software_does() -> None:
    """The guide's picture is drawn from repeatable noise; `make docs` draws it again."""
    script = runpy.run_path(str(ROOT / "docs" / "images" / "release.py"))
    kept = json.loads(script["NUMBERS"].read_text("utf-8"))
    assert script["numbers"](script["document"]()) == kept


def links(path: Path) -> list[Path]:
    """Return the local files that a page links to."""
    targets = re.findall(r"\]\(([^)#\s]+)\)", path.read_text("utf-8"))
    return [(path.parent / target).resolve() for target in targets if "://" not in target]


@pytest.mark.parametrize(
    "page",
    [
        *sorted(ROOT.glob("*.md")),
        ROOT / "changes" / "README.md",
        *sorted((ROOT / "examples").rglob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ],
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


def test_every_benchmark_says_what_it_claims() -> None:
    page = ROOT / "bench" / "README.md"
    scripts = sorted((ROOT / "bench").glob("*.py"))
    assert scripts
    assert [path.name for path in scripts if path not in links(page)] == []
    assert [str(target) for target in links(page) if not target.exists()] == []


@pytest.mark.parametrize("folder", ["decisions", "proofs"])
def test_every_note_is_in_the_list_of_its_folder(folder: str) -> None:
    listed = {target.name for target in links(ROOT / "docs" / folder / "README.md")}
    notes = {path.name for path in (ROOT / "docs" / folder).glob("*.md")} - {"README.md"}
    assert notes
    assert notes - listed == set()


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


def test_changelog_is_what_the_fragments_say() -> None:
    script = runpy.run_path(str(ROOT / "changes" / "compile.py"))
    assert script["CHANGELOG"].read_text("utf-8") == script["compile_changelog"](), "run make changelog"
