"""Where the command starts: streams that can be written to, signals that end a run in order, then everything else.

It loads next to nothing, so that an interruption while the rest is loading is reported like any other.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from types import FrameType

from populace.core.errors import Terminated

ENVIRONMENT, INTERRUPTED = 4, 130
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# A second signal so soon after the first would only stop what the first began to clear away.
SIGNAL_GRACE_SECONDS = 5.0
# The signals that have come: a library that is interrupted while it loads may fail in words of its own.
RECEIVED_SIGNALS: list[int] = []
INTERRUPTED_MESSAGE = "interrupted."
INTERRUPTED_HINT = "what the ledger had booked by then stays spent; `populace ledger show` tells"


def run() -> None:
    """Run the command line and leave with its exit code."""
    try:
        open_streams()
        catch_signals()
        code = _run()
    except (KeyboardInterrupt, Terminated) as stop:
        code = signal_exit_code(stop)
        print(f"error: {INTERRUPTED_MESSAGE}\nhint: {INTERRUPTED_HINT}", file=sys.stderr)
    sys.exit(flush(code))


def _run() -> int:
    import gc

    # Our matrices are small: a second thread would wait, busily, more than it helps. Users can say otherwise.
    threads = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    if not any(name in os.environ for name in threads):
        os.environ.update(dict.fromkeys(threads[:2], "1"))
    if has_memory_limit():
        # Arrow's own allocator would reserve a gibibyte of address space at once, and each thread its share of it.
        for name, value in (
            ("ARROW_DEFAULT_MEMORY_POOL", "system"),
            ("ARROW_IO_THREADS", "1"),
            (threads[2], "1"),
        ):
            os.environ.setdefault(name, value)
    # Modules and tables of one command live until its end: looking for cycles among them would find none.
    gc.set_threshold(100_000, 50, 100)
    from populace.cli.main import main

    return main(sys.argv[1:])


def has_memory_limit() -> bool:
    """Say whether the address space of this process is limited."""
    try:
        import resource
    except ImportError:
        # It is not there on Windows, and cannot be loaded where there is no memory at all.
        return os.name == "posix"
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def open_streams() -> None:
    """Let stdin, stdout and stderr be there, and write what their encoding lacks in escapes.

    Without them the next file to be opened, such as a ledger, would get their number, and words of libraries with it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def catch_signals() -> None:
    """Let the signals that end a process raise in the main thread, so that nothing private is left behind.

    A signal that somebody chose to ignore, as `nohup` does, stays ignored.
    """
    last = float("-inf")

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal last
        now, before = time.monotonic(), last
        if now - before < SIGNAL_GRACE_SECONDS:
            return
        last = now
        RECEIVED_SIGNALS.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def signal_exit_code(stop: BaseException) -> int:
    """Return the exit code of a process that was stopped, as shells have it: 128 and the number of the signal.

    >>> signal_exit_code(KeyboardInterrupt()), signal_exit_code(Terminated(15))
    (130, 143)
    """
    return 128 + stop.number if isinstance(stop, Terminated) else INTERRUPTED


def flush(code: int) -> int:
    """Write what is left for stdout, and return the exit code: a result that nobody received is a failure."""
    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        # Python flushes once more at its end; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return code or ENVIRONMENT
    return code
