"""The `populace` command: its verbs, and what each failure means to the shell."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import typer

from populace.cli.console import emit, say
from populace.cli.start import INTERRUPTED, INTERRUPTED_HINT, INTERRUPTED_MESSAGE, signal_exit_code
from populace.cli.start import run as run
from populace.core.errors import NotCompiled, OverBudget, PopulaceError, Terminated, environment_cause
from populace.core.run_state import RunState, run_state
from populace.core.version import VERSION

DONE, OUR_BUG, USAGE, ENVIRONMENT = 0, 1, 2, 4
MAX_MESSAGE_LENGTH = 1000

# With less, the libraries for numbers, tables and charts abort or hang: tests/faults/test_memory.py measures it.
MIN_BYTES, MIN_BYTES_FILES_ONLY = 2**30, 2**29
FILES_ONLY_VERBS, UNLIMITED_VERBS = ("inspect", "ledger", "schema"), ("clean",)

# Some versions of typer use click, others carry a copy of it: this is ClickException in both.
PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# In the order of the help. Each is the module of its name, with a function of that name or an `app` of several.
VERBS = (
    "demo",
    "inspect",
    "plan",
    "synth",
    "measure",
    "fit",
    "generate",
    "estimate",
    "weights",
    "split",
    "ledger",
    "verify",
    "clean",
    "schema",
)

HELP = """Publish confidential microdata with a proven differential-privacy guarantee.

    \b
    First steps:
      populace demo                                    a complete release from an invented population,
                                                       and its people.csv and schema.toml to try things on
      populace inspect people.csv --out schema.toml    a draft of a schema, from the header alone
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9    what to expect of it
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out release
      populace verify release                          check a release folder against its manifest

    \b
    The same job in three stages, each reading and writing files:
      populace measure people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out measured
      populace fit measured --out model
      populace generate model --out release

    \b
    Estimates of a survey, with sampling and privacy errors:
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml \\
        --epsilon 1 --delta 1e-9 --out estimates
      populace weights release --totals design.toml --out survey.csv    a synthetic table as a survey file

    \b
    Exit codes: 0 done · 2 bad usage, schema, file or ledger (nothing spent) · 3 refused for budget
                4 environment (disk, memory, permissions), or the data failed after the budget was booked
                130 interrupted (143 by SIGTERM) · 1 our bug
    With --json, a failure is the last line on stderr: {"error": …, "hint": …, "exit_code": …}
    """


def build_parser(verbs: Sequence[str]) -> typer.Typer:
    """Return the parser of these verbs."""
    app = typer.Typer(
        name="populace",
        help=HELP,
        add_completion=False,
        add_help_option=False,
        pretty_exceptions_enable=False,  # a pretty traceback can show private values
        rich_markup_mode=None,  # plain help starts twice as fast
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_root)
    for verb in verbs:
        module = import_module(f"populace.cli.{verb}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=verb)
        else:
            app.command(verb)(getattr(module, verb))
    return app


def _root(
    context: typer.Context,
    # Typer's own flag would load pydantic for every command, which takes as long as all the rest of --help.
    show_help: Annotated[bool, typer.Option("--help", "-h", help="Show this message and exit.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        emit(VERSION)
        raise typer.Exit
    if show_help or context.invoked_subcommand is None:
        emit(context.get_help())
        raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, what to do about it, and what the shell is told."""

    message: str
    hint: str
    code: int

    def print(self, *, as_json: bool) -> None:
        """Say it on stderr: for people on two lines, for machines as JSON on one."""
        # Bad input may be of any length, and a message repeats some of it.
        message = (
            self.message
            if len(self.message) <= MAX_MESSAGE_LENGTH
            else f"{self.message[:MAX_MESSAGE_LENGTH]} …"
        )
        told = {"error": message, "hint": self.hint, "exit_code": self.code}
        say(json.dumps(told, ensure_ascii=False) if as_json else f"error: {message}\nhint: {self.hint}")


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
            # The parsers of the other verbs would take as long to make as a small file to read.
            asked = [verb for verb in VERBS if verb in arguments[:1]]
            code = build_parser(asked or VERBS)(
                args=list(arguments), prog_name="populace", standalone_mode=False
            )
        except PopulaceError as refusal:
            if refusal.exit_code != ENVIRONMENT and (cause := environment_cause(refusal)) is not None:
                return _report_environment(cause)
            return Failure(message=refusal.message, hint=refusal.hint, code=refusal.exit_code)
        except PARSER_ERROR as mistake:
            return _report_usage(mistake)
        except (KeyboardInterrupt, Terminated, typer.Abort) as stop:
            return _report_interrupt(signal_exit_code(stop))
        except (MemoryError, OSError) as failure:
            return _report_environment(environment_cause(failure) or failure)
        except SystemExit:
            # The parser leaves in this way, and in no other, where a reader of a pipe is gone.
            return _report_environment(BrokenPipeError(errno.EPIPE, ""))
        except BaseException as failure:
            # A panic of a library in Rust is no Exception.
            cause = environment_cause(failure)
            return _report_bug(debug=debug) if cause is None else _report_environment(cause)
    if code == INTERRUPTED:
        return _report_interrupt(code)
    return code if isinstance(code, int) else DONE


def _report_interrupt(code: int) -> Failure:
    """Tell a run that a signal ended; what it had booked is booked, whichever signal it was."""
    return Failure(message=INTERRUPTED_MESSAGE, hint=INTERRUPTED_HINT, code=code)


def _explain_by_state(failure: Failure, state: RunState) -> Failure:
    """Return what a failure means where a budget is booked already: never that nothing was spent."""
    stopped = failure.message == INTERRUPTED_MESSAGE
    if state.booking is None:
        return (
            Failure(message=INTERRUPTED_MESSAGE, hint="nothing was spent", code=failure.code)
            if stopped
            else failure
        )
    told = [failure.message, f"{state.booking}."]
    hints = [] if stopped else [failure.hint]
    if state.result is not None:
        told.append(f"Nothing is lost: {state.result} is complete.")
    elif state.kept is not None:
        told.append(f"What was answered is paid for and kept in {state.kept}.")
        hints.append(state.hint)
    elif state.collect_answers():
        told.append("What was answered could not be kept: no folder could be written.")
    else:
        told.append("No question was answered by then.")
    return Failure(
        message=" ".join(told),
        hint=". Then: ".join(hints) or "`populace ledger show` tells what is left",
        code=ENVIRONMENT if failure.code in (USAGE, OverBudget.exit_code) else failure.code,
    )


def _print_warning(message: object, category: type[Warning], *_: object, **__: object) -> None:
    """Say on stderr what a warning says, if it is of the one kind that depends on no rows."""
    if issubclass(category, NotCompiled):
        say(f"note: {message}")


def _report_usage(mistake: Exception) -> int | Failure:
    """Tell what is wrong with the command line, and where its help is."""
    context = getattr(mistake, "ctx", None)
    command = context.command_path if context is not None else "populace"
    if type(mistake).__name__ == "NoArgsIsHelpError":
        say(context.get_help() if context is not None else "")
        return USAGE
    text = mistake.format_message() if hasattr(mistake, "format_message") else "the command line is wrong."
    return Failure(message=text, hint=f"`{command} --help` shows how it is used", code=USAGE)


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
    import resource

    least = MIN_BYTES_FILES_ONLY if verb in FILES_ONLY_VERBS else MIN_BYTES
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    there = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=least)
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
