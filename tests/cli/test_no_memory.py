"""Too little memory is told as that: never as our bug, a damaged file or an altered release, and before it costs."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.cli import main as command
from populace.cli import start
from populace.cli.main import VERBS, main
from populace.core.errors import DataError, ReleaseError, ResourceError, environment_cause
from populace.private.capacity import check_free_memory
from populace.private.redact import redact_open_errors, redact_row_errors
from populace.release.verify.checks import run_check
from tests.cli.workspace import Workspace

LOADER = "/lib/libarrow.so: failed to map segment from shared object"


@pytest.mark.parametrize(
    "failure",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        OSError(12, "Cannot allocate memory"),
        OSError(5, "Input/output error"),
        ImportError(LOADER),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_failure_of_the_machine_is_exit_4_whatever_it_is_wrapped_in(
    failure: Exception,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wrapped(*_: object) -> None:
        raise ReleaseError("model.json was altered.", hint="ask") from failure

    def bare(*_: object) -> None:
        raise failure

    for fail in (bare, wrapped):
        monkeypatch.setattr("populace.schema.schema.Schema.load", fail)
        assert main(["schema", "check", workspace.path("schema.toml")]) == 4
        assert "altered" not in capsys.readouterr().err


def test_what_is_wrong_with_a_file_stays_wrong_with_it() -> None:
    for failure in (
        ValueError("memory"),
        OSError(2, "No such file"),
        KeyError("a"),
        pa.ArrowInvalid("cut short"),
    ):
        assert environment_cause(failure) is None


def test_a_genuine_release_is_not_called_altered_for_lack_of_memory(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert workspace.synth() == 0
    assert main(["verify", workspace.path("release")]) == 0
    capsys.readouterr()

    def short(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr(pq, "ParquetFile", short)
    for words in (
        ["verify", workspace.path("release")],
        ["generate", workspace.path("release"), "--out", workspace.path("o")],
    ):
        assert main(words) == 4
        out, err = capsys.readouterr()
        assert "memory" in err
        assert "altered" not in err
        assert "FAILED" not in out


def test_a_check_that_finds_no_memory_finds_nothing_wrong() -> None:
    def short() -> str:
        raise ReleaseError("rows were altered", hint="ask") from MemoryError()

    with pytest.raises(ResourceError):
        run_check("rows", short)


def test_reading_rows_without_memory_is_no_damaged_file() -> None:
    for redact, otherwise in ((redact_open_errors, DataError), (redact_row_errors, ResourceError)):
        with pytest.raises(ResourceError, match="more memory"), redact("people.csv"):
            raise RuntimeError("can't start new thread")
        with pytest.raises(otherwise, match="cannot be read"), redact("people.csv"):
            raise RuntimeError("a page is damaged")


@pytest.mark.parametrize("verb", VERBS)
def test_an_address_space_in_which_libraries_fail_is_refused_before_they_load(
    verb: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300 * 2**20, -1))
    monkeypatch.setattr(command, "_run", lambda _: 0)
    assert main([verb, "--help"]) == 0
    expected = 0 if verb == "clean" else 4
    assert main([verb]) == expected
    err = capsys.readouterr().err
    if expected:
        assert (
            f"may use 300 MiB of memory; `populace {verb}` needs {512 if verb in command.FILES_ONLY_VERBS else 1024}"
            in err
        )


def test_nothing_is_booked_where_no_thread_could_be_started(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    entries = workspace.entries
    # So near its limit, and so large that nothing else refuses it.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 2**26, -1))
    monkeypatch.setattr("populace.private.capacity.memory_limit", lambda: 2**40)
    monkeypatch.setattr(command, "MIN_BYTES", 0)
    with pytest.raises(ResourceError, match="more memory; a run takes 128"):
        check_free_memory()
    assert workspace.synth() == 4
    assert "a run takes 128 or more" in capsys.readouterr().err
    assert workspace.entries == entries
    monkeypatch.setattr(resource, "getrlimit", lambda _: (used + 2**29, -1))
    check_free_memory()


def test_a_limited_address_space_is_not_reserved_by_allocators_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("ARROW_DEFAULT_MEMORY_POOL", "ARROW_IO_THREADS", "OMP_NUM_THREADS")
    monkeypatch.setattr("sys.meta_path", [*sys.meta_path])
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    monkeypatch.setattr(command, "main", lambda _: 7)
    for limit, expected in ((-1, [None] * 3), (2**31, ["system", "1", "1"])):
        monkeypatch.setattr(os, "environ", {})
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, -1))
        assert start._run() == 7
        assert [os.environ.get(name) for name in names] == expected
