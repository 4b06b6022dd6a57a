"""Every way to fail has its exit code, one message with a hint, and no data in it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.core import errors
from populace.schema.schema import Schema

CANARY = "canary-4711"


def failing_with(monkeypatch: pytest.MonkeyPatch, failure: BaseException, *options: str) -> int:
    """Run a command whose work ends in this failure."""

    def load(path: object) -> Schema:
        raise failure

    monkeypatch.setattr(Schema, "load", load)
    return main(["schema", "check", "schema.toml", *options])


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.UsageError("no.", hint="do"), 2),
        (errors.SchemaError("no.", hint="do"), 2),
        (errors.DataError("no.", hint="do"), 2),
        (errors.LedgerError("no.", hint="do"), 2),
        (errors.ReleaseError("no.", hint="do"), 2),
        (errors.OverBudget("no.", hint="do"), 3),
        (errors.ResourceError("no.", hint="do"), 4),
        (MemoryError(CANARY), 4),
        (OSError(errno.ENOSPC, CANARY), 4),
        (PermissionError(errno.EACCES, CANARY), 4),
        (KeyboardInterrupt(), 130),
        (ValueError(CANARY), 1),
        (KeyError(CANARY), 1),
        (AssertionError(CANARY), 1),
    ],
)
def test_failure_has_its_exit_code_and_no_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: BaseException, code: int
) -> None:
    assert failing_with(monkeypatch, failure) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert CANARY not in err
    assert "Traceback" not in err
    assert err.startswith("error: ")
    assert err.count("\nhint: ") == 1
    assert failing_with(monkeypatch, failure, "--json") == code
    out, err = capsys.readouterr()
    assert out == ""
    told = json.loads(err)
    assert list(told) == ["error", "hint", "exit_code"]
    assert told["exit_code"] == code


def test_every_error_class_is_mapped() -> None:
    classes = [
        c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.PopulaceError)
    ]
    assert {c.__name__: c.exit_code for c in classes} == {
        "PopulaceError": 1,
        "UsageError": 2,
        "SchemaError": 2,
        "DataError": 2,
        "LedgerError": 2,
        "ReleaseError": 2,
        "OverBudget": 3,
        "ResourceError": 4,
        "InternalError": 1,
    }


def test_our_bug_shows_details_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POPULACE_DEBUG", "1")
    assert failing_with(monkeypatch, ValueError(CANARY)) == 1
    err = capsys.readouterr().err
    assert CANARY in err
    assert "may hold private values" in err.splitlines()[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["none-such"],
        ["synth"],
        ["synth", "data.csv"],
        ["synth", "--none-such"],
        ["verify", "a", "b"],
        ["generate", "model", "--out", "x", "--rows", "many"],
        ["generate", "model", "--out", "x", "--seed", "-1"],
        ["ledger", "init", "--dataset", "d"],
    ],
)
def test_usage_mistake_exits_2_with_a_hint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "--help" in err.splitlines()[-1]


def test_warnings_of_libraries_are_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(path: object) -> Schema:
        import warnings

        warnings.warn(CANARY, RuntimeWarning, stacklevel=1)
        raise errors.SchemaError("no.", hint="do")

    monkeypatch.setattr(Schema, "load", load)
    assert main(["schema", "check", "schema.toml"]) == 2
    assert CANARY not in capsys.readouterr().err


def test_interrupt_leaves_with_130(tmp_path: Path) -> None:
    """A real Ctrl-C, while the command waits for a file that never ends."""
    fifo = tmp_path / "schema.toml"
    os.mkfifo(fifo)
    code = "from populace.cli.main import run; print('up', flush=True); run()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "schema", "check", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process.stdout.readline()
        with fifo.open("w"):  # returns when the command has opened the file
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
