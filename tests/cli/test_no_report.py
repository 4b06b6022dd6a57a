"""Releases without a report, and the command line without pandas."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.cli.main import main
from tests.cli.workspace import Workspace

WATCHED = """
import atexit, sys
from populace.cli.main import run
atexit.register(lambda: print("pandas" in sys.modules, "pyarrow" in sys.modules, file=sys.stderr))
run()
"""


@pytest.mark.slow
def test_a_release_without_report_verifies_and_is_quick(workspace: Workspace) -> None:
    """In a process of its own, as users have it: pandas is installed here and must not be loaded for plain numbers."""
    pq.write_table(pa.table({"sex": [0, 1] * 50, "age": [*range(10)] * 10}), "people.parquet")
    workspace.write("domain.json", '{"sex": 2, "age": 10}')
    words = ["synth", "people.parquet", "--schema", "domain.json", "--epsilon", "1", "--delta", "1e-6"]
    words += ["--method", "independent", "--ledger", "ledger.db", "--out", "release", "--no-report"]
    done = subprocess.run([sys.executable, "-c", WATCHED, *words], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False True"
    manifest = json.loads((workspace.folder / "release" / "manifest.json").read_text("utf-8"))
    assert "report.html" not in manifest["files"]
    assert "statement.md" in manifest["files"]
    assert main(["verify", "release"]) == 0
    assert main(["generate", "release", "--out", "again", "--no-report"]) == 0
    assert not (workspace.folder / "again" / "report.html").exists()
