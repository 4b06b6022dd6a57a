"""The `populace` command: its verbs, and what each failure means to the shell."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from populace.cli.command import (
    HELP_FLAGS,
    Command,
    Group,
    VerbMissing,
    refuse_word,
    render_help,
    summarize,
)
from populace.cli.console import emit, say
from populace.cli.start import INTERRUPTED_HINT, INTERRUPTED_MESSAGE, RECEIVED_SIGNALS, signal_exit_code
from populace.cli.start import run as run
from populace.core.errors import NotCompiled, OverBudget, PopulaceError, Terminated, environment_cause
from populace.core.run_state import RunState, run_state
from populace.core.version import VERSION

DONE, OUR_BUG, USAGE, ENVIRONMENT = 0, 1, 2, 4
MAX_MESSAGE_LENGTH = 1000

# With less, the libraries for numbers, tables and charts abort or hang: tests/faults/test_memory.py measures it.
MIN_BYTES, MIN_BYTES_FILES_ONLY = 2**30, 2**29
FILES_ONLY_VERBS, UNLIMITED_VERBS = ("inspect", "ledger", "schema"), ("clean",)

# In the order of the help. Each is the module of its name, with a command or a group of that name.
VERBS = (
    "demo",
    "inspect",
    "plan",
    "synth",
    "measure",
    "fit",
    "generate",
    "estimate",
    "check",
    "disclosure",
    "weights",
    "simulate",
    "area",
    "smallarea",
    "codebook",
    "evaluate",
    "split",
    "ledger",
    "verify",
    "clean",
    "schema",
)

INTRODUCTION = """Publish confidential microdata with a proven differential-privacy guarantee.

First steps:
  populace demo                                    a complete release from an invented population
  populace inspect people.csv --out schema.toml    a draft of a schema, from the header alone
  populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9
  populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out release
  populace verify release                          check a release folder against its manifest

The same job in three stages, each reading and writing files:
  populace measure people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out measured
  populace fit measured --out model
  populace generate model --out release

