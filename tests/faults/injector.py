"""Faults by the dozen: a worker that forks for each, and the points at which they strike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .commands import COMMANDS, KINDS, MODES
from .templates import prepare

ROOT = Path(__file__).parents[2]
Job = dict[str, Any]


class Worker:
    """Runs jobs in a process of its own and returns what they came to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def perform(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield the outcome of each job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for job in jobs:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            yield json.loads(self._process.stdout.readline())


@contextmanager
def worker(folder: Path, *, cold: bool = False) -> Iterator[Worker]:
    """Yield a worker with templates of every command in a folder."""
    shim = folder / "shim.so"
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"], check=True)
    if not (folder / "templates").exists():
        prepare(folder / "templates")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.worker", str(folder), *(["cold"] if cold else [])],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(timeout=120)
        process.stdout.close()


def count_calls(server: Worker, commands: Sequence[str] = tuple(COMMANDS)) -> dict[str, dict[str, int]]:
    """Return how often each command makes calls of each kind where nothing fails."""
    jobs = [{"command": command, "kind": "", "n": 0, "mode": "once"} for command in commands]
    found = {}
    for outcome in server.perform(jobs):
        if outcome["code"] or outcome["wrong"]:
            raise AssertionError(f"{outcome['command']} fails without a fault: {outcome}")
        found[outcome["command"]] = outcome["calls"]
    return found


def points(
    calls: dict[str, dict[str, int]], *, every: int = 1, modes: Sequence[str] = tuple(MODES)
) -> list[Job]:
    """Return a fault for each call of each kind by each command, or for every so manyth of each."""
    return [
        {"command": command, "kind": kind, "n": n, "mode": mode}
        for command, made in calls.items()
        for kind in KINDS
        for place, mode in enumerate(modes)
        # Each way of failing begins elsewhere, so that together they meet more calls.
        for n in range(1 + place * made[kind] // len(modes) % every, made[kind] + 1, every)
    ]


MEMORY = [n * 2**20 for n in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)]
# Packages whose modules are large or load libraries of their own.
HEAVY = (
    "populace",
    "numpy",
    "scipy",
    "pyarrow",
    "flint",
    "cryptography",
    "sqlite3",
    "narwhals",
    "jinja2",
    "vl_convert",
)


def memory_points(*, every: int = 1) -> list[Job]:
    """Return a ladder of memory that is left to each command."""
    jobs = [
        {"command": command, "kind": "memory", "n": n, "mode": "once"} for command in COMMANDS for n in MEMORY
    ]
    return jobs[::every]


def import_points(cold: Worker, commands: Sequence[str], *, every: int = 1) -> list[Job]:
    """Return a failing import for every so manyth module that a command loads, of those that may well fail."""
    found = []
    for outcome in cold.perform({"command": each, "kind": "", "n": 0, "mode": "once"} for each in commands):
        loaded = enumerate(outcome["imports"], start=1)
        numbers = [number for number, name in loaded if name.partition(".")[0] in HEAVY]
        found += [
            {"command": outcome["command"], "kind": "import", "n": number, "mode": "once"}
            for number in numbers[::every]
        ]
    return found
