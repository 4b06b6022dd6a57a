"""The report as data: every number it shows, computed from what is released and from nothing else.

The inputs are the privacy statement, the noisy measurements and the synthetic codes. The private rows are out of
reach here, so a report can be published with its release.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from populace.core.marginals import Counts, Marginal, tabulate
from populace.core.number_format import format_percent
from populace.inference.gls.count_intervals import CountIntervals, intervals
from populace.measurements.measurements import (
    Measurement,
    Measurements,
    ReleasedRows,
    combine_repeats,
    describe_count,
    group_repeats,
)
from populace.release.report.bars import Bar, group_largest_codes, group_ordered_codes, make_bars
from populace.release.report.bin_labels import label_bins
from populace.release.report.comparison import (
    CodeColumns,
    Comparison,
    NoiseShape,
    Quality,
    compare_all,
    cramers_v,
    find_noise_shape,
)
from populace.release.report.count_precision import CountPrecision, summarize_precision
from populace.release.report.dependence_tree import TreeLine, list_tree
from populace.release.statement.cost import BudgetStage, summarize_spends
from populace.release.statement.domain_fit import find_out_of_domain
from populace.release.statement.statement import Statement, describe_guarantee
from populace.schema.schema import Schema

REPORT_FORMAT = "populace report 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """One measured column: its noisy counts against its synthetic counts, as shares of all rows."""

    name: str
    kind: str
    codes: int
    comparison: Comparison
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSummary:
    """One measured combination of columns; `association` is Cramér's V in the synthetic rows."""

    columns: tuple[str, ...]
    cells: int
    comparison: Comparison
    association: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """What was measured with the same noise: how many, how large, and how far a count is typically off.

    `reach` is the distance that noise exceeds in one count out of twenty, in whole rows; `share` is the same as a share
    of all rows. Repeated measurements count as one, with the noise of their mean.
    """

    what: str
    most_cells: int
    deviation: float
    reach: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """Everything the report shows. Columns and pairs come worst first: those whose truth may be farthest away."""

    format: str
    promise: str
    summary: tuple[str, ...]
    statement: Statement
    rows: int
    estimated_total: float
    stages: tuple[BudgetStage, ...]
    noise: tuple[NoiseLevel, ...]
    sure: tuple[CountPrecision, ...]
    columns: tuple[ColumnSummary, ...]
    unmeasured: tuple[str, ...]
    pairs: tuple[PairSummary, ...]
    alone: tuple[str, ...]
    forest: tuple[TreeLine, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain JSON values, floats to six significant digits."""
        return {part.name: _to_plain(getattr(self, part.name)) for part in fields(self)}


def build_report(
    statement: Statement,
    *,
    measurements: Measurements,
    codes: CodeColumns,
    likely: Mapping[Marginal, float] = MappingProxyType({}),
) -> ReportDocument:
    """Return the report of a release, from its statement, its measurements, its synthetic codes and likely errors."""
    schema, items = measurements.schema, measurements.items
    found = intervals(measurements)
    total = max(1.0, float(found.of().estimate))
    seen = compare_all(measurements, codes=codes, total=total, likely=likely)
    pairs = tuple(
        PairSummary(
            columns=item.marginal.clique,
            cells=item.counts.size,
            comparison=comparison,
            association=cramers_v(synthetic),
        )
        for item, synthetic, comparison in seen
        if len(item.marginal.clique) > 1
    )
    columns = tuple(
        _column(item, synthetic, comparison, schema=schema, total=total, found=found)
        for item, synthetic, comparison in seen
        if len(item.marginal.clique) == 1
    )
    columns = tuple(sorted(columns, key=lambda column: (-column.comparison.truth_within, column.name)))
    pairs = tuple(sorted(pairs, key=lambda pair: (-pair.comparison.truth_within, pair.columns)))
    measured = {column.name for column in columns}
    joined = {name for pair in pairs for name in pair.columns}
    alone = tuple(name for name in schema.variables if name not in joined)
    return ReportDocument(
        format=REPORT_FORMAT,
        promise=describe_guarantee(statement),
        summary=(
            *_describe_drawing(statement),
            *_describe_out_of_domain(measurements),
            *(
                _summarize(columns, pairs, alone=alone)
                if measurements.released_rows is None
                else _summarize_released_rows(measurements.released_rows, total=total)
            ),
        ),
        statement=statement,
        rows=statement["total"]["rows"]
        if "where" in statement
        else int(tabulate(Marginal(()), codes=codes, domain=schema.domain)),
        estimated_total=total,
        stages=summarize_spends(statement, measured=[item.marginal for item in items]),
        noise=_noise_levels(group_repeats(items), total=total, shape=find_noise_shape(measurements)),
        sure=summarize_precision(found, total=total),
        columns=columns,
        unmeasured=tuple(name for name in schema.variables if name not in measured),
        pairs=pairs,
        alone=alone,
        forest=list_tree([(*pair.columns[:2], pair.association) for pair in pairs if len(pair.columns) == 2]),
    )


def _describe_drawing(statement: Statement) -> tuple[str, ...]:
    """Return what must be known of the rows before they are compared with anything."""
    lines = []
    if "where" in statement:
        lines.append(
            f"The release holds rows where {statement['where']['condition']}. What was measured is of all rows, so "
            "this page compares it with all rows of the model: nothing here judges the released rows, whose errors "
            "are larger, often several times."
        )
    if "implicates" in statement:
        lines.append(
            f"There are {statement['implicates']['tables']} implicates, tables drawn from one model; this page shows "
            "the first. Their differences show the drawing of rows alone, not the noise."
        )
    return tuple(lines)


def _describe_out_of_domain(measurements: Measurements) -> tuple[str, ...]:
    """Return which columns the schema does not fit, before anything is called close to what was measured."""
    found = [each.column.name for each in find_out_of_domain(measurements)]
    if not found:
        return ()
    few = ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
    return (
        f"Many rows lie outside the domain of {few}: see the warnings above. Where rows agree with what was measured "
        "there, they agree on cells that the schema does not describe.",
    )


def _column(
    item: Measurement,
    synthetic: Counts,
    comparison: Comparison,
    *,
    schema: Schema,
    total: float,
    found: CountIntervals,
) -> ColumnSummary:
    (name,) = item.marginal.clique
    column = schema.variables[name]
    ends = label_bins(column)
    if column.kind == "categorical":
        slots = group_largest_codes(ends, values=column.levels, counts=item.counts)
    else:
        slots = group_ordered_codes(ends, values=column.levels)
    return ColumnSummary(
        name=name,
        kind=column.kind,
        codes=column.size,
        comparison=comparison,
        bars=make_bars(found, name, slots=slots, synthetic=synthetic, total=total),
    )


def _summarize(
    columns: Sequence[ColumnSummary], pairs: Sequence[PairSummary], *, alone: Sequence[str]
) -> tuple[str, ...]:
    """Return what to expect of the rest: the worst first, then how many are how good."""
    if not columns and not pairs:
        return ("Nothing was measured but the number of rows.",)
    worst = [("column", columns[0].name, columns[0].comparison)] if columns else []
    worst += [("pair", " × ".join(pairs[0].columns), pairs[0].comparison)] if pairs else []
    lines = [f"Worst {kind} {name}: {_describe_comparison(comparison)}." for kind, name, comparison in worst]
    for kind, found in (
        ("columns", [c.comparison for c in columns]),
        ("pairs", [p.comparison for p in pairs]),
    ):
        times = Counter(comparison.reading for comparison in found)
        told = ", ".join(f"{times[reading]} {reading}" for reading in Quality if times[reading])
        if told:
            lines.append(f"Of {len(found)} measured {kind}: {told}.{_mean_likely_error(found)}")
    if not pairs:
        lines.append("No pair was measured: in the synthetic rows the columns are independent of each other.")
    elif alone:
        shown = ", ".join(alone[:4]) + (f" and {len(alone) - 4} more" if len(alone) > 4 else "")
        lines.append(f"In no measured pair: {shown}. Do not tabulate them against other columns.")
    return tuple(lines)


def _summarize_released_rows(told: ReleasedRows, *, total: float) -> tuple[str, ...]:
    """Return what rows that were told one by one are, of all rows there may be."""
    count, rows = len(told.counts), int(told.counts.sum())
    if not count:
        return ("No row was frequent enough to be told.",)
    share = min(100, round(100 * rows / total))
    return (
        f"{count} different {'row was' if count == 1 else 'rows were'} told, with noisy counts of {rows} in all: about "
        f"{share} % of {round(total)} rows. Rarer rows are missing, so no column can be trusted to have its shares.",
    )


def _mean_likely_error(found: Sequence[Comparison]) -> str:
    """Return what is likely of the tables that are not hidden, in a sentence, or nothing."""
    errors = [comparison.likely for comparison in found if comparison.likely is not None]
    if not errors:
        return ""
    which = "They are" if len(errors) == len(found) else "Those not lost or far off are"
    return f" {which} likely off by about {format_percent(sum(errors) / len(errors))} of the rows on average."


def _describe_comparison(comparison: Comparison) -> str:
    if comparison.truth_within >= 1:
        return f"{comparison.reading}, it may be anything"
    likely = "" if comparison.likely is None else f", likely by about {format_percent(comparison.likely)}"
    return (
        f"off by at most about {max(1, round(100 * comparison.truth_within))} % of the rows, as far as can be told"
        f"{likely}"
    )


def _noise_levels(
    measured: Sequence[Sequence[Measurement]], *, total: float, shape: NoiseShape
) -> tuple[NoiseLevel, ...]:
    groups: dict[tuple[int, int, float], list[Measurement]] = {}
    for same in measured:
        item = combine_repeats(same)
        if len(item.marginal.clique) == 1 and item.marginal.groupings:
            continue  # a table by which bins were learnt
        groups.setdefault((len(item.marginal.clique), len(same), float(item.variance)), []).append(item)
    levels = []
    for (columns, times, variance), group in groups.items():
        reach = math.ceil(shape.reach * variance**0.5)
        levels.append(
            NoiseLevel(
                what=describe_count(len(group), columns=columns)
                + (f", {times} measurements combined" if times > 1 else ""),
                most_cells=max(item.counts.size for item in group),
                deviation=variance**0.5,
                reach=reach,
                share=reach / total,
            )
        )
    return tuple(levels)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Comparison):
        derived = {"truth_within": _to_plain(value.truth_within), "reading": value.reading.value}
        return {part.name: _to_plain(getattr(value, part.name)) for part in fields(value)} | derived
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _to_plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return value  # the statement: its numbers are promises and stay as they are
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
