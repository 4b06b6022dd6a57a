"""What the report of a hierarchical release holds: margins of error, bias and consistency of every level."""

from __future__ import annotations

from dataclasses import dataclass

from populace.core.marginals import Clique
from populace.release.report.hierarchy.consistency_checks import ConsistencyCheck
from populace.release.report.hierarchy.level_shares import LevelShare
from populace.release.report.hierarchy.nonnegativity_bias import BiasClass
from populace.release.statement.cost import BudgetStage
from populace.release.statement.statement import Statement

HIERARCHY_REPORT_FORMAT = "populace report of a hierarchy 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSummary:
    """One level: its units, and the 95 % margins of error of their totals; 0 where totals are exact."""

    name: str
    units: int
    has_exact_total: bool
    margin: float
    margin_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPrecision:
    """The 95 % margins of error of one table in the units of a level: their median and 95th percentile.

    `relative` is the median of margin over published count, over counts above 0. `above_margin` is the share of
    published counts that exceed their margin.
    """

    level: str
    columns: Clique
    cells: int
    counts: int
    margin: float
    margin_high: float
    relative: float | None
    above_margin: float

    @property
    def name(self) -> str:
        """The table as readers know it."""
        return " × ".join(self.columns) or "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPoint:
    """A unit: its published total and the expected absolute error of its unbiased estimate."""

    level: str
    published: int
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitInterval:
    """A unit with its published total beside the unbiased estimate and its 95 % margin of error."""

    unit: str
    rank: int
    published: int
    unbiased: float
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedUnits:
    """Units of a level by published total, the largest first: all, or some of `units`."""

    level: str
    units: int
    shown: tuple[UnitInterval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelBias:
    """What non-negativity moved in a level: published minus unbiased counts, in classes of the unbiased count."""

    level: str
    classes: tuple[BiasClass, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTotal:
    """A unit in a simulated release: how far its total is from the truth, and the margin that noise has around it."""

    unit: str
    rank: int
    total: int
    published: int
    unbiased: float
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSection:
    """What is shown of the members of linked tables: how many, in units of which size, how precise.

    `sizes` are units by the number of their members: published beside the unbiased estimate.
    """

    table: str
    plural: str
    people: int
    cell: str
    sizes: RankedUnits
    levels: tuple[LevelSummary, ...]
    precision: tuple[QueryPrecision, ...]
    checks: tuple[ConsistencyCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchyDocument:
    """Everything the report shows. Levels come widest first; the root is the whole table."""

    format: str
    promise: str
    relation: str
    invariants: tuple[str, ...]
    summary: tuple[str, ...]
    statement: Statement
    plural: str
    people: int
    cell: str
    levels: tuple[LevelSummary, ...]
    precision: tuple[QueryPrecision, ...]
    errors: tuple[ErrorPoint, ...]
    sample: RankedUnits
    ranked: tuple[RankedUnits, ...]
    bias: tuple[LevelBias, ...]
    simulated_bias: tuple[LevelBias, ...]
    simulated_totals: tuple[SimulatedTotal, ...]
    shares: tuple[LevelShare, ...]
    stages: tuple[BudgetStage, ...]
    checks: tuple[ConsistencyCheck, ...]
    members: MemberSection | None = None
