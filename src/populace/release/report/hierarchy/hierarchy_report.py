"""The report of a hierarchical release as data: margins of error, bias and consistency of every level.

The inputs are the privacy statement, the noisy measurements and the published tables. The private rows are out of
reach here, so a report can be published with its release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique
from populace.core.number_format import format_number, format_percent
from populace.core.spine import ROOT
from populace.inference.model import Model
from populace.measurements.exact_counts import describe_totals
from populace.measurements.measurements import Measurements
from populace.release.report.hierarchy.consistency_checks import ConsistencyCheck, check_tables
from populace.release.report.hierarchy.hierarchy_document import (
    HIERARCHY_REPORT_FORMAT,
    ErrorPoint,
    HierarchyDocument,
    LevelBias,
    LevelSummary,
    MemberSection,
    QueryPrecision,
    RankedUnits,
    SimulatedTotal,
    UnitInterval,
)
from populace.release.report.hierarchy.level_shares import list_level_shares, list_stages
from populace.release.report.hierarchy.nonnegativity_bias import (
    TRUE_CLASS_ENDS,
    classify_bias,
)
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy
from populace.release.report.hierarchy.simulated_release import SimulatedRelease, simulate_release
from populace.release.statement.cost import summarize_rule_check
from populace.release.statement.limitations import plural_of
from populace.release.statement.statement import Statement, describe_guarantee
from populace.schema.schema import Schema

# Units of a level that are drawn as points, drawn with their intervals, and drawn from each end of a ranking.
MAX_POINTS, MAX_SAMPLED, MAX_RANKED = 300, 24, 20
# E|X| of a normal error of standard deviation 1.
MEAN_ABSOLUTE_ERROR = math.sqrt(2 / math.pi)


def build_hierarchy_report(
    statement: Statement,
    *,
    measurements: Measurements,
    model: Model,
    members: MemberSection | None = None,
) -> HierarchyDocument:
    """Return the report of a hierarchical release.

    `members` are those of linked tables; the rest is about their units.
    """
    shown = PublishedHierarchy.of(measurements, model=model)
    plural = make_plural(statement["unit"])
    levels, precision = summarize_levels(shown), summarize_queries(shown)
    shares = list_level_shares(statement, measurements=measurements, measured=shown.measured)
    checks = (*check_tables(shown), *(() if members is None else members.checks))
    simulated = simulate_release(shown)
    sample = rank_units(shown, shown.smallest, most=MAX_SAMPLED, spread=True)
    middle = [*range(len(shown.levels) // 2, shown.smallest), *range(1, len(shown.levels) // 2)]
    return HierarchyDocument(
        format=HIERARCHY_REPORT_FORMAT,
        promise=describe_guarantee(statement),
        relation=_describe_relation(statement, measurements.schema),
        invariants=tuple(map(describe_totals, measurements.schema.invariants)),
        summary=_summarize(levels, precision, checks, plural=plural),
        statement=statement,
        plural=plural,
        people=int(shown.tables[0].sum()),
        cell=" × ".join(shown.columns),
        levels=levels,
        precision=precision,
        errors=tuple(point for level in shown.levels for point in _sample_errors(shown, level)),
        sample=sample,
        ranked=tuple(rank_units(shown, level, most=2 * MAX_RANKED) for level in middle or [shown.smallest]),
        bias=tuple(_classify_level(shown, level) for level in shown.levels[1:]),
        simulated_bias=() if simulated is None else _classify_simulated(shown, simulated),
        simulated_totals=() if simulated is None else _sample_simulated(shown, simulated, sample=sample),
        shares=shares,
        stages=(*summarize_rule_check(statement), *list_stages(shares, plural=plural)),
        checks=checks,
        members=members,
    )


def summarize_levels(shown: PublishedHierarchy) -> tuple[LevelSummary, ...]:
    """Return every level with the margins of its totals."""
    return tuple(_summarize_level(shown, level) for level in shown.levels)


def summarize_queries(shown: PublishedHierarchy) -> tuple[QueryPrecision, ...]:
    """Return every table of every level with its margins."""
    return tuple(
        _summarize_query(shown, clique, level=level)
        for level in shown.levels
        for clique in shown.measured.plan.list_tables()
    )


def _summarize_level(shown: PublishedHierarchy, level: int) -> LevelSummary:
    margin = shown.margin((), level=level)
    return LevelSummary(
        name=shown.geography.spine.levels[level],
        units=len(margin),
        has_exact_total=not margin.any(),
        margin=float(np.median(margin)),
        margin_high=float(np.quantile(margin, 0.95)),
    )


def _summarize_query(shown: PublishedHierarchy, clique: Clique, *, level: int) -> QueryPrecision:
    margin, published = shown.margin(clique, level=level), shown.published_counts(clique, level=level)
    some = published > 0
    return QueryPrecision(
        level=shown.geography.spine.levels[level],
        columns=clique,
        cells=margin.shape[1],
        counts=margin.size,
        margin=float(np.median(margin)),
        margin_high=float(np.quantile(margin, 0.95)),
        relative=float(np.median(margin[some] / published[some])) if some.any() else None,
        above_margin=float(np.mean(published > margin)),
    )


def _sample_errors(shown: PublishedHierarchy, level: int) -> list[ErrorPoint]:
    """Return units of a level that are spread evenly over its ranking; exact totals have no error."""
    published = shown.published_counts((), level=level)[:, 0]
    errors = MEAN_ABSOLUTE_ERROR * np.sqrt(shown.variance((), level=level)[:, 0])
    order = np.argsort(-published, kind="stable")
    chosen = order[spread_evenly(len(order), most=MAX_POINTS)]
    return [
        ErrorPoint(
            level=shown.geography.spine.levels[level],
            published=int(published[unit]),
            error=float(errors[unit]),
        )
        for unit in chosen.tolist()
        if errors[unit] > 0
    ]


def rank_units(shown: PublishedHierarchy, level: int, *, most: int, spread: bool = False) -> RankedUnits:
    """Return units of a level by published total: all, or the largest and the smallest, or some all over."""
    published = shown.published_counts((), level=level)[:, 0]
    order = np.argsort(-published, kind="stable")
    if spread:
        places = spread_evenly(len(order), most=most)
    else:
        places = np.arange(len(order))
        if len(order) > most:
            places = np.concatenate([places[: most // 2], places[len(order) - most // 2 :]])
    unbiased, margin = shown.unbiased_counts((), level=level)[:, 0], shown.margin((), level=level)[:, 0]
    units = order[places].tolist()
    return RankedUnits(
        level=shown.geography.spine.levels[level],
        units=len(order),
        shown=tuple(
            UnitInterval(
                unit=label,
                rank=place + 1,
                published=int(published[unit]),
                unbiased=float(unbiased[unit]),
                margin=float(margin[unit]),
            )
            for place, unit, label in zip(
                places.tolist(), units, shown.label_units(level, units), strict=True
            )
        ),
    )


def spread_evenly(count: int, *, most: int) -> Ints:
    """Return the places of at most so many of `count` things, the first and the last among them.

    >>> spread_evenly(10, most=4).tolist(), spread_evenly(2, most=4).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _classify_level(shown: PublishedHierarchy, level: int) -> LevelBias:
    unbiased: Floats = shown.unbiased_counts(shown.columns, level=level)
    published = shown.published_counts(shown.columns, level=level)
    return LevelBias(
        level=shown.geography.spine.levels[level],
        classes=classify_bias(published - unbiased, by=unbiased),
    )


