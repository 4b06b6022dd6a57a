"""kill −9 at random moments of `populace synth`: never a release without its spend, never a corrupt ledger."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from populace.measurements.measurements import Measurements
from populace.privacy.ledger.ledger import Ledger
from populace.release.verify.verify import verify

pytestmark = pytest.mark.slow

KILLS = 60


def command(tmp_path, out):
    return [
        *(
            sys.executable,
            "-c",
            "from populace.cli.main import run; run()",
            "synth",
            str(tmp_path / "rows.csv"),
        ),
        *("--schema", str(tmp_path / "schema.json"), "--epsilon", "1", "--delta", "1e-6"),
        *("--method", "mst", "--ledger", str(tmp_path / "ledger.db"), "--out", str(out)),
    ]


def start(tmp_path, out):
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command(tmp_path, out), stdout=quiet, stderr=quiet, start_new_session=True)


def test_killed_runs_leave_every_release_paid_for(tmp_path):
    rng = random.Random(20)
    header = "a,b,c\n"
    (tmp_path / "rows.csv").write_text(
        header + "".join(f"{rng.randrange(4)},{rng.randrange(3)},1\n" for _ in range(300))
    )
    (tmp_path / "schema.json").write_text(json.dumps({"a": 4, "b": 3, "c": 2}))
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.open_account("rows", epsilon=1000, delta="0.5")

    begun = time.monotonic()
    assert start(tmp_path, tmp_path / "whole").wait() == 0
    whole = time.monotonic() - begun

    for number in range(KILLS):
        child = start(tmp_path, tmp_path / f"out-{number}")
        # Some moments lie past the end, so that whole releases are among what is checked.
        time.sleep(rng.random() * 1.3 * whole)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    # On a machine that has become busier, one more that is left alone until its release stands there.
    child = start(tmp_path, tmp_path / "out-last")
    while not (tmp_path / "out-last" / "manifest.json").exists() and child.poll() is None:
        time.sleep(0.01)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()

    after = Ledger.open(tmp_path / "ledger.db")
    after.verify()
    paid = {run.run for run in after.runs("rows")}
    # A run that is killed while it tries whether a folder can be made may leave it, empty.
    made = [path for path in tmp_path.glob("out-*") if path.is_dir() and any(path.iterdir())]
    kept = [path for path in made if path.name.endswith("-measured")]
    for folder in kept:
        assert Measurements.load(folder).record.run in paid
    finished = [path for path in made if path not in kept]
    for folder in finished:
        assert verify(folder).passed
        assert Measurements.load(folder).record.run in paid
    # The moments must have been spread over the run, or the test shows nothing: some before the budget was taken,
    # some between that and the release, some after it. `whole` itself is one of the runs paid for, and the last.
    assert len(paid) - 2 < KILLS, "no run was killed before it reserved its budget"
    assert len(paid) - 1 > len(finished), "no run was killed between its budget and its release"
    assert finished, "no release was left to check"
