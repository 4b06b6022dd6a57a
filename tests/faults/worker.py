"""A process that loads everything once and forks for every fault: `python -m tests.faults.worker FOLDER [cold]`.

Jobs come as JSON lines on stdin, outcomes leave as JSON lines on stdout. A cold worker loads next to nothing, so that
each import happens, and can fail, in the child.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from populace.cli import start
from populace.core import run_state
from populace.core.run_state import RunState

from .commands import COMMANDS, KINDS, MODES

SHIM = ctypes.CDLL(None)
SECONDS = 60.0
FAILURES = {"write": errno.ENOSPC, "create": errno.ENOSPC, "mkdir": errno.ENOSPC}


class Imports:
    """Counts modules that are looked for, and lets one of them fail as it does when there is no memory to map it."""

    def __init__(self, *, n: int) -> None:
        self._n = n
        self.seen: list[str] = []

    def find_spec(self, fullname: str, *_: object) -> None:
        self.seen.append(fullname)
        if len(self.seen) == self._n:
            raise ImportError(f"{fullname}.so: failed to map segment from shared object")


def leave(code: int) -> NoReturn:
    """End a child as the interpreter would: what was registered for the end runs, and streams are flushed."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code)


def forked(work: Callable[[], None], *, folder: Path, name: str) -> int:
    """Run work in a child of its own, and return its exit code, or minus the number of the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(folder)
            for number in (1, 2):
                kept = os.open(f"{name}.{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(kept, number)
                os.close(kept)
            work()
        except SystemExit as end:
            leave(end.code if isinstance(end.code, int) else int(end.code is not None))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(99)
        os._exit(0)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 124


def run(words: Sequence[str], *, folder: Path, kind: str, n: int, mode: str) -> None:
    """Run a command in this process, with its fault, and leave."""
    for name in ("TMPDIR", "XDG_STATE_HOME"):
        os.environ[name] = str(folder / "elsewhere")
    tempfile.tempdir = None
    imports = Imports(n=n if kind == "import" else 0)
    states: list[RunState] = []

    def count() -> None:
        SHIM.fault_disarm()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        calls = {each: SHIM.fault_count(number) for number, each in enumerate(KINDS)}
        # Asked with the fault gone: only the worker can tell what a run knew.
        answered = any(state.collect_answers() for state in states)
        told = {"calls": calls, "imports": imports.seen, "answered": answered}
        (folder / "counts.json").write_text(json.dumps(told))

    class Watched(RunState):
        def __init__(self) -> None:
            super().__init__()
            states.append(self)

    run_state.RunState = Watched  # type: ignore[misc]

    atexit.register(count)
    sys.argv = ["populace", *words]
    if kind == "memory":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + n
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    if kind == "import" or not kind:
        sys.meta_path.insert(0, imports)  # type: ignore[arg-type]
    number = KINDS.index(kind) if kind in KINDS else -1
    SHIM.fault_arm(number, ctypes.c_long(n), MODES[mode], FAILURES.get(kind, errno.EIO))
    start.run()


def perform(job: dict[str, object], base: Path, *, number: int) -> dict[str, object]:
    """Run a command with a fault in files of its own, then look at what it left; each in a child."""
    command, kind, n = str(job["command"]), str(job["kind"]), int(str(job["n"]))
    mode = str(job["mode"])
    folder = base / f"job-{number}"
    shutil.copytree(base / "templates" / command, folder)
    (folder / "elsewhere").mkdir()
    begun = time.monotonic()
    code = forked(
        lambda: run(COMMANDS[command], folder=folder, kind=kind, n=n, mode=mode), folder=folder, name="run"
    )
    outcome = {**job, "code": code, "seconds": time.monotonic() - begun, "told": _text(folder / "run.2")}
    counts = folder / "counts.json"
    outcome |= json.loads(counts.read_text()) if counts.exists() else {}

    def look() -> None:
        imports = Imports(n=0)
        sys.meta_path.insert(0, imports)  # type: ignore[arg-type]
        from .state import look_at

        found = look_at(
            folder,
            command=command,
            code=code,
            mode=mode,
            told=str(outcome["told"]),
            answered=bool(outcome.get("answered")),
        )
        (folder / "state.json").write_text(json.dumps({**found, "looked": imports.seen}))

    looked = forked(look, folder=folder, name="look")
    if looked:
        outcome |= {"state": "unknown", "wrong": [f"looking failed: {_text(folder / 'look.2')[-2000:]}"]}
    else:
        outcome |= json.loads((folder / "state.json").read_text())
    if not os.environ.get("POPULACE_KEEP_FAULTS"):
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def warm(base: Path) -> None:
    """Import here what each command imports, so that no child has to; work that could start threads is left to them."""
    names: dict[str, None] = {}
    for command in COMMANDS:
        outcome = perform({"command": command, "kind": "", "n": 0, "mode": "once"}, base, number=0)
        if outcome["code"] or outcome["wrong"]:
            raise SystemExit(f"{command} fails without a fault: {outcome}")
        names |= dict.fromkeys([*outcome["imports"], *outcome["looked"]])  # type: ignore[misc]
    for name in names:
        with suppress(BaseException):
            importlib.import_module(name)


def main() -> None:
    """Serve jobs until stdin ends."""
    base = Path(sys.argv[1])
    if "cold" in sys.argv:
        importlib.import_module("populace.cli.main")
    else:
        warm(base)
    # What is shared with children stays shared: a collection there would copy all of it.
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for number, line in enumerate(sys.stdin):
        answers.write(json.dumps(perform(json.loads(line), base, number=number)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