def _classify_simulated(shown: PublishedHierarchy, simulated: SimulatedRelease) -> tuple[LevelBias, ...]:
    """Return the bias of a simulated release in classes of the count that stands for the true one."""
    found = []
    for level in shown.levels[1:]:
        true: Floats = simulated.truth[level].astype(np.float64)
        if shown.measured.plan.possible is not None:
            true = np.where(shown.measured.plan.possible, true, np.nan)
        kept = ~np.isnan(true)
        classes = classify_bias((simulated.tables[level] - true)[kept], by=true[kept], ends=TRUE_CLASS_ENDS)
        found.append(LevelBias(level=shown.geography.spine.levels[level], classes=classes))
    return tuple(found)


def _sample_simulated(
    shown: PublishedHierarchy, simulated: SimulatedRelease, *, sample: RankedUnits
) -> tuple[SimulatedTotal, ...]:
    """Return the units of a sample as the simulated release has them, around the totals that stand for the truth."""
    level = shown.smallest
    published = shown.published_counts((), level=level)[:, 0]
    order = np.argsort(-published, kind="stable")
    moved, error = simulated.total_errors(level)
    margin = shown.margin((), level=level)[:, 0]
    return tuple(
        SimulatedTotal(
            unit=each.unit,
            rank=each.rank,
            total=each.published,
            published=int(moved[order[each.rank - 1]]),
            unbiased=float(error[order[each.rank - 1]]),
            margin=float(margin[order[each.rank - 1]]),
        )
        for each in sample.shown
    )


