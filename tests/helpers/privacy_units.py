"""Privacy units for tests, under every relation."""

from __future__ import annotations

from populace.privacy.ledger.exact_totals import ExactTotals
from populace.schema.unit import Neighbours, PrivacyUnit

PARTITION = "5" * 64


def make_unit(
    neighbours: Neighbours, *, rows: int = 1, within: str = "all", **more: str | None
) -> PrivacyUnit:
    """A unit under a relation; where totals are exact, it has one row whatever was asked for."""
    if neighbours is not Neighbours.REPLACE_WITHIN:
        return PrivacyUnit(rows=rows, neighbours=neighbours, **more)
    return PrivacyUnit(rows=1, neighbours=neighbours, within=within, **more)


def exact_totals(unit: PrivacyUnit, *, partition: str = PARTITION) -> ExactTotals | None:
    """What a run for this unit declares: the totals of the finest level, and that of the whole table."""
    if unit.within is None:
        return None
    return ExactTotals(tuple(dict.fromkeys(("all", unit.within))), partition)


def invariants_of(unit: PrivacyUnit) -> tuple[str, ...]:
    """The levels that a schema with such a unit declares."""
    declared = exact_totals(unit)
    return () if declared is None else declared.levels
