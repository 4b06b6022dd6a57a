"""`populace area`: estimates for a set of units, from a release folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pytest

from populace.cli.main import main
from tests.helpers.releases import small_sample
from tests.helpers.small_geography import release_geography


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("land")
    release_geography(place / "ledger.db", frequency=True).save(place / "out", report=False)
    (place / "units.csv").write_text("county,tract\nA,2\nB,1\n")
    return place


def test_area_prints_estimates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["area", str(folder / "out"), "--units", str(folder / "units.csv")]
    assert main(words) == 0
    total = capsys.readouterr().out.splitlines()
    assert total[0].split() == ["unbiased", "margin", "low", "high", "published"]
    assert len(total) == 2
    assert main([*words, "--by", "sex, age", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["units"], found["by"], len(found["cells"])) == (2, ["sex", "age"], 6)
    assert sum(cell["published"] for cell in found["cells"]) == int(total[1].split()[-1])


def test_area_writes_a_file_once(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "area.csv"
    words = [
        "area",
        str(folder / "out"),
        "--units",
        str(folder / "units.csv"),
        "--by",
        "sex",
        "--out",
        str(out),
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert pyarrow.csv.read_csv(out).column_names[0] == "sex"
    assert main(words) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("county\nC\n", [], "no unit county 'C'"),
        ("tract\n1\n", [], "the id of several units"),
        ("county\nA\n", ["--by", "work"], "no column 'work'"),
        ("county\nA\n", ["--out", "area.xlsx"], "no table format 'xlsx'"),
        ("", [], "cannot be read as a table"),
    ],
)
def test_area_refuses_what_it_cannot_find(
    folder: Path,
    tmp_path: Path,
    content: str,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "units.csv").write_text(content)
    assert main(["area", str(folder / "out"), "--units", str(tmp_path / "units.csv"), *words]) == 2
    assert message in capsys.readouterr().err


def test_area_needs_a_release_of_a_geography(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import populace as pp

    people, schema = small_sample(households=20)
    made = pp.synthesize(people, schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "ledger.db")
    made.save(tmp_path / "out", report=False)
    for place, message in ((tmp_path / "out", "not a release of a geography"), (folder, "no manifest.json")):
        assert main(["area", str(place), "--units", str(folder / "units.csv")]) == 2
        assert message in capsys.readouterr().err


def test_area_refuses_an_altered_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    shutil.copytree(folder / "out", tmp_path / "out")
    path = tmp_path / "out" / "measurements.json"
    path.write_text(path.read_text("utf-8").replace("person", "persom"), encoding="utf-8")
    assert main(["area", str(tmp_path / "out"), "--units", str(folder / "units.csv")]) == 2
    assert "do not belong together" in capsys.readouterr().err