def _describe_relation(statement: Statement, schema: Schema) -> str:
    """Return in words which two tables the guarantee makes hard to tell apart."""
    unit = statement["unit"]
    if statement["neighbours"] == "add-remove":
        return f"one {unit} added or removed"
    if statement["neighbours"] == "replace-one":
        return f"one {unit} replaced by another"
    within = schema.invariants[-1]
    place = "in the whole table" if within == ROOT else f"of the same {within}"
    return f"one {unit} replaced by another {place}; all invariants stay as they are"


def _summarize(
    levels: Sequence[LevelSummary],
    precision: Sequence[QueryPrecision],
    checks: Sequence[ConsistencyCheck],
    *,
    plural: str,
) -> tuple[str, ...]:
    """Return what to expect of totals and of cells at the smallest levels, and whether the tables hold together."""
    lines = []
    for level in levels[:0:-1][:2]:
        units = f"{format_number(level.units)} units of level {level.name}"
        if level.has_exact_total:
            lines.append(f"Totals of the {units} are exact.")
        else:
            median, high = (
                f"±\N{NO-BREAK SPACE}{format_margin(each)}" for each in (level.margin, level.margin_high)
            )
            lines.append(
                f"Totals of the {units} have a 95 % margin of error of {median} {plural} in the median unit "
                f"(95th percentile: {high})."
            )
    detailed = precision[-1]
    lines.append(
        f"Of the cells {detailed.name} at level {detailed.level}, {format_percent(detailed.above_margin)} have a "
        "published count above their margin of error. The others are indistinguishable from 0: add up cells or units."
    )
    wrong = [check for check in checks if check.found]
    lines.append(
        f"Impossible results: {', '.join(f'{check.name} ({format_number(check.found)})' for check in wrong)}."
        if wrong
        else "No negative count, every table adds up to that of the unit above, and all public facts hold."
    )
    return tuple(lines)


def format_margin(margin: float) -> str:
    """Return a margin of error rounded up: to whole counts, or to one decimal place where it is below 10.

    >>> format_margin(3.42), format_margin(12.1), format_margin(0.0)
    ('3.5', '13', '0')
    """
    if margin < 10:
        return f"{math.ceil(margin * 10 - 1e-6) / 10:.1f}".removesuffix(".0")
    return format_number(math.ceil(margin - 1e-6))


def make_plural(unit: str) -> str:
    """Return what several protected units are called in a sentence.

    >>> [make_plural(word) for word in ("person", "household")]
    ['people', 'households']
    """
    return "people" if unit == "person" else plural_of(unit)
