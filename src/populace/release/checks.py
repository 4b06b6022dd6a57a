"""What verification finds: one check after the other, each with what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from populace.errors import PopulaceError, ReleaseError, environment_cause
from populace.privacy.record import RunRecord
from populace.records import dataclass
from populace.release.manifest import NAME, Manifest, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what was found."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All checks of one folder, in order."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain JSON values."""
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in self.checks]
        return {"passed": self.passed, "checks": checks}


def checked(name: str, check: Callable[[], str]) -> Check:
    """Run one check: it returns what it found in order, or raises what it found wrong."""
    try:
        return Check(name=name, passed=True, detail=check())
    except PopulaceError as failure:
        if environment_cause(failure) is not None:
            raise
        return Check(name=name, passed=False, detail=failure.message)


def check_files(folder: Path, manifest: Manifest, *, always: Iterable[str], sometimes: Iterable[str]) -> None:
    """Refuse a folder that lacks a file, or holds one too many."""
    present = {path.name for path in folder.iterdir()} - {NAME}
    listed = set(manifest.files)
    for names, what in (
        (listed - present, "is listed but missing"),
        (present - listed, "is not listed"),
        (set(always) - listed, "belongs to every such release and is not listed"),
        (listed - set(always) - set(sometimes), "has no place in a release"),
        ({name for name in present if not (folder / name).is_file()}, "is not a file"),
    ):
        if names:
            raise wrong(f"{sorted(names)[0]} {what}")


def read_json(path: Path, *, inner: str) -> tuple[Any, Any]:
    """Return a JSON file and the part of it that everything else hangs on."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return told, told[inner]
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise wrong(f"{path.name} cannot be read, or lacks “{inner}”") from failure


def read_text(path: Path) -> str:
    """Return a text file of a release."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as failure:
        raise wrong(f"{path.name} cannot be read") from failure


def check_budget(record: RunRecord) -> str:
    """Refuse a run that is not closed, or that booked something too cheaply."""
    record.check()
    if not record.finished:
        raise wrong("the run was not closed: it could still spend")
    return f"{len(record.spends)} spends come to {float(record.used / record.cap):.1%} of the budget"


def other_version(version: str) -> str:
    """Return the excuse that a release may have: another version words its statements in its own way."""
    mine = versions()["populace"]
    return "" if version == mine else f" as populace {mine} words it; populace {version} wrote it"


def wrong(message: str) -> ReleaseError:
    """Return the refusal of a folder that is not as it was written."""
    return ReleaseError(message, hint="ask the publisher for an unaltered copy")
