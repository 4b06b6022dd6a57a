"""What is paid for is kept: one net under every verb that spends, from the reservation until its result is in place."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from populace.api.stage_folders import write_measurements
from populace.core.errors import PopulaceError, ResourceError
from populace.core.run_state import RunState, current_state
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.ledger.ledger import default_ledger_path
from populace.release.folder.destination import atomic_folder, check_destination, resolve_folder
from populace.release.folder.hidden_folder import shorten_name
from populace.release.folder.leftovers import TOO_LITTLE_MEASURED, can_fit, suggest_commands
from populace.release.manifest import dump_json

OWNER_ONLY = 0o700
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class SafetyNet:
    """Keeps what the current run was answered, in the first place that takes it."""

    def __init__(self, out: Path, *, ledger: Path | None, inference: str | None) -> None:
        self._out = out
        self._ledger = ledger
        self._inference = inference
        self._state: RunState = current_state()

    def keep(self) -> None:
        """Write what was answered so far, unless it is kept already.

        Before long work this is on disk: a process that is killed has no last words.
        """
        if self._state.kept is not None:
            return
        answered = self._state.collect_answers()
        for what, write in self._writers(answered):
            for place in list_recovery_paths(self._out, what=what, ledger=self._ledger):
                # The result may be whole for all that, and the next place may take it.
                with contextlib.suppress(Exception):
                    place.parent.mkdir(parents=True, exist_ok=True, mode=OWNER_ONLY)
                    write(place)
                    place.chmod(OWNER_ONLY)
                    self._state.kept, self._state.hint = place, self._hint(what, place, answered)
                    return

    def drop(self) -> None:
        """Remove what was kept: the result that holds it is in place."""
        if self._state.kept is not None:
            shutil.rmtree(self._state.kept, ignore_errors=True)
        self._state.kept, self._state.hint = None, ""

    def _writers(self, answered: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[Path], object]]]:
        """Yield under which names which parts can be kept, the best first."""
        answers = answered.get("answers", ())
        if measurements := answered.get("measurements"):
            yield "measured", lambda place: write_measurements(measurements, place, answers=answers)
        if estimates := answered.get("estimates"):
            yield "estimates", lambda place: estimates.save(place, report=False)
        if checks := answered.get("checks"):
            yield "checks", checks.save
        if answers:
            yield "answers", lambda place: write_answers(answers, place)

    def _hint(self, what: str, kept: Path, answered: Mapping[str, Any]) -> str:
        path = shlex.quote(str(kept))
        if what == "measured" and not can_fit(answered["measurements"]):
            return TOO_LITTLE_MEASURED
        if what == "measured" and self._inference is None:
            return f"{suggest_commands(kept, out=None)} goes on from there, free of cost"
        if what == "measured":
            booking = self._state.booking
            commands = suggest_commands(
                kept,
                # Another run may have been faster.
                out=Path(f"{kept}-release") if _is_taken(self._out) else self._out,
                inference=self._inference or "tree",
                ledger=None if booking is None else booking.ledger,
            )
            return f"{commands} go on from there, free of cost; say --rows, --where and other wishes for rows again"
        if what == "estimates":
            return f"{path} is the release without a report; `populace verify` checks it"
        if what == "checks":
            return f"{path} is the whole result; `populace verify` checks it"
        return "each noisy answer there stands beside its question and the distribution of its noise"


def _is_taken(folder: Path) -> bool:
    """Say whether a folder can receive no result any more, as far as that can be known."""
    try:
        return os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir()))
    except OSError:
        return True


@contextlib.contextmanager
def safety_net(out: Path, *, ledger: Path | None, inference: str | None = None) -> Iterator[SafetyNet]:
    """Yield a net that keeps what is paid for if the work under it fails, by an interrupt too, in the middle too.

    `inference` is how rows would have been made of it, by a verb that makes some.
    """
    net = SafetyNet(out, ledger=ledger, inference=inference)
    state = current_state()
    try:
        yield net
        state.result = out
    except BaseException:
        with ignore_signals():
            if state.booking is not None:
                net.keep()
        raise
    net.drop()


def check_writable(out: Path, *, ledger: Path | None) -> None:
    """Try the end of a run before anything is paid for: the folder it writes, and one that keeps what it paid for."""
    check_destination(out)
    for place in list_recovery_paths(out, what="measured", ledger=ledger):
        with contextlib.suppress(PopulaceError):
            return check_destination(place)
    raise ResourceError(
        f"there is no place to keep what is paid for if {out} cannot be written in the end.",
        hint="make room or give permission beside --out, with the ledger or among the temporary files",
    )


def list_recovery_paths(out: Path, *, what: str, ledger: Path | None) -> Iterator[Path]:
    """Yield free names for what is kept: beside a folder, with the ledger, or among the system's temporary files."""
    own = resolve_folder(out)
    for parent in (own.parent, *list_recovery_folders(ledger=ledger)):
        names = (f"{shorten_name(own.name)}-{what}{end}" for end in ("", *(f"-{n}" for n in range(2, 100))))
        with contextlib.suppress(OSError):
            if free := next((parent / each for each in names if not os.path.lexists(parent / each)), None):
                yield free


def list_recovery_folders(*, ledger: Path | None) -> tuple[Path, ...]:
    """Return the folders that receive what is kept if it cannot lie beside its result."""
    usual = default_ledger_path()
    beside_ledger = () if ledger in (None, usual) else (ledger.absolute().parent,)
    return (usual.parent / "kept", *beside_ledger, Path(tempfile.gettempdir()))


def write_answers(answers: Sequence[AnswerRecord], folder: Path) -> None:
    """Write noisy answers with their questions and noise distributions into a folder."""
    with atomic_folder(folder) as place:
        text = dump_json([each.to_json() for each in answers])
        (place / "answers.json").write_text(text, encoding="utf-8")


@contextlib.contextmanager
def ignore_signals() -> Iterator[None]:
    """Ignore signals to end for a moment: what is paid for is being written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