Exit codes:
  0 done · 2 bad usage, schema, file or ledger (nothing spent) · 3 refused for budget · 1 our bug
  4 environment (disk, memory, permissions), or the data failed after the budget was reserved
  130 interrupted (143 by SIGTERM). With --json, a failure is the last line on stderr:
  {"error": …, "hint": …, "exit_code": …}"""


def load_command(verb: str) -> Command | Group:
    """Return a verb; the others are not loaded."""
    found: Command | Group = getattr(import_module(f"populace.cli.{verb}"), verb)
    return found


def run_command(arguments: Sequence[str]) -> None:
    """Run the verb that is named first."""
    verb, *rest = arguments or ["--help"]
    if verb == "--version":
        emit(VERSION)
    elif verb in HELP_FLAGS:
        verbs = [(each, summarize(load_command(each).doc)) for each in VERBS]
        options = [("--version", "Print the version."), ("-h, --help", "Show this page, or that of a verb.")]
        emit(render_help("populace COMMAND …", INTRODUCTION, [("Commands", verbs), ("Options", options)]))
    elif verb not in VERBS:
        raise refuse_word(verb, VERBS, path="populace")
    elif (page := load_command(verb)(rest, path=f"populace {verb}")) is not None:
        emit(page)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, what to do about it, and its exit code."""

    message: str
    hint: str
    code: int

    def print(self, *, as_json: bool) -> None:
        """Say it on stderr: for people on two lines, for machines as JSON on one."""
        # Bad input may be of any length, and a message repeats some of it.
        message = self.message[:MAX_MESSAGE_LENGTH]
        if message != self.message:
            message += " …"
        parts = {"error": message, "hint": self.hint, "exit_code": self.code}
        say(json.dumps(parts, ensure_ascii=False) if as_json else f"error: {message}\nhint: {self.hint}")


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every way to fail ends here, in words without data."""
    if list(arguments[:1]) == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    with run_state() as state:
        ended = _check_memory_limit(arguments) or _run(arguments)
    if isinstance(ended, int):
        return ended
    ended = _explain_by_state(ended, state)
    ended.print(as_json="--json" in arguments)
    return ended.code


def _run(arguments: Sequence[str]) -> int | Failure:
    debug = os.environ.get("POPULACE_DEBUG") == "1"
    with warnings.catch_warnings():
        if not debug:
            # Whether a library warns, and what it says, may depend on private rows.
            warnings.simplefilter("ignore")
            # This one depends on the installation alone.
            warnings.simplefilter("once", NotCompiled)
            warnings.showwarning = _print_warning
        try:
            run_command(arguments)
        except VerbMissing as page:
            say(page.message)
            return USAGE
        except PopulaceError as refusal:
            if refusal.exit_code != ENVIRONMENT and (cause := environment_cause(refusal)) is not None:
                return _report_environment(cause)
            return Failure(message=refusal.message, hint=refusal.hint, code=refusal.exit_code)
        except (MemoryError, OSError) as failure:
            return _report_environment(environment_cause(failure) or failure)
        except BaseException as failure:
            if (signalled := _find_interrupt(failure)) is not None:
                # What it had booked is booked, whichever signal it was.
                code = signal_exit_code(signalled)
                return Failure(message=INTERRUPTED_MESSAGE, hint=INTERRUPTED_HINT, code=code)
            # A panic of a library in Rust is no Exception.
            cause = environment_cause(failure)
            return _report_bug(debug=debug) if cause is None else _report_environment(cause)
    return DONE


def _find_interrupt(failure: BaseException | None) -> BaseException | None:
    """Return the signal behind a failure: a library that is interrupted while it loads fails in words of its own."""
    while failure is not None and not isinstance(failure, KeyboardInterrupt | Terminated):
        failure = failure.__cause__ or failure.__context__
    if failure is None and RECEIVED_SIGNALS:
        return Terminated(RECEIVED_SIGNALS[-1])
    return failure


def _explain_by_state(failure: Failure, state: RunState) -> Failure:
    """Return what a failure means where a budget is booked already: never that nothing was spent."""
    stopped = failure.message == INTERRUPTED_MESSAGE
    if state.booking is None:
        return replace(failure, hint="nothing was spent") if stopped else failure
    parts = [failure.message, f"{state.booking}."]
    hints = [] if stopped else [failure.hint]
    if state.result is not None:
        parts.append(f"Nothing is lost: {state.result} is complete.")
    elif state.kept is not None:
        parts.append(f"What was answered is paid for and kept in {state.kept}.")
        hints.append(state.hint)
    elif state.collect_answers():
        parts.append("What was answered could not be kept: no folder could be written.")
    else:
        parts.append("No question was answered by then.")
    return Failure(
        message=" ".join(parts),
        hint=". Then: ".join(hints) or "`populace ledger show` tells what is left",
        code=ENVIRONMENT if failure.code in (USAGE, OverBudget.exit_code) else failure.code,
    )


def _print_warning(message: object, category: type[Warning], *_: object, **__: object) -> None:
    """Say on stderr what a warning says, if it is of the one kind that depends on no rows."""
    if issubclass(category, NotCompiled):
        say(f"note: {message}")


def _report_environment(failure: MemoryError | OSError) -> Failure:
    if isinstance(failure, MemoryError) or failure.errno == errno.ENOMEM:
        return Failure(
            message="there is not enough memory.",
            hint="free some, use a larger machine, or coarsen the columns with the most values",
            code=ENVIRONMENT,
        )
    reason = os.strerror(failure.errno).lower() if failure.errno else "a file could not be read or written"
    where = f" ({failure.filename})" if isinstance(failure.filename, str) else ""
    return Failure(
        message=f"the system refused: {reason}{where}.",
        hint="check the free space and the permissions of the folders in the command",
        code=ENVIRONMENT,
    )


def _check_memory_limit(arguments: Sequence[str]) -> Failure | None:
    """Refuse an address space in which libraries under us would end the process or wait for ever, before they load."""
    verb = next(iter(arguments), "")
    if verb not in VERBS or verb in UNLIMITED_VERBS or "--help" in arguments or "-h" in arguments:
        return None
    from populace.core.memory_limit import process_limits

    least = MIN_BYTES_FILES_ONLY if verb in FILES_ONLY_VERBS else MIN_BYTES
    there = min(process_limits(), default=least)
    if there >= least:
        return None
    return Failure(
        message=f"this process may use {there >> 20} MiB of memory; `populace {verb}` needs {least >> 20} at least.",
        hint="raise the limit (`ulimit -v` shows it in KiB), or run it where there is none",
        code=ENVIRONMENT,
    )


def _report_bug(*, debug: bool) -> Failure:
    """Say that it is our fault and nothing else: the exception's text may hold private values."""
    if debug:
        import traceback

        say("POPULACE_DEBUG=1: the lines below may hold private values. Do not share them.")
        traceback.print_exc()
    return Failure(
        message="something went wrong inside populace. This is a bug, and what was charged stays charged.",
        hint="report the command you ran; POPULACE_DEBUG=1 shows details, which may hold private values",
        code=OUR_BUG,
    )
