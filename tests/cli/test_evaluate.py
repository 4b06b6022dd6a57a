"""populace evaluate: two files and a schema in, scores and a page out, and a warning that they are internal."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pacsv
import pytest

from populace.cli.main import main
from tests.evaluation.test_score_files import SCHEMA, people


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    pacsv.write_csv(people(200, 1), tmp_path / "real.csv")
    pacsv.write_csv(people(150, 2), tmp_path / "synthetic.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    return [
        "evaluate",
        *(str(tmp_path / n) for n in ("real.csv", "synthetic.csv")),
        "--schema",
        str(tmp_path / "schema.toml"),
    ]


@pytest.mark.slow
def test_scores_are_written_and_said_to_be_internal(files, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    assert (
        main(
            [
                *files,
                "--out",
                str(out),
                "--area",
                "AREA",
                "--subgroup",
                "SEX",
                "--weights",
                "WEIGHT",
                "--json",
            ]
        )
        == 0
    )
    shown = capsys.readouterr()
    assert "INTERNAL" in shown.err
    printed, written = json.loads(shown.out), json.loads((out / "scores.json").read_text("utf-8"))
    assert printed["evaluation"] == str(out)
    assert printed["tv_pairs"] == written["tv_pairs"]
    assert set(written["tv_pairs"]) >= {"value", "interval", "direction"}
    assert {"k_marginal_areas", "tv_pairs_weighted"} <= set(written)
    assert "INTERNAL" in (out / "evaluation.html").read_text("utf-8")


def test_people_get_a_line_for_each_score_and_the_folder_last(files, tmp_path: Path, capsys) -> None:
    assert main([*files, "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "out")
    assert lines[0].split()[0] == "tv_columns"
    assert all("is better" in line for line in lines[:-1])


def test_nothing_is_read_for_a_folder_inside_a_release(files, tmp_path: Path, capsys) -> None:
    for name in ("manifest.json", "statement.json"):
        (tmp_path / name).write_text("{}")
    assert main([*files, "--out", str(tmp_path / "out")]) == 2
    assert "lies in the release folder" in capsys.readouterr().err
