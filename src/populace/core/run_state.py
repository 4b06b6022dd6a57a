"""The state of the current run: what it has booked, what it was answered, and whether its result is in place.

Exit codes and messages follow from it, whatever raised the exception: once a budget is reserved, no failure may say
that nothing was spent, and what was answered is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

AnswerCollector = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """What a run took from its account, and in which ledger. Not certain while the ledger is being written."""

    dataset: str
    epsilon: str
    delta: str
    ledger: Path
    certain: bool = False

    def __str__(self) -> str:
        what = f"epsilon {self.epsilon} and delta {self.delta} of {self.dataset!r}"
        if self.certain:
            return f"{what} are booked in {self.ledger} and stay spent"
        return f"{what} may have been booked in {self.ledger}: `populace ledger show` tells"


class RunState:
    """What one command or call has come to so far. It is filled by whoever takes each step."""

    __slots__ = ("booking", "hint", "kept", "opened", "paid", "result")

    def __init__(self) -> None:
        self.booking: Booking | None = None
        # Databases that the run reads, to be closed when it ends.
        self.opened = ExitStack()
        # What was answered, by the names under which an exception carries it.
        self.paid: AnswerCollector | None = None
        # Where that is kept, how to go on from there, and the folder of a result that is whole and in place.
        self.kept: Path | None = None
        self.hint: str = ""
        self.result: Path | None = None

    def collect_answers(self) -> Mapping[str, Any]:
        """Return what was answered so far, by name; nothing where nothing was, or where even this fails."""
        with suppress(Exception):
            if self.paid is not None:
                return {name: held for name, held in self.paid().items() if held}
        return {}


_STATE: ContextVar[RunState | None] = ContextVar("populace_run_state", default=None)


@contextmanager
def run_state() -> Iterator[RunState]:
    """Yield the state of the current run: that of the caller if there is one, or else a new one.

    Whoever began it sees failures with a note of what was booked, and with what was answered as their attributes.
    """
    outer = _STATE.get()
    if outer is not None:
        yield outer
        return
    state = RunState()
    token = _STATE.set(state)
    try:
        yield state
    except BaseException as failure:
        _annotate(failure, state)
        raise
    finally:
        _STATE.reset(token)
        state.opened.close()


def current_state() -> RunState:
    """Return the state of the current run; outside of any, one that nobody looks at."""
    return _STATE.get() or RunState()


@contextmanager
def track_booking(booking: Booking) -> Iterator[None]:
    """Hold that a budget may be booked while the ledger is written, and that it is booked afterwards."""
    state = current_state()
    state.booking = booking
    yield
    state.booking = replace(booking, certain=True)


def _annotate(failure: BaseException, state: RunState) -> None:
    """Say in the notes of an exception what is paid for, and let it hold what was answered."""
    if state.booking is None:
        return
    if answered := state.collect_answers():
        vars(failure).update(answered)
        names = " and ".join(f"`{name}`" for name in answered)
        further = (
            ". Save the measurements, or go on with `pp.generate(pp.fit(measurements))`, free of cost"
            if "measurements" in answered
            else ""
        )
        failure.add_note(f"what was answered is paid for and not lost: this exception holds {names}{further}")
    failure.add_note(str(state.booking))
