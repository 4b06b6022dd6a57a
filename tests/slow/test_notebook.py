"""The example notebook runs from its first cell to its last, and shows what it is worth looking at."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples" / "notebook.py"


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "")
    script = runpy.run_path(str(SCRIPT))
    kept = script["load"]()
    shown = [c["outputs"] for c in kept["cells"] if c["cell_type"] == "code"]
    assert all(shown), "a cell is not executed: python examples/notebook.py"
    again = script["execute"](script["load"]())
    for before, now in zip(kept["cells"], again["cells"], strict=True):
        assert [each["output_type"] for each in before.get("outputs", [])] == [
            each["output_type"] for each in now.get("outputs", [])
        ]
