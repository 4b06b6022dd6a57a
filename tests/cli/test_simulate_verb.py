"""populace simulate on the command line."""

from __future__ import annotations

import json

import pytest

from populace.cli.main import main
from tests.helpers.small_studies import write_study


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """Draw no charts: they take longer than the runs."""
    monkeypatch.setattr("populace.studies.simulate.render_study", lambda document: document["title"])


@pytest.mark.slow
def test_a_study_runs_and_says_where_noise_falls_below_sampling(tmp_path, capsys):
    path, out = str(write_study(tmp_path)), str(tmp_path / "out")
    words = ["--seeds", "2", "--workers", "1", "--ledger", str(tmp_path / "l.db")]
    assert main(["simulate", path, "--out", out, *words]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == out
    assert "women by plain: privacy noise" in said.err
    assert main(["simulate", path, "--out", out, "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 4


def test_a_private_file_is_noted(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("sex\n" + "female\nmale\n" * 30)
    (tmp_path / "schema.toml").write_text(
        '[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n'
    )
    path = write_study(tmp_path, truth='[truth]\nfile = "people.csv"\nschema = "schema.toml"\n')
    words = ["--seeds", "1", "--workers", "1", "--ledger", str(tmp_path / "l.db")]
    assert main(["simulate", str(path), "--out", str(tmp_path / "out"), *words]) == 0
    assert "note: INTERNAL" in capsys.readouterr().err


def test_a_wrong_study_is_a_usage_error(tmp_path, capsys):
    assert main(["simulate", str(tmp_path / "none.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "there is no study file" in capsys.readouterr().err
