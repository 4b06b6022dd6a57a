"""A whole run on a wide table keeps its memory small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from populace.cli.main import main

WIDE, ROWS, MOST_MIB = 600, 400, 1024


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table of 600 columns of 4 codes, and the words of a run on it without a method."""
    monkeypatch.chdir(tmp_path)
    names = [f"q{number}" for number in range(WIDE)]
    codes = np.random.default_rng(1).integers(0, 4, (ROWS, WIDE))
    pyarrow.csv.write_csv(pa.table(dict(zip(names, codes.T, strict=True))), "wide.csv")
    Path("wide.json").write_text(json.dumps(dict.fromkeys(names, 4)))
    spend = ["--epsilon", "1", "--delta", "1e-9", "--ledger", "wide.db", "--out", "release"]
    return ["synth", "wide.csv", "--schema", "wide.json", *spend]


@pytest.mark.slow
def test_a_wide_table_takes_little_memory(words: list[str]) -> None:
    """All pairs and triples of 600 columns, in lists, took four times as much before the first question."""
    process = subprocess.Popen([sys.executable, "-m", "populace", *words, "--method", "mst"])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss < MOST_MIB * 1024
    assert main(["verify", "release"]) == 0


def test_what_looks_at_all_pairs_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--method", "auto"]) == 2
    assert "512 is the most" in capsys.readouterr().err
    assert not Path("wide.db").exists()
