"""What verification finds: one check after the other, each with what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from populace.core.errors import PopulaceError, ResourceError
from populace.core.number_format import count_of, format_percent
from populace.core.untrusted_files import altered_error, is_out_of_memory, out_of_memory_error
from populace.privacy.ledger.run_record import RunRecord


class CheckOutcome(Enum):
    """What a check came to; it may be that nobody can tell here."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One thing that was checked, and what was found."""

    name: str
    outcome: CheckOutcome
    detail: str

    @property
    def passed(self) -> bool:
        """Whether all is as it should be."""
        return self.outcome is CheckOutcome.PASSED


class Inconclusive(Exception):
    """Raised by a check that nobody can decide here; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All checks of one folder, in order.

    `redrawn` says whether its rows were drawn again and are the same; None where it holds no rows. `booked` says
    whether a ledger has the digests of all its files; None where no ledger was given.
    """

    checks: tuple[CheckResult, ...]
    redrawn: bool | None
    booked: bool | None

    @property
    def passed(self) -> bool:
        """Whether no check failed. That is not enough to rely on a folder: see `verified`."""
        return all(check.outcome is not CheckOutcome.FAILED for check in self.checks)

    @property
    def verified(self) -> bool:
        """Whether no check failed, and the ledger has the folder as it is; or, without one, every check passed."""
        return self.passed and (self.booked if self.booked is not None else not self.unknown)

    @property
    def unknown(self) -> tuple[CheckResult, ...]:
        """The checks of which nobody can tell here."""
        return tuple(check for check in self.checks if check.outcome is CheckOutcome.UNKNOWN)

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


def run_check(name: str, check: Callable[[], str]) -> CheckResult:
    """Run one check: it returns what it found in order, or raises what it found wrong or could not decide.

    What this machine cannot do is no finding, and goes on to the caller.
    """
    try:
        return CheckResult(name=name, outcome=CheckOutcome.PASSED, detail=check())
    except Inconclusive as reason:
        return CheckResult(name=name, outcome=CheckOutcome.UNKNOWN, detail=str(reason))
    except ResourceError:
        raise
    except Exception as failure:
        if is_out_of_memory(failure):
            raise out_of_memory_error(f"what the check of “{name}” needs") from failure
        if isinstance(failure, PopulaceError):
            return CheckResult(name=name, outcome=CheckOutcome.FAILED, detail=failure.message)
        # The net below the bounded readers: what no part of populace writes may break any of its rules.
        return report_unexpected(name, failure)


def report_unexpected(name: str, failure: Exception) -> CheckResult:
    """Return the finding that the parts of a folder contradict each other in a way that nobody foresaw."""
    detail = f"the files contradict each other ({type(failure).__name__})"
    return CheckResult(name=name, outcome=CheckOutcome.FAILED, detail=detail)


def check_budget(record: RunRecord) -> str:
    """Refuse a run that is not closed, or that booked something too cheaply."""
    record.check()
    if not record.finished:
        raise altered_error("the run was not closed: it could still spend")
    used = format_percent(float(record.used_share))
    return f"{count_of(len(record.spends), 'spend')}: {used} of the budget"
