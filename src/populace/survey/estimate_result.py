"""What is estimated, and what an estimate says: a number, the parts of its error, an interval that holds them all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from populace.survey.estimate_notes import PUBLIC_TOTAL, SUPPRESSED

Group = tuple[tuple[str, str], ...]
ValueRange = tuple[Fraction, Fraction]

ERROR_COLUMNS = ("sampling_error", "imputation_error", "privacy_error", "total_error")
NUMBER_COLUMNS = ("estimate", *ERROR_COLUMNS, "low", "high", "degrees")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimand:
    """One number of a query: for which group, and the condition that its rows meet.

    Of a column with missing values it is the mean or, with `between`, the share of rows whose value lies there. `that`
    are the query's own words for it, in which an end may be the first value that lies outside. A `smooth` count has
    weights that are made inside the barrier, with noise that follows a smooth bound.
    """

    query: str
    group: Group = ()
    where: str | None = None
    between: ValueRange | None = None
    that: str | None = None
    smooth: bool = False


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

    def clip_to(self, low: float, high: float) -> Estimate:
        """Return it with its value and interval clipped to what is possible, and its errors with them.

        A standard error of numbers within a range is at most half of its width.

        >>> found = Estimate(query="poor", estimate=1.2, low=0.9, high=1.5, sampling_error=0.1, privacy_error=3.0)
        >>> found = found.clip_to(0.0, 1.0)
        >>> found.estimate, found.low, found.high, found.sampling_error, found.privacy_error
        (1.0, 0.9, 1.0, 0.1, 0.5)
        """
        ends = dict.fromkeys(("estimate", "low", "high"), (low, high))
        ends |= dict.fromkeys(ERROR_COLUMNS[:-1], (0.0, (high - low) / 2))
        held = {name: getattr(self, name) for name in ends}
        clipped = {n: min(max(each, ends[n][0]), ends[n][1]) for n, each in held.items() if each is not None}
        return replace(self, **clipped)

    @property
    def total_error(self) -> float | None:
        """The standard error of all parts together: they are independent, so their squares add up."""
        if self.estimate is None:
            return None
        return math.hypot(self.sampling_error or 0.0, self.imputation_error or 0.0, self.privacy_error or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, with the total error in its place."""
        numbers = {name: getattr(self, name) for name in NUMBER_COLUMNS}
        return {"query": self.query, "group": dict(self.group), **numbers, "note": self.note}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Estimate:
        """Return what `to_json` wrote."""
        kept = {key: row[key] for key in row if key not in ("group", "total_error")}
        for key in kept.keys() - {"query", "note"}:
            if isinstance(kept[key], bool) or not isinstance(kept[key], int | float | None):
                raise TypeError("not a number")
        return cls(group=tuple((str(name), str(value)) for name, value in row["group"].items()), **kept)


def make_public_row(query: str, value: float, *, group: Group = ()) -> Estimate:
    """Return the row of a number that public totals decide: it has no error.

    >>> make_public_row("women", 310.0).total_error
    0.0
    """
    return Estimate(
        query=query,
        group=group,
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
    'suppressed: indistinguishable from noise'
    """
    return Estimate(query=query, group=group, estimate=None, note=SUPPRESSED)


def suppress_nonfinite(row: Estimate) -> Estimate:
    """Return a row as it is, or as one that is suppressed where one of its numbers is infinite or none.

    What was paid for must not be lost to a number that no file can hold.

    >>> suppress_nonfinite(Estimate(query="income", estimate=5.0, low=float("nan"), high=9.0)).note
    'suppressed: indistinguishable from noise'
    """
    numbers = [number for name in NUMBER_COLUMNS if (number := getattr(row, name)) is not None]
    return row if all(map(math.isfinite, numbers)) else make_suppressed_row(row.query, group=row.group)
