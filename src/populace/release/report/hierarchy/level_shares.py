"""Shares of the privacy budget by level and query of a hierarchy, with the noise they bought."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from populace.core.marginals import Clique
from populace.core.number_format import format_number
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.measurements.level_queries import describe_linked_query, place_marginal
from populace.measurements.measurements import Measurements
from populace.release.statement.cost import BudgetStage, find_rule_check
from populace.release.statement.statement import Statement
from populace.schema.linked.table_cells import MemberCells


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShare:
    """One query at one level: its share of the budget, and the standard deviation of the noise in each count."""

    level: str
    columns: Clique
    is_coarse: bool
    share: float
    deviation: float
    mechanism: str

    @property
    def name(self) -> str:
        """The query as readers know it."""
        return (" × ".join(self.columns) or "total") + (" (coarse)" if self.is_coarse else "")


def list_level_shares(
    statement: Statement, *, measurements: Measurements, measured: MeasuredHierarchy
) -> tuple[LevelShare, ...]:
    """Return what each level and query took, in the order of the bookings, which is that of the measurements."""
    levels, linked = measured.plan.spine.levels, measurements.schema.linked
    cells = None if linked is None else MemberCells.of(measurements.schema)
    found: dict[tuple[str, str], LevelShare] = {}
    noisy = (item for item in measurements.items if item.variance)
    for number, (item, (share, mechanism)) in enumerate(zip(noisy, _list_payments(statement), strict=True)):
        level, query = place_marginal(item.marginal, measured.geography)
        # What was asked together of linked tables is one entry.
        name = (
            "" if cells is None or linked is None else describe_linked_query(query, cells, units=linked.units)
        )
        key = (levels[level], name or str(number))
        before = found[key].share if key in found else 0.0
        found[key] = LevelShare(
            level=levels[level],
            columns=(name,) if name else query.clique,
            is_coarse=bool(query.groupings) and not name,
            share=before + share,
            deviation=math.sqrt(item.variance),
            mechanism=mechanism,
        )
    return tuple(found.values())


def list_stages(shares: tuple[LevelShare, ...], *, plural: str) -> tuple[BudgetStage, ...]:
    """Return the same as stages of the budget, for the table of the page."""
    return tuple(
        BudgetStage(
            label=f"{each.level}: {each.name}",
            noise=f"standard deviation {format_number(each.deviation)} {plural}",
            mechanism=each.mechanism,
            share=each.share,
        )
        for each in shares
    )


def _list_payments(statement: Statement) -> Iterator[tuple[float, str]]:
    """Yield the share and the noise distribution of every measured table."""
    check = find_rule_check(statement)
    for place, line in enumerate(statement["spends"]):
        if line["verb"] == "measure" and place != check:
            for _ in range(line["answers"]):
                yield line["share"] / line["answers"], line["law"]
