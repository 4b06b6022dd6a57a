"""The report as data: every number it shows, computed from what is released and from nothing else.

The inputs are the privacy statement, the noisy measurements and the synthetic codes. The private rows are out of
reach here, so a report can be published with its release.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from populace.core.marginals import Counts, Marginal, tabulate
from populace.core.number_format import format_number, format_percent, format_percent_bound
from populace.inference.gls.count_intervals import CountIntervals
from populace.measurements.measurements import Measurement, Measurements, ReleasedRows
from populace.measurements.pooled_counts import combine_repeats, group_repeats
from populace.release.report.bars import Bar, group_largest_codes, group_ordered_codes, label_bins, make_bars
from populace.release.report.comparison import CodeColumns, Comparison, Quality, compare_all, cramers_v
from populace.release.report.crosstabs import Crosstab, make_crosstab
from populace.release.report.dependence_tree import TreeLine, list_tree
from populace.release.report.fitness_for_use import FitnessForUse, judge_fitness
from populace.release.statement.cost import BudgetStage, summarize_spends
from populace.release.statement.domain_fit import find_out_of_domain
from populace.release.statement.statement import Statement, describe_guarantee
from populace.release.statement.unpaired_columns import describe_ties, name_with_derived
from populace.schema.schema import Schema

REPORT_FORMAT = "populace report 3"
MAX_CROSSTABS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """One measured column: its noisy counts against its synthetic counts, as shares of all rows."""

    name: str
    kind: str
    cells: int
    comparison: Comparison
    bars: tuple[Bar, ...]
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSummary:
    """One measured combination of columns; `association` is Cramér's V in the synthetic rows."""

    columns: tuple[str, ...]
    cells: int
    comparison: Comparison
    association: float

    @property
    def name(self) -> str:
        """The columns as readers know them."""
        return " × ".join(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPrecision:
    """One measured marginal: the 95 % margin of error of its counts, in rows and as a share of all rows.

    `margin` is that of the median cell; cells that are certain are left out, unless all of them are. `deviation` is
    the standard deviation of the noise in one measured count, repeats combined; the number of rows may have none.
    """

    columns: tuple[str, ...]
    cells: int
    margin: float
    share: float
    deviation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """Everything the report shows. Columns and pairs come in the order of their error bounds, the largest first."""

    format: str
    promise: str
    summary: tuple[str, ...]
    statement: Statement
    rows: int
    estimated_total: float
    stages: tuple[BudgetStage, ...]
    precision: tuple[CountPrecision, ...]
    columns: tuple[ColumnSummary, ...]
    unmeasured: tuple[str, ...]
    pairs: tuple[PairSummary, ...]
    alone: tuple[str, ...]
    tree: tuple[TreeLine, ...]
    uses: FitnessForUse | None
    crosstabs: tuple[Crosstab, ...]


def build_report(
    statement: Statement,
    *,
    measurements: Measurements,
    intervals: CountIntervals,
    codes: CodeColumns,
    likely: Mapping[Marginal, float] = MappingProxyType({}),
) -> ReportDocument:
    """Return the report of a release.

    It follows from the statement, the measurements and their intervals, the synthetic codes, and bootstrap estimates
    of errors where there are some.
    """
    schema = measurements.schema
    total = max(1.0, float(intervals.of().estimate))
    seen = sorted(
        compare_all(measurements, codes=codes, total=total, likely=likely),
        key=lambda each: (-each[2].error_bound, each[0].marginal.clique),
    )
    columns = tuple(
        _summarize_column(item, synthetic, comparison, schema=schema, total=total, found=intervals)
        for item, synthetic, comparison in seen
        if len(item.marginal.clique) == 1
    )
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
    measured = {column.name for column in columns}
    paired = {name for pair in pairs for name in pair.columns}
    alone = name_with_derived([name for name in schema.variables if name not in paired], schema=schema)
    precision = summarize_precision(intervals, measurements=measurements, total=total)
    crosstabs = [
        make_crosstab(item, synthetic=synthetic, schema=schema, total=total)
        for item, synthetic, _ in seen
        if len(item.marginal.clique) == 2
    ]
    return ReportDocument(
        format=REPORT_FORMAT,
        promise=describe_guarantee(statement),
        summary=(
            *_describe_drawing(statement),
            *_describe_out_of_domain(measurements),
            *(
                _summarize(columns, pairs, alone=alone, tied=bool(statement["rules"]))
                if measurements.released_rows is None
                else _summarize_released_rows(measurements.released_rows, total=total)
            ),
        ),
        statement=statement,
        rows=statement["total"]["rows"]
        if "where" in statement
        else int(tabulate(Marginal(()), codes=codes, domain=schema.domain)),
        estimated_total=total,
        stages=summarize_spends(statement, measured=measurements.own_marginals),
        precision=precision,
        columns=columns,
        unmeasured=tuple(name for name in schema.variables if name not in measured),
        pairs=pairs,
        alone=alone,
        tree=list_tree([(*pair.columns[:2], pair.association) for pair in pairs if len(pair.columns) == 2]),
        uses=None
        if measurements.released_rows is not None
        else judge_fitness(
            [(column.name, column.comparison) for column in columns],
            [(pair.columns, pair.comparison) for pair in pairs],
            variables=tuple(schema.variables),
            alone=alone,
            margin=max((each.margin for each in precision[1:]), default=0.0),
        ),
        crosstabs=tuple(each for each in crosstabs if each is not None)[:MAX_CROSSTABS],
    )


def summarize_precision(
    found: CountIntervals, *, measurements: Measurements, total: float
) -> tuple[CountPrecision, ...]:
    """Return the precision of each measured marginal: the number of rows, columns, pairs, the least precise first.

    Everything tells the number of rows; tables that learnt bins are left out.
    """
    deviations = {
        item.marginal: float(item.variance) ** 0.5
        for item in map(combine_repeats, group_repeats(measurements.items))
    }
    measured = [each for each in found.measured if each.clique and (each.clique[1:] or not each.groupings)]
    shown = []
    for interval in (found.of(), *map(found.at, measured)):
        open_cells = interval.half_width[interval.half_width > 0]
        margin = float(np.median(open_cells)) if open_cells.size else 0.0
        shown.append(
            CountPrecision(
                columns=interval.marginal.clique,
                cells=interval.estimate.size,
                margin=margin,
                share=margin / total,
                deviation=deviations.get(interval.marginal),
            )
        )
    return tuple(sorted(shown, key=lambda each: (len(each.columns), -each.margin, each.columns)))


def _describe_drawing(statement: Statement) -> tuple[str, ...]:
    """Return what must be known of the rows before they are compared with anything."""
    lines = []
    if "linked" in statement:
        lines.append(statement["linked"]["text"])
    if "where" in statement:
        lines.append(
            f"The release holds rows where {statement['where']['condition']}. Measurements are of all rows, so this "
            "report compares them with all rows of the model. It does not assess the released rows, whose errors are "
            "larger, often several times."
        )
    if "implicates" in statement:
        lines.append(
            f"There are {statement['implicates']['tables']} implicates, tables drawn from one model; this page shows "
            "the first. Their differences show the drawing of rows alone, not the noise."
        )
    return tuple(lines)


def _describe_out_of_domain(measurements: Measurements) -> tuple[str, ...]:
    """Return which columns the schema does not fit, before any error is called small."""
    found = [each.column.name for each in find_out_of_domain(measurements) if each.has_own_code]
    if not found:
        return ()
    return (
        f"Many rows lie outside the domain of {_list_few(found)}: see the warnings above. Where rows agree with the "
        "noisy counts there, they agree on cells that the schema does not describe.",
    )


def _summarize_column(
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
        cells=column.size,
        comparison=comparison,
        bars=make_bars(found, name, slots=slots, synthetic=synthetic, total=total),
        label=column.label,
        description=column.description,
    )


def _summarize(
    columns: Sequence[ColumnSummary], pairs: Sequence[PairSummary], *, alone: Sequence[str], tied: bool
) -> tuple[str, ...]:
    """Return what to expect of the rest: the worst first, then how many are how good."""
    if not columns and not pairs:
        return ("Nothing was measured but the number of rows.",)
    kinds: tuple[tuple[str, Sequence[ColumnSummary | PairSummary]], ...] = (
        ("column", columns),
        ("pair", pairs),
    )
    # What must not be done comes first.
    lines = (
        [f"In no measured pair: {', '.join(alone)}. Do not tabulate them against other columns."]
        if pairs and alone
        else []
    )
    lines += [
        f"Worst {kind}, {worst.name}: {_describe_error(worst.comparison)}."
        for kind, found in kinds
        if found
        for worst in [max(found, key=lambda each: _shown_error(each.comparison))]
    ]
    for kind, found in kinds:
        classes = Counter(each.comparison.quality for each in found)
        listed = ", ".join(f"{classes[quality]} {quality}" for quality in Quality if classes[quality])
        if listed:
            lines.append(f"Of {len(found)} measured {kind}s: {listed}.{_mean_likely_error(found)}")
    if not pairs:
        lines.append(f"No pair was measured: in the synthetic rows each column is {describe_ties(tied)}.")
    return tuple(lines)


def _summarize_released_rows(released_rows: ReleasedRows, *, total: float) -> tuple[str, ...]:
    """Return what rows that were released one by one are, of all rows there may be."""
    count, rows = len(released_rows.counts), int(released_rows.counts.sum())
    if not count:
        return ("No row was frequent enough to be released.",)
    share = format_percent(min(1.0, rows / total))
    return (
        f"{count} different {'row was' if count == 1 else 'rows were'} released, with noisy counts of "
        f"{format_number(rows)} in all: about {share} of {format_number(round(total))} rows. Rarer rows are "
        "suppressed, so the shares of every column are biased.",
    )


def _mean_likely_error(found: Sequence[ColumnSummary | PairSummary]) -> str:
    """Return the mean bootstrap estimate over the tables that have one, in a sentence, or nothing."""
    errors = [each.comparison.likely for each in found if each.comparison.likely is not None]
    if not errors:
        return ""
    some = (
        "" if len(errors) == len(found) else f" of the {len(errors)} not dominated by noise or fitting poorly"
    )
    return f" Mean error{some}, estimated by bootstrap: {format_percent(sum(errors) / len(errors))}."


def _shown_error(comparison: Comparison) -> float:
    """Return the number that `_describe_error` begins with; what has no bound is worse than any."""
    if comparison.error_bound >= 1:
        return math.inf
    return comparison.error_bound if comparison.likely is None else comparison.likely


def _describe_error(comparison: Comparison) -> str:
    if comparison.error_bound >= 1:
        return f"{comparison.quality}, no bound on its error"
    bound = format_percent_bound(comparison.error_bound)
    # The bound counts noise twice: where the error itself is estimated, that is what to expect.
    if comparison.likely is not None:
        return f"bootstrap estimate of its error {format_percent(comparison.likely)}, at most {bound}"
    if comparison.quality in (Quality.CLOSE, Quality.ROUGH, Quality.WEAK):
        return f"estimated error at most {bound}"
    return f"{comparison.quality}; its error is not known, at most {bound}"


def _list_few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
