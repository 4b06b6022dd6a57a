"""What a statement says of earlier releases whose tables stand beside those of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypedDict

from populace.core.number_format import format_exact
from populace.measurements.measurements import Measurements
from populace.privacy.ledger.run_record import RunRecord


class SupersededLine(TypedDict):
    """An earlier release: its manifest, its run in the ledger, what it cost then, and which of its numbers are old.

    `tables` are the counts of which this release holds better ones; rows and estimates made of them are old as well.
    """

    release: str
    ledger_entry: str
    method: str
    epsilon: str
    delta: str
    measured: str
    tables: list[str]


class TogetherLine(TypedDict):
    """The guarantee of all that a folder holds: of its own run and of the earlier ones, exactly and in words."""

    epsilon: str
    delta: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierContent:
    """An earlier run, the digest of its release, and what it measured."""

    record: RunRecord
    release: str
    measured: str
    tables: tuple[str, ...]

    def to_line(self) -> SupersededLine:
        """Return what a statement says of it."""
        epsilon, delta = self.record.guarantee
        return SupersededLine(
            release=self.release,
            ledger_entry=self.record.digest,
            method=self.record.method,
            epsilon=format_exact(epsilon),
            delta=format_exact(delta),
            measured=self.measured,
            tables=list(self.tables),
        )


def list_earlier(measurements: Measurements) -> tuple[EarlierContent, ...]:
    """Return the earlier runs of measurements, in their order."""
    return tuple(
        EarlierContent(
            record=each.record,
            release=each.release,
            measured=run.describe(),
            tables=tuple(
                dict.fromkeys(" × ".join(item.marginal.clique) or "number of rows" for item in run.items)
            ),
        )
        for each, run in zip(measurements.earlier, measurements.runs[1:], strict=True)
    )


def describe_together(guarantee: tuple[Fraction, Fraction], *, own: Sequence[str]) -> TogetherLine:
    """Return the guarantee of a run and the earlier ones whose tables it holds, given its own ε and δ in words."""
    epsilon, delta = map(format_exact, guarantee)
    return TogetherLine(
        epsilon=epsilon,
        delta=delta,
        text=f"All that this folder holds has ε = {epsilon}, δ = {delta}, as booked in the account. This run took "
        f"ε = {own[0]}, δ = {own[1]} of it; the rest was paid before, for the tables of earlier releases.",
    )
