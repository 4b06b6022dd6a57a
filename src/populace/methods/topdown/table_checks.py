"""What the tables of a geography are refused from public facts alone: names that are taken, and too many cells."""

from __future__ import annotations

from collections.abc import Collection

from populace.core.array_types import Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain, Marginal
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from populace.schema.geocodes import FILE_COLUMNS, TABLE_COLUMN, Geography
from populace.schema.hints import quote_names
from populace.schema.schema import Schema


def check_column_names(schema: Schema) -> None:
    """Refuse columns that have the name of another column in the files of a release."""
    names, taken = [*schema.columns, *schema.domain], list(FILE_COLUMNS)
    if schema.linked is not None:
        names += schema.linked.columns
        taken.append(TABLE_COLUMN)
        levels = () if schema.geography is None else schema.geography.levels
        if repeated := [name for name in schema.linked.columns if name in levels]:
            raise UsageError(
                f"column {repeated[0]!r} of {schema.linked.members!r} is called as a level of the geography.",
                hint=f"take it out: a {schema.linked.members} is where its {schema.linked.units} is",
            )
    if found := [name for name in names if name in taken]:
        raise UsageError(
            f"column {found[0]!r} has the name of a column of tables.parquet or noisy_measurements.parquet.",
            hint=f"rename it, in the file as well: {quote_names(taken)} are taken",
        )


def check_cells(cells: int, *, units: int) -> None:
    """Refuse more counts of smallest units than can be made."""
    if cells * units > LIMITS.max_hierarchy_cells:
        raise UsageError(
            f"{units} units of {cells} cells are {cells * units} counts; the most is {LIMITS.max_hierarchy_cells}.",
            hint="leave out or coarsen columns, or release one region after the other",
        )


def plan_detailed(
    geography: Geography, domain: Domain, *, exact: Collection[str], possible: Truth | None
) -> HierarchyPlan:
    """Return the plan that asks for all columns together at every level: what any plan of these cells needs."""
    detailed = MeasuredQuery(marginal=Marginal(tuple(domain)), variance=1)
    return HierarchyPlan(
        spine=geography.spine,
        domain=domain,
        levels=tuple(
            LevelQueries(queries=(detailed,), has_exact_total=name in exact)
            for name in geography.spine.levels
        ),
        possible=possible,
    )
