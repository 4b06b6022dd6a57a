"""What verification finds: one check after the other, each with what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from populace.errors import PopulaceError, ReleaseError, ResourceError
from populace.privacy.record import RunRecord
from populace.records import dataclass
from populace.release.manifest import NAME, Manifest
from populace.untrusted import altered, check_regular, lacks_room, no_memory
from populace.untrusted import read_json as read_any_json
from populace.untrusted import read_text as read_any_text


class Outcome(Enum):
    """What a check came to; it may be that nobody can tell here."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what was found."""

    name: str
    outcome: Outcome
    detail: str

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return self.outcome is Outcome.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All checks of one folder, in order.

    `redrawn` says whether its rows were drawn again and are the same; None where it holds no rows. `booked` says
    whether a ledger has the digests of all its files; None where no ledger was given.
    """

    checks: tuple[Check, ...]
    redrawn: bool | None
    booked: bool | None

    @property
    def passed(self) -> bool:
        """Whether no check failed. That is not enough to rely on a folder: see `verified`."""
        return all(check.outcome is not Outcome.FAILED for check in self.checks)

    @property
    def verified(self) -> bool:
        """Whether no check failed, and the ledger has the folder as it is; or, without one, every check passed."""
        return self.passed and (self.booked if self.booked is not None else not self.unknown)

    @property
    def unknown(self) -> tuple[Check, ...]:
        """The checks of which nobody can tell here."""
        return tuple(check for check in self.checks if check.outcome is Outcome.UNKNOWN)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        return {
            "verified": self.verified,
            "passed": self.passed,
            "redrawn": self.redrawn,
            "booked": self.booked,
            "checks": [
                {"name": c.name, "passed": c.passed, "outcome": c.outcome.value, "detail": c.detail}
                for c in self.checks
            ],
        }


def checked(name: str, check: Callable[[], str]) -> Check:
    """Run one check: it returns what it found in order, or raises what it found wrong.

    What this machine cannot do is no finding, and goes on to the caller.
    """
    try:
        return Check(name=name, outcome=Outcome.PASSED, detail=check())
    except ResourceError:
        raise
    except PopulaceError as failure:
        if lacks_room(failure):
            raise no_memory(f"what the check of “{name}” needs") from failure
        return Check(name=name, outcome=Outcome.FAILED, detail=failure.message)
    except Exception as failure:
        if lacks_room(failure):
            raise no_memory(f"what the check of “{name}” needs") from failure
        # The net below the bounded readers: what no part of populace writes may break any of its rules.
        return unexpected(name, failure)


def unexpected(name: str, failure: Exception) -> Check:
    """Return the finding that the parts of a folder contradict each other in a way that nobody foresaw."""
    detail = f"the files contradict each other ({type(failure).__name__})"
    return Check(name=name, outcome=Outcome.FAILED, detail=detail)


def check_files(folder: Path, manifest: Manifest, *, always: Iterable[str], sometimes: Iterable[str]) -> None:
    """Refuse a folder that lacks a file, holds one too many, or something else than a file."""
    present = {path.name for path in folder.iterdir()} - {NAME}
    listed = set(manifest.files)
    for names, what in (
        (listed - present, "is listed but missing"),
        (present - listed, "is not listed"),
        (set(always) - listed, "belongs to every such release and is not listed"),
        (listed - set(always) - set(sometimes), "has no place in a release"),
    ):
        if names:
            raise wrong(f"{min(names)!a} {what}" if not min(names).isprintable() else f"{min(names)} {what}")
    for name in sorted(present):
        check_regular(folder / name)


def read_json(path: Path, *, inner: str) -> tuple[Any, Any]:
    """Return a JSON file that holds an object, and the part of it that everything else hangs on."""
    told = read_any_json(path)
    if not isinstance(told, dict) or inner not in told:
        raise wrong(f"{path.name} lacks “{inner}”")
    return told, told[inner]


def read_text(path: Path) -> str:
    """Return a text file of a release; carriage returns inside quotes stay what they are."""
    return read_any_text(path)


def check_budget(record: RunRecord) -> str:
    """Refuse a run that is not closed, or that booked something too cheaply."""
    record.check()
    if not record.finished:
        raise wrong("the run was not closed: it could still spend")
    return f"{len(record.spends)} spends come to {float(record.used / record.cap):.1%} of the budget"


def wrong(message: str) -> ReleaseError:
    """Return the refusal of a folder that is not as it was written."""
    return altered(message)
