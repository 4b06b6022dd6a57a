"""Faults at sampled points, and at all of them: the ledger never under-reports, and what was paid for is found."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import pytest

from .commands import COMMANDS, KINDS
from .grid import run_grid
from .injector import count_calls, memory_points, points, worker

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="needs a loader that takes libraries first, and a compiler to make one",
)
SAMPLED = 45


@pytest.mark.slow
def test_sampled_faults_break_no_promise(tmp_path: Path) -> None:
    with worker(tmp_path) as warm:
        calls = count_calls(warm, ("synth", "measure", "estimate", "split", "ledger init"))
        grid = points(calls)
        ends = [
            job
            for job in grid
            if job["mode"] == "once" and job["n"] == calls[str(job["command"])][str(job["kind"])]
        ]
        jobs = [*grid[:: -(-len(grid) // SAMPLED)], *ends, *memory_points(every=23)]
        outcomes = list(warm.perform(jobs))
    assert [each for each in outcomes if each["wrong"]] == []
    # Spread over the run, or it shows nothing: some before the budget was taken, some after it, some after the end.
    assert {"nothing reserved", "kept", "result whole"} <= {each["state"] for each in outcomes}
    assert {0, 4, 143, -9} <= {each["code"] for each in outcomes}


@pytest.mark.full
def test_no_fault_at_any_point_breaks_a_promise() -> None:
    outcomes = list(run_grid())
    script = runpy.run_path(str(ROOT / "docs" / "reference" / "faults.py"))
    script["PAGE"].write_text(script["page"](outcomes, every=1), encoding="utf-8")
    assert [each for each in outcomes if each["wrong"]] == []


def test_the_page_tells_of_every_command_and_kind() -> None:
    page = (ROOT / "docs" / "reference" / "faults.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} == set(COMMANDS)
    assert {row[1] for row in rows} == {*KINDS, "memory", "import"}
    assert all(row[-1].strip(" |") == "0" for row in rows), "a promise was broken when the page was written"
