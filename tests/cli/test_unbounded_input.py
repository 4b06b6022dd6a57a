"""Numbers, nesting and sizes beyond all bounds are refused at once, from public input and before anything is booked."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.private import capacity as room
from tests.cli.unbounded_inputs import FILES, VERBS, Case, cases

# What a command may take: a refusal needs a hundredth of it.
SECONDS, BYTES = 20, 4 * 2**30
REFUSED = 2
# One of each kind of input and of each way to ask for too much.
SOME = (
    "option shares: huge exponent",
    "option shares: long fraction",
    "option rows: underscores",
    "option rows: 2**64",
    "option seed: underscores",
    "option expect: underscores",
    "option population: underscores",
    "option epsilon: huge exponent",
    "option delta: tiny",
    "option account epsilon: huge integer",
    "schema rows_per_unit: 1e30",
    "schema rows_per_unit: hexadecimal",
    "schema max_rows: 1e18",
    "schema integer max: huge exponent",
    "schema numeric width: 1e-30",
    "schema decimals: 1e18",
    "schema date width: underscores",
    "schema values: hexadecimal",
    "schema total: 1e30",
    "workload share: 1e-30",
    "workload weight: hexadecimal",
    "design base: hexadecimal",
    "design totals: huge exponent",
    "queries quantile: hexadecimal",
    "shares file: huge exponent",
    "deep schema: dotted key",
    "deep schema: dotted column",
    "deep workload: dotted header",
    "deep design: dotted key",
    "deep queries: nested tables",
    "deep overlay: dotted key",
    "deep sizes: nested tables",
    "deep import: nested lists",
    "deep map: long integer",
    "expression where: open parentheses",
    "expression zeros: literal",
    "expression query: ands",
    "plan of ten million codes",
    "plan of a wide table",
    "auto for a wide table",
    "five thousand pieces",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with sound files, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


def write(case: Case) -> None:
    for name, text in case.files.items():
        Path(name).write_text(text, encoding="utf-8")


def stop(*_: object) -> None:
    raise TimeoutError("a bound is missing")


@pytest.mark.parametrize("case", [case for case in cases() if case.name in SOME], ids=lambda case: case.name)
def test_it_is_refused_at_once(place: Path, capsys: pytest.CaptureFixture[str], case: Case) -> None:
    write(case)
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        code = main(case.words)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    out, err = capsys.readouterr()
    assert (code, out) == (REFUSED, ""), err
    assert err.count("error: ") == err.count("\nhint: ") == 1
    assert len(err) < 3000, "a message repeats its input at length"
    assert not {"ledger.db", "release", "pieces", "key"} & {path.name for path in place.iterdir()}


def test_a_column_of_a_quarter_billion_codes_is_refused_before_it_is_paid_for(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "memory_limit", lambda: 24 * 2**30)
    Path("large.json").write_text(f'{{"sex": {2**28}, "age": 10}}')
    words = [*VERBS["synth"], "--schema", "large.json"]
    assert main(words) == 4
    assert "of memory" in capsys.readouterr().err
    assert not (place / "ledger.db").exists()


def test_every_case_that_is_named_exists() -> None:
    assert set(SOME) <= {case.name for case in cases()}


@pytest.mark.slow
def test_no_input_takes_unbounded_time_or_memory(place: Path) -> None:
    """A sample of the cases of every kind ends with a refusal or a right result, in little time and memory."""
    tried = list(cases())
    deep = [case for case in tried if case.name.startswith(("deep", "expression", "shares", "option"))]
    other = [case for case in tried if case not in deep]
    wrong = {}
    for case in [*deep[::6], *other[::9]]:
        write(case)
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm", "key"):
            Path(name).unlink(missing_ok=True)
        code = run_bounded(case, place / "said.txt")
        said = (place / "said.txt").read_text(encoding="utf-8")
        memory = code == 4 and "of memory" in said
        paid = code == 0
        if not (code == REFUSED or memory or paid) or (Path("ledger.db").exists() and not paid):
            wrong[case.name] = code, said[-300:]
        if Path("release").exists():
            Path("release").rename(f"release-{len(list(place.iterdir()))}")
    assert not wrong


def run_bounded(case: Case, said: Path) -> int:
    """Run a command in a process of its own with little time and memory; return its exit code."""
    child = os.fork()
    if not child:
        code = 99
        try:
            handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            signal.alarm(SECONDS)
            code = main(case.words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
