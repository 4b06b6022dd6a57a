"""What an estimate says: a number, the parts of its error, and an interval that holds them all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Group = tuple[tuple[str, str], ...]

# Noise decides that a subpopulation is too small; the note says no more than that.
SUPPRESSED = "too few to say"
# A number that totals of the design decide: it is as exact as they are, and nothing is spent on it.
PUBLIC_TOTAL = "a public total of the design"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One number of one query, for one group, with the standard errors of its parts.

    `sampling_error` is what another sample of the same design would change, `imputation_error` what other values in
    place of missing ones would, and `privacy_error` what other noise would. None stands for a part that is not known;
    an estimate of None is one that the noise does not let anybody say. `low` and `high` hold the truth of the
    population about 95 % of the time. `degrees` are those of the sampling error: how many free differences it rests on.

    >>> found = Estimate(query="income", estimate=5.0, sampling_error=3.0, privacy_error=4.0, low=-5.0, high=15.0)
    >>> found.total_error
    5.0
    """

    query: str
    group: Group = ()
    estimate: float | None
    sampling_error: float | None = None
    imputation_error: float | None = 0.0
    privacy_error: float | None = None
    low: float | None = None
    high: float | None = None
    degrees: float | None = None
    note: str = ""

    @property
    def total_error(self) -> float | None:
        """The standard error of all parts together: they are independent, so their squares add up."""
        if self.estimate is None:
            return None
        return math.hypot(self.sampling_error or 0.0, self.imputation_error or 0.0, self.privacy_error or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the total error in its place."""
        return {
            "query": self.query,
            "group": dict(self.group),
            "estimate": self.estimate,
            "sampling_error": self.sampling_error,
            "imputation_error": self.imputation_error,
            "privacy_error": self.privacy_error,
            "total_error": self.total_error,
            "low": self.low,
            "high": self.high,
            "degrees": self.degrees,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Estimate:
        """Return what `to_json` wrote."""
        kept = {key: told[key] for key in told if key not in ("group", "total_error")}
        for key in kept.keys() - {"query", "note"}:
            if isinstance(kept[key], bool) or not isinstance(kept[key], int | float | None):
                raise TypeError("not a number")
        return cls(group=tuple((str(name), str(value)) for name, value in told["group"].items()), **kept)


def cap_error(error: float, *, low: float, high: float) -> float:
    """Return a standard error, no larger than one of numbers from `low` to `high` can be: half of their range.

    >>> cap_error(303.0, low=-1.0, high=1.0), cap_error(0.1, low=0.0, high=math.inf)
    (1.0, 0.1)
    """
    return min(error, (high - low) / 2)


def make_public_row(query: str, value: float) -> Estimate:
    """Return the row of a number that public totals decide: it has no error.

    >>> make_public_row("women", 310.0).total_error
    0.0
    """
    return Estimate(
        query=query,
        estimate=value,
        sampling_error=0.0,
        privacy_error=0.0,
        low=value,
        high=value,
        note=PUBLIC_TOTAL,
    )


def make_suppressed_row(query: str, *, group: Group = ()) -> Estimate:
    """Return the row of a subpopulation that is lost in noise.

    >>> make_suppressed_row("income", group=(("region", "north"),)).note
    'too few to say'
    """
    return Estimate(query=query, group=group, estimate=None, note=SUPPRESSED)


def suppress_nonfinite(row: Estimate) -> Estimate:
    """Return a row as it is, or as one that cannot be told where one of its numbers is infinite or none.

    What was paid for must not be lost to a number that no file can hold.

    >>> suppress_nonfinite(Estimate(query="income", estimate=5.0, low=float("nan"), high=9.0)).note
    'too few to say'
    """
    parts = (row.estimate, row.sampling_error, row.imputation_error, row.privacy_error, row.low, row.high)
    told = [part for part in (*parts, row.degrees) if part is not None]
    return row if all(map(math.isfinite, told)) else make_suppressed_row(row.query, group=row.group)
