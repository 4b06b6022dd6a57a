"""kill −9 at random moments of `populace simulate`: it goes on where it stopped, and no run is lost or done twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from populace.studies.simulate import simulate
from tests.helpers.small_studies import METHOD, write_study

pytestmark = pytest.mark.slow

KILLS, SEEDS = 6, 40


def start(path, out):
    words = [sys.executable, "-c", "from populace.cli.main import run; run()", "simulate", str(path)]
    words += ["--out", str(out), "--seeds", str(SEEDS)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)


def list_parts(out):
    """Return the parts on disk, and what each holds."""
    return {path.name: path.read_bytes() for path in (out / "parts").glob("[0-9]*.parquet")}


def test_a_killed_study_goes_on_without_losing_or_repeating_a_run(tmp_path):
    rng = random.Random(4)
    methods = METHOD + METHOD.replace("plain", "half") + "share = 0.5\n"
    path, out = write_study(tmp_path, methods=methods), tmp_path / "out"
    kept: dict[str, bytes] = {}
    kills = 0
    while kills < KILLS:
        child = start(path, out)
        # A slow machine takes long to begin: some runs are finished before the blow falls.
        limit = time.monotonic() + 120
        while child.poll() is None and len(list_parts(out)) <= len(kept) and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.4 * rng.random())
        if child.poll() is not None:
            break
        # The command alone on even numbers: its workers see that they are alone, and stop by themselves.
        if kills % 2:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
        child.wait()
        kills += 1
        time.sleep(3.0)
        found = list_parts(out)
        # What was finished is as it was: a part that was made again would have another time in it.
        assert {name: found.get(name) for name in kept} == kept
        kept = found
    assert start(path, out).wait() == 0
    assert kills > 0
    assert kept
    table = pq.read_table(out / "results.parquet")
    whole = simulate(path, tmp_path / "whole", seeds=SEEDS, workers=1).table
    columns = [
        "run",
        "method",
        "epsilon",
        "seed",
        "query",
        "truth",
        "estimate",
        "low",
        "high",
        "sampling_only",
    ]
    assert table.select(columns).equals(whole.select(columns))
    assert table.num_rows == SEEDS * 2 * 2
    # Rows of parts that survived the kills are in the result with the costs that they were measured with.
    costs = set(table["cpu_seconds"].to_pylist())
    for name in kept:
        (tmp_path / name).write_bytes(kept[name])
        assert set(pq.read_table(tmp_path / name)["cpu_seconds"].to_pylist()) <= costs
