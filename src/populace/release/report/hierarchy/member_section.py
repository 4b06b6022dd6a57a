"""The part of a report of linked tables in a geography that is about members: sizes of units, margins, agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.report.hierarchy.consistency_checks import ConsistencyCheck, check_tables
from populace.release.report.hierarchy.hierarchy_document import MemberSection, RankedUnits, UnitInterval
from populace.release.report.hierarchy.hierarchy_report import (
    make_plural,
    summarize_levels,
    summarize_queries,
)
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy
from populace.schema.linked.linked_tables import LinkedTables


def tell_members(
    measurements: Measurements, model: Model, released: Sequence[ReleasedHierarchy]
) -> MemberSection | None:
    """Return what a report tells of the members of linked tables; nothing where there is one table."""
    linked = measurements.schema.linked
    if linked is None:
        return None
    _, second = released
    units = PublishedHierarchy.of(measurements, model=model)
    shown = replace(units, measured=second.measured, tables=second.published)
    negative, sums, _, zeros, _ = check_tables(shown)
    return MemberSection(
        table=linked.members,
        plural=make_plural(linked.members),
        people=int(shown.tables[0].sum()),
        cell=" × ".join(shown.columns),
        sizes=_list_sizes(units, linked),
        levels=summarize_levels(shown),
        precision=summarize_queries(shown),
        checks=(
            *(replace(each, name=f"{linked.members}: {each.name}") for each in (negative, sums, zeros)),
            _check_agreement(units, shown, linked),
        ),
    )


def _list_sizes(units: PublishedHierarchy, linked: LinkedTables) -> RankedUnits:
    """Return the units of the whole by how many members they have."""
    clique = (linked.count,)
    possible = np.flatnonzero(units.measured.plan.possible_in(clique))
    published, unbiased, margin = (
        found[0]
        for found in (
            units.published_counts(clique, level=0),
            units.unbiased_counts(clique, level=0),
            units.margin(clique, level=0),
        )
    )
    last = linked.max_rows
    return RankedUnits(
        level=f"{make_plural(linked.members)} in a {linked.units}",
        units=len(possible),
        shown=tuple(
            UnitInterval(
                unit=f"{size} or more" if size == last else str(size),
                rank=place + 1,
                published=int(published[place]),
                unbiased=float(unbiased[place]),
                margin=float(margin[place]),
            )
            for place, size in enumerate(possible.tolist())
        ),
    )


def _check_agreement(
    units: PublishedHierarchy, members: PublishedHierarchy, linked: LinkedTables
) -> ConsistencyCheck:
    """Count places of the geography, at all levels, whose members are not as many as their units say."""
    clique = (linked.count,)
    sizes = np.flatnonzero(units.measured.plan.possible_in(clique))
    wrong = 0
    for level in units.levels:
        expected = units.published_counts(clique, level=level) @ sizes
        wrong += int((members.published_counts((), level=level)[:, 0] != expected).sum())
    return ConsistencyCheck(
        name=f"{make_plural(linked.members)} that are not those of the {make_plural(linked.units)}",
        found=wrong,
        examined=sum(len(table) for table in units.tables),
        of="totals of all levels",
    )
