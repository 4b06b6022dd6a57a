"""Results that cannot be, counted in the published tables of a hierarchy: there must be none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Ints
from populace.core.marginals import Clique
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
    measured = shown.measured
    tables, spine = shown.tables, measured.plan.spine
    exact: list[tuple[Clique, int, Ints]] = [((), *held) for held in measured.totals.items()]
    for level, own in measured.known.items():
        exact += [(c, level, held) for c, held in zip(measured.plan.levels[level].known, own, strict=True)]
    constraints = shown.measured.constraints
    zeros = np.zeros(tables[0].shape[1:], np.bool_) if constraints.zeros is None else constraints.zeros
    sums = [spine.sum_children(table, level=level) for level, table in enumerate(tables) if level]
    # Without any in its smallest units a unit has none itself, nor has one between.
    forbidden = [
        tables[-1][spine.ancestors(rule.level) == rule.unit][:, rule.cells] for rule in constraints.forbidden
    ]
    few = [int(tables[each.level][each.unit][each.cells].sum()) < each.count for each in constraints.bounds]
    found: tuple[tuple[str, int, int, str], ...] = (
        (
            "negative counts",
            sum(int((table < 0).sum()) for table in tables),
            sum(table.size for table in tables),
            "published counts",
        ),
        (
            "children that do not add up to their parent",
            sum(int((made != table).sum()) for made, table in zip(sums, tables, strict=False)),
            sum(table.size for table in tables[:-1]),
            "counts of units with children",
        ),
        (
            "exact totals violated",
            sum(int((shown.sum_tables(clique, level=level) != held).sum()) for clique, level, held in exact),
            sum(held.size for _, _, held in exact),
            "invariants and public totals",
        ),
        (
            "structural zeros violated",
            sum(int((table[:, zeros] != 0).sum()) for table in tables),
            sum(len(table) * int(zeros.sum()) for table in tables),
            "cells that must be 0",
        ),
        (
            "public facts about units violated",
            sum(bool(inside.any()) for inside in forbidden) + sum(few),
            len(forbidden) + len(few),
            "facts",
        ),
    )
    return tuple(
        ConsistencyCheck(name=name, found=wrong, examined=examined, of=of)
        for name, wrong, examined, of in found
    )
