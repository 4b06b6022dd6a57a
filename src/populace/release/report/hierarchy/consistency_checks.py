"""Results that cannot be, counted in the published tables of a hierarchy: there must be none."""

from __future__ import annotations

from dataclasses import dataclass

from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyCheck:
    """One kind of impossible result: how many there are, and of how many that were looked at."""

    name: str
    found: int
    examined: int
    of: str


def check_tables(shown: PublishedHierarchy) -> tuple[ConsistencyCheck, ...]:
    """Count impossible results in the published tables: signs, sums over children, invariants and public facts."""
    return (
        ConsistencyCheck(
            name="negative counts",
            found=sum(int((table < 0).sum()) for table in shown.tables),
            examined=sum(table.size for table in shown.tables),
            of="published counts",
        ),
        _check_sums(shown),
        _check_invariants(shown),
        _check_zeros(shown),
        _check_facts(shown),
    )


def _check_sums(shown: PublishedHierarchy) -> ConsistencyCheck:
    spine = shown.measured.plan.spine
    wrong = 0
    for level in shown.levels[1:]:
        wrong += int((spine.sum_children(shown.tables[level], level=level) != shown.tables[level - 1]).sum())
    return ConsistencyCheck(
        name="children that do not add up to their parent",
        found=wrong,
        examined=sum(table.size for table in shown.tables[:-1]),
        of="counts of units with children",
    )


def _check_invariants(shown: PublishedHierarchy) -> ConsistencyCheck:
    totals = shown.measured.totals
    return ConsistencyCheck(
        name="invariants violated",
        found=sum(
            int((shown.published_counts((), level=level)[:, 0] != exact).sum())
            for level, exact in totals.items()
        ),
        examined=sum(len(exact) for exact in totals.values()),
        of="exact totals",
    )


def _check_zeros(shown: PublishedHierarchy) -> ConsistencyCheck:
    zeros = shown.measured.constraints.zeros
    return ConsistencyCheck(
        name="structural zeros violated",
        found=0 if zeros is None else sum(int((table[:, zeros] != 0).sum()) for table in shown.tables),
        examined=0 if zeros is None else sum(len(table) * int(zeros.sum()) for table in shown.tables),
        of="cells that must be 0",
    )


def _check_facts(shown: PublishedHierarchy) -> ConsistencyCheck:
    constraints, spine = shown.measured.constraints, shown.measured.plan.spine
    wrong = 0
    for rule in constraints.forbidden:
        # Without any in its smallest units a unit has none itself, nor has one between.
        inside = shown.tables[-1][spine.ancestors(rule.level) == rule.unit]
        wrong += bool(inside[:, rule.cells].any())
    for bound in constraints.bounds:
        wrong += int(shown.tables[bound.level][bound.unit][bound.cells].sum()) < bound.count
    return ConsistencyCheck(
        name="public facts about units violated",
        found=wrong,
        examined=len(constraints.forbidden) + len(constraints.bounds),
        of="facts",
    )
