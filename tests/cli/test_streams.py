"""Words reach whoever listens, in characters that harm no terminal; and if nobody listens, the work is done anyway."""

from __future__ import annotations

import io
import json
import signal
import sys

import pytest

from populace.cli import start
from populace.cli.console import emit, emit_json, escape_unprintable, say
from populace.cli.main import main
from populace.core.errors import ResourceError
from populace.release.report.vega_scripts import convert_errors
from tests.cli.workspace import CANARY, Workspace


def ascii_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", write_through=True)


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("ascii")


def test_an_encoding_that_lacks_a_letter_gets_its_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = ascii_stream(), ascii_stream()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    say("ε – “a”")
    emit("ε\tδ\nμ")
    assert written(err) == "\\u03b5 \\u2013 \\u201ca\\u201d\n"
    assert written(out) == "\\u03b5\t\\u03b4\n\\u03bc\n"


@pytest.mark.parametrize(
    "name", ["é", "ε", "\U0001f600", "\x1b[2J", "\x7f\x9b1m", "\u202eabc", "\udcff", "a\rb"]
)
def test_json_stays_json_and_harms_no_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ascii_stream()
    monkeypatch.setattr(sys, "stdout", out)
    emit_json({name: 1})
    assert json.loads(written(out)) == {name: 1}
    assert not any(letter in written(out) for letter in "\x1b\x7f\r")


def test_names_of_columns_cannot_write_to_the_terminal(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.write(
        "odd.toml",
        '[table]\ndataset = "d\\u001b]0;owned\\u0007"\n[columns."a\\u001b[2J"]\nkind = "categorical"\n'
        'values = ["1", "2"]\n[columns."b\\u009b31m"]\nkind = "categorical"\nvalues = ["1", "2"]\n',
    )
    words = ["--schema", workspace.path("odd.toml"), "--epsilon", "1", "--delta", "1e-6"]
    assert main(["plan", *words, "--population", "1000"]) == 0
    assert main(["schema", "show", workspace.path("odd.toml")]) == 0
    assert main(["schema", "check", workspace.path("odd.toml")]) == 0
    told = "".join(capsys.readouterr())
    assert "\\u001b[2J" in told
    assert not any(letter in told for letter in "\x1b\x9b\x07")


def test_nobody_listens(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert workspace.synth() == 0
    assert (workspace.folder / "release" / "manifest.json").exists()
    assert workspace.synth("none.csv", out=workspace.path("other")) == 2


@pytest.mark.parametrize("failure", [BrokenPipeError(32, ""), OSError(28, "full"), ValueError("closed")])
def test_a_terminal_that_fails_ends_no_run(
    failure: Exception, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise failure

    monkeypatch.setattr(sys, "stderr", Gone())
    assert workspace.synth() == 0


def test_a_panic_is_an_error_of_ours(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class PanicException(BaseException):
        pass

    with pytest.raises(ResourceError, match="no charts"), convert_errors("no charts."):
        raise PanicException
    with pytest.raises(KeyboardInterrupt), convert_errors("no charts."):
        raise KeyboardInterrupt

    def panic(*_: object) -> None:
        raise PanicException(CANARY)

    monkeypatch.setattr("populace.schema.schema.Schema.load", panic)
    assert main(["schema", "check", workspace.path("schema.toml")]) == 1
    assert CANARY not in capsys.readouterr().err


def test_signals_raise_once_and_ignored_ones_stay_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    before = [signal.getsignal(getattr(signal, name)) for name in names]
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        start.catch_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(start.Terminated) as stopped:
            signal.raise_signal(signal.SIGTERM)
        assert start.signal_exit_code(stopped.value) == 143
        # What the first one began to clear away is not to be stopped by a second.
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr(start, "SIGNAL_GRACE_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(getattr(signal, name), handler)


def test_a_terminated_run_is_told_like_an_interrupted_one(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(*_: object) -> None:
        raise start.Terminated(15)

    monkeypatch.setattr("populace.schema.schema.Schema.load", terminated)
    assert main(["schema", "check", workspace.path("schema.toml"), "--json"]) == 143
    told = json.loads(capsys.readouterr().err)
    assert told["exit_code"] == 143
    assert told["error"] == "interrupted."
    assert told["hint"] == "nothing was spent"


def test_printable_leaves_words_alone() -> None:
    for text in ("ε ≤ 1, “people”\tand\nmore", "naïve ‒ 名前 \U0001f600 क्‍ष"):
        assert escape_unprintable(text) == text
