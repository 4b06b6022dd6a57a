"""Options that shape a release: what should be accurate, which rows, and how many tables of them."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from populace.cli.demo import write_input
from populace.cli.main import main
from populace.simulation.sample_survey import simulate_survey
from tests.cli.test_docs import ROOT, blocks, matches
from tests.cli.workspace import Workspace

GUIDE = (ROOT / "docs" / "guides" / "shaping-a-release.md").read_text("utf-8")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def told(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / name).read_text("utf-8"))


def test_old_options_still_work_as_they_did(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """Every option from before the new ones, together, and nothing new in what is written."""
    assert workspace.synth(rows="30", format="parquet", seed="9", method="mst") == 0
    assert capsys.readouterr().out == workspace.path("release") + "\n"
    manifest = told(workspace.folder / "release", "manifest.json")
    assert manifest["command"] == (
        "populace synth DATA --schema FILE --method mst --epsilon 1 --delta 1e-6 --rows 30 --seed 9 "
        "--format parquet --out DIR"
    )
    assert {name for name in manifest["files"] if name.startswith("synthetic")} == {"synthetic.parquet"}
    assert not {"where", "implicates", "workload"} & set(told(workspace.folder / "release", "statement.json"))
    words = ["--rows", "30", "--seed", "9", "--format", "parquet", "--out", workspace.path("again")]
    assert main(["generate", workspace.path("release"), *words]) == 0
    first, second = (
        (workspace.folder / name / "synthetic.parquet").read_bytes() for name in ("release", "again")
    )
    assert first == second


def test_all_three_together(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    wish = workspace.write("wish.toml", '[[marginals]]\ncolumns = ["age", "sex"]\nweight = 2\n')
    assert workspace.synth(workload=wish, where="sex == 'f' and age < 8", implicates="3", rows="25") == 0
    assert capsys.readouterr().out == workspace.path("release") + "\n"
    for name in ("synthetic.csv", "synthetic-2.csv", "synthetic-3.csv"):
        found = rows(workspace.folder / "release" / name)
        assert len(found) == 25
        assert all(row["sex"] == "f" and int(row["age"]) < 8 for row in found)
    statement = told(workspace.folder / "release", "statement.json")
    assert statement["epsilon"] == 1
    assert statement["workload"].startswith("own ")
    assert statement["where"]["condition"] == "sex == 'f' and age < 8"
    assert statement["implicates"]["tables"] == 3
    command = told(workspace.folder / "release", "manifest.json")["command"]
    assert "wish.toml" not in command
    words = shlex.split(command)
    assert words[words.index("--workload") + 1] == "FILE"
    assert words[words.index("--where") + 1] == "sex == 'f' and age < 8"
    assert words[words.index("--implicates") + 1] == "3"
    assert main(["verify", workspace.path("release")]) == 0
    assert "3 tables of 25 rows" in capsys.readouterr().out


def test_measure_takes_a_workload_too(workspace: Workspace) -> None:
    words = workspace.spending(delta="0")
    out = ["--out", workspace.path("measured")]
    assert main(["measure", workspace.path("people.csv"), *words, *out, "--workload", "pairs"]) == 0
    assert told(workspace.folder / "measured", "statement.json")["workload"] == "pairs"


@pytest.mark.parametrize(
    ("option", "value", "said", "hint"),
    [
        ("workload", "pair", "the workload 'pair' is no file", "did you mean 'pairs'?"),
        ("workload", "wish.toml", "names 'agee', which is no column", "did you mean 'age'?"),
        ("where", "agee > 3", "where: there is no column 'agee'", "did you mean 'age'?"),
        ("where", "age > 3 and age < 2", "no row can be where age > 3 and age < 2", "rows that can occur"),
        ("where", "age = 3", "where:", "write == to compare"),
        ("implicates", "0", "0 implicates cannot be drawn", "--implicates 1 to 100"),
        ("implicates", "101", "101 implicates cannot be drawn", "--implicates 1 to 100"),
    ],
)
def test_mistakes_are_told_before_anything_is_spent(
    option: str, value: str, said: str, hint: str, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.write("wish.toml", 'pairs = ["agee", "sex"]\n')
    booked = workspace.entries
    assert workspace.synth(**{option: value}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert hint in err
    assert workspace.entries == booked
    assert not (workspace.folder / "release").exists()


def test_generate_draws_other_rows_from_a_release(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workspace.synth(where="sex == 'f'") == 0
    booked = workspace.entries
    words = ["--where", "sex == 'm'", "--rows", "9", "--implicates", "2", "--seed", "1"]
    assert main(["generate", workspace.path("release"), "--out", workspace.path("men"), *words]) == 0
    assert {row["sex"] for row in rows(workspace.folder / "men" / "synthetic-2.csv")} == {"m"}
    assert main(["generate", workspace.path("release"), "--out", workspace.path("all"), "--rows", "60"]) == 0
    assert {"f", "m"} <= {row["sex"] for row in rows(workspace.folder / "all" / "synthetic.csv")}
    assert workspace.entries == booked
    capsys.readouterr()
    assert (
        main(["generate", workspace.path("release"), "--out", workspace.path("no"), "--where", "sex == 'x'"])
        == 2
    )
    assert "'x' is not a value of column 'sex'" in capsys.readouterr().err


def test_an_empty_table_is_no_surprise(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that has paid ends with a release; the note says why nothing is in it."""
    ages = "\n".join(f'[columns.a{n}]\nkind = "integer"\nmin = 0\nmax = 9\nother = "0"\n' for n in range(6))
    workspace.write("schema.toml", f'[table]\ndataset = "people"\n{ages}')
    header = ",".join(f"a{n}" for n in range(6))
    workspace.write("people.csv", f"{header}\n" + "1,2,3,4,5,6\n" * 40)
    assert workspace.synth(where=" and ".join(f"a{n} == 9" for n in range(6))) == 0
    assert "so the table is empty" in capsys.readouterr().err
    assert rows(workspace.folder / "release" / "synthetic.csv") == []
    assert main(["verify", workspace.path("release")]) == 0


@pytest.mark.slow
def test_guide_commands_say_what_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_input(simulate_survey()[0], tmp_path)
    (wish,) = blocks(GUIDE, "toml")
    Path("wanted.toml").write_text(wish, encoding="utf-8")
    assert (
        main(["ledger", "init", "--dataset", "sample-population", "--epsilon", "9", "--delta", "1e-6"]) == 0
    )
    capsys.readouterr()
    lines = [line for block in blocks(GUIDE, "console") for line in block.splitlines()]
    for at, line in enumerate(lines):
        if not line.startswith("$ "):
            continue
        program, *words = shlex.split(line[2:])
        assert program == "populace"
        assert main(words) == 0, capsys.readouterr().err
        ends = [n for n in range(at + 1, len(lines)) if lines[n].startswith("$ ")]
        shown = lines[at + 1 : ends[0] if ends else None]
        assert matches(shown, capsys.readouterr().out.splitlines()), line
    (code,) = blocks(GUIDE, "python")
    names: dict[str, object] = {}
    exec(code, names)
    assert len(names["release"].tables) == 3
    assert re.search(r"age", str(names["release"].statement["where"]["condition"]))
