"""What every verb shares: where words and texts go, and how progress looks."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from populace.core.errors import ResourceError, UsageError
from populace.core.progress import Progress, silent

BAR_DELAY_SECONDS = 2.0  # seconds of work before a progress bar appears


# What moves the cursor, changes the terminal or turns the direction of text; tabs and ends of lines do no harm.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def say(text: str) -> None:
    """Tell the person at the terminal something; never data. Words that nobody can hear are no error."""
    # A run that is paid for must not fail because its terminal is gone or the log of its job is full.
    with contextlib.suppress(OSError, ValueError):
        _print(text, sys.stderr)


def is_interactive() -> bool:
    """Say whether somebody can be asked: both what is said and what is answered go through a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def confirm(question: str) -> bool:
    """Ask on the terminal, and return whether the answer was yes; no answer is a no."""
    say(f"{question} [y/N]")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def emit(text: str) -> None:
    """Write a result to stdout. A reader that left early, such as `head`, is no error."""
    try:
        _print(text, sys.stdout)
    except BrokenPipeError:
        # Python flushes stdout once more at exit; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str, stream: TextIO | None) -> None:
    if stream is not None:
        print(escape_unprintable(text, encoding=getattr(stream, "encoding", None)), file=stream, flush=True)


def escape_unprintable(text: str, *, encoding: str | None = None) -> str:
    r"""Return a text that no terminal takes for a command, in characters that an encoding has.

    Escapes are those of JSON, which stays JSON by them.

    >>> escape_unprintable("a\x1b[2J name"), escape_unprintable("ε ≤ 1", encoding="ascii")
    ('a\\u001b[2J name', '\\u03b5 \\u2264 1')
    """
    encoding = encoding or "utf-8"
    safe = _UNSAFE.sub(lambda found: json.dumps(found.group())[1:-1], text)
    return safe.encode(encoding, _ESCAPES).decode(encoding)


def _escape_unencodable(failure: UnicodeError) -> tuple[str, int]:
    if not isinstance(failure, UnicodeEncodeError):
        raise failure
    return json.dumps(failure.object[failure.start : failure.end])[1:-1], failure.end


_ESCAPES = "populace-escapes"
codecs.register_error(_ESCAPES, _escape_unencodable)


def emit_json(value: Any) -> None:
    """Write a result to stdout for a machine to read."""
    emit(json.dumps(value, indent=2, ensure_ascii=False))


def emit_result(result: Mapping[str, Any], *, json: bool) -> None:
    """Write what a verb made to stdout: all of it for a machine, or the path that stands first."""
    if json:
        emit_json(result)
    else:
        emit(str(next(iter(result.values()))))


def save_text(text: str, out: Path) -> None:
    """Write a text to a file that is not there yet or is empty, or to stdout where the file is `-`.

    Somebody may have worked on another one: it is never replaced.
    """
    if str(out) == "-":
        emit(text.rstrip("\n"))
        return
    try:
        if out.exists() and (not out.is_file() or out.stat().st_size > 0):
            raise UsageError(
                f"{str(out)!r} exists already, and somebody may have worked on it.",
                hint="remove it, or give --out another name",
            )
        out.write_text(text, encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no folder {str(out.parent)!r}.", hint="make it first") from None
    except ValueError:
        raise UsageError("the path in --out is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"{str(out)!r} cannot be written: {error.strerror}.", hint="give --out a file you may write"
        ) from None


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Yield a function `progress(stage, done)` that draws a bar on a terminal when the work takes long.

    Nothing is drawn before two seconds have passed or when stderr is not a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return
    bar = _Bar()
    clock = threading.Timer(BAR_DELAY_SECONDS, bar.show)
    clock.daemon = True
    clock.start()
    try:
        yield bar.move
    finally:
        clock.cancel()
        bar.hide()


class _Bar:
    """A progress bar that remembers where it is until the clock shows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stage, self._done = "working", 0.0
        self._drawn: Any = None
        self._ended = False

    def move(self, stage: str, done: float) -> None:
        with self._lock:
            self._stage, self._done = stage, done
            if self._drawn is not None:
                self._drawn.update(self._drawn.task_ids[0], description=stage, completed=done)

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Drawing

        with self._lock:
            if self._ended:
                return
            self._drawn = Drawing(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._drawn.add_task(self._stage, total=1.0, completed=self._done)
            self._drawn.start()

    def hide(self) -> None:
        with self._lock:
            self._ended = True
            if self._drawn is not None:
                self._drawn.stop()
