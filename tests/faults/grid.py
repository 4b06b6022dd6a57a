"""The whole grid of faults, and the page that tells what each came to."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .commands import KINDS, MODES
from .injector import Job, count_calls, import_points, memory_points, points, worker

# Each import that fails is a process that loads everything from the beginning.
IMPORTS_EVERY = 12


def run_grid(*, every: int = 1, imports_every: int = IMPORTS_EVERY) -> Iterator[Job]:
    """Yield the outcome of every so manyth fault, and of all limits of memory."""
    # In memory, where there is such a place: faults take the place of a disk, and a real one takes its time.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        with worker(Path(folder)) as warm:
            yield from warm.perform(
                [*points(count_calls(warm), every=every), *memory_points(every=-(-every // 5))]
            )
        with worker(Path(folder), cold=True) as cold:
            verbs = ("synth", "measure", "estimate", "split", "ledger init")
            yield from cold.perform(import_points(cold, verbs, every=imports_every))


def table(outcomes: list[Job]) -> str:
    """Return points by outcomes: a row for each command, kind of call and way of failing."""
    kinds = (*KINDS, "memory", "import")
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    for each in outcomes:
        row = rows.setdefault((each["command"], each["kind"], each["mode"]), Counter())
        row[f"{_ending(each['code'])}, {each['state']}"] += 1
        row["wrong"] += bool(each["wrong"])
        row["points"] += 1
    ordered = sorted(
        rows.items(), key=lambda item: (item[0][0], kinds.index(item[0][1]), list(MODES).index(item[0][2]))
    )
    lines = ["| command | fault | way | points | outcomes | broken promises |", "|---|---|---|---|---|---|"]
    for (command, kind, mode), row in ordered:
        told = sorted((name, count) for name, count in row.items() if name not in ("points", "wrong"))
        ends = "; ".join(f"{count} × {name}" for name, count in told)
        lines.append(f"| `{command}` | {kind} | {mode} | {row['points']} | {ends} | {row['wrong']} |")
    return "\n".join(lines)


def _ending(code: int) -> str:
    return "killed" if code < 0 else f"exit {code}"
