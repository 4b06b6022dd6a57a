"""The report as data: every number it shows, computed from what is released and from nothing else.

The inputs are the privacy statement, the noisy measurements and the synthetic codes. The private rows are out of
reach here, so a report can be published with its release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from populace.marginals import Marginal
from populace.measurements import Measurement, Measurements
from populace.release.statement import SpendLine, Stage, Statement, promise, stages
from populace.report.bars import Bar, bars, largest_slots, neighbouring_slots
from populace.report.compare import (
    GAUSSIAN,
    LAPLACE,
    Codes,
    Comparison,
    NoiseShape,
    Reading,
    combined,
    compare,
    cramers_v,
    estimated_total,
    synthetic_counts,
)
from populace.report.forest import Branch, branches
from populace.schema.codec import labels
from populace.schema.schema import Schema

FORMAT = "populace report 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One measured column: its noisy counts against its synthetic counts, as shares of all rows."""

    name: str
    kind: str
    codes: int
    comparison: Comparison
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One measured combination of columns; `association` is Cramér's V in the synthetic rows."""

    columns: tuple[str, ...]
    cells: int
    comparison: Comparison
    association: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """Marginals measured with the same noise: how many, how large, and how far a count is typically off.

    `reach` is the distance that noise exceeds in one count out of twenty; `share` is the same as a share of all rows.
    """

    what: str
    most_cells: int
    deviation: float
    reach: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Everything the report shows. Columns and pairs come worst first: those whose truth may be farthest away."""

    format: str
    promise: str
    summary: str
    statement: Statement
    rows: int
    estimated_total: float
    stages: tuple[Stage, ...]
    noise: tuple[NoiseLevel, ...]
    columns: tuple[Column, ...]
    unmeasured: tuple[str, ...]
    pairs: tuple[Pair, ...]
    forest: tuple[Branch, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain JSON values, floats to six significant digits."""
        return {part.name: _plain(getattr(self, part.name)) for part in fields(self)}


def build(statement: Statement, *, measurements: Measurements, codes: Codes) -> Document:
    """Return the report of a release, from its statement, its measurements and its synthetic codes."""
    schema, items = measurements.schema, measurements.items
    total = estimated_total(items)
    shape = LAPLACE if any("Laplace" in spend["law"] for spend in statement["spends"]) else GAUSSIAN
    merged = _merged(items)
    pairs = tuple(
        _pair(item, schema=schema, codes=codes, total=total, shape=shape)
        for item in merged
        if len(item.marginal.clique) > 1
    )
    columns = tuple(
        _column(item, schema=schema, codes=codes, total=total, shape=shape)
        for item in merged
        if len(item.marginal.clique) == 1 and not item.marginal.groupings
    )
    measured = {column.name for column in columns}
    return Document(
        format=FORMAT,
        promise=promise(statement),
        summary=_summary(columns, pairs),
        statement=statement,
        rows=int(synthetic_counts(Marginal(()), codes=codes, domain=schema.domain)),
        estimated_total=total,
        stages=stages(_named_by_size(statement, items)),
        noise=_noise_levels(merged, total=total, shape=shape),
        columns=tuple(sorted(columns, key=lambda column: (-column.comparison.truth_within, column.name))),
        unmeasured=tuple(name for name in schema.columns if name not in measured),
        pairs=tuple(sorted(pairs, key=lambda pair: (-pair.comparison.truth_within, pair.columns))),
        forest=branches([(*pair.columns[:2], pair.association) for pair in pairs if len(pair.columns) == 2]),
    )


def _named_by_size(statement: Statement, items: Sequence[Measurement]) -> Statement:
    """Return the statement with "12 marginals" said as "12 columns" where the measurements tell which they are.

    The barrier answers in the order in which it charges, so spends and measurements can be read side by side.
    """
    waiting = list(items)
    lines = []
    for line in statement["spends"]:
        if line["verb"] == "measure":
            answered, waiting = waiting[: line["answers"]], waiting[line["answers"] :]
            sizes = {len(item.marginal.clique) for item in answered}
            if len(answered) == line["answers"] > 1 and len(sizes) == 1:
                line = SpendLine(**{**line, "what": _counted(len(answered), columns=sizes.pop())})
        lines.append(line)
    return Statement(**{**statement, "spends": lines})


def _merged(items: Sequence[Measurement]) -> list[Measurement]:
    """Return one measurement for each marginal, in the order of the first of its kind."""
    same: dict[Marginal, list[Measurement]] = {}
    for item in items:
        same.setdefault(item.marginal, []).append(item)
    return [combined(group) for group in same.values()]


def _column(item: Measurement, *, schema: Schema, codes: Codes, total: float, shape: NoiseShape) -> Column:
    (name,) = item.marginal.clique
    column = schema.columns[name]
    synthetic = synthetic_counts(item.marginal, codes=codes, domain=schema.domain)
    names = labels(column)
    if column.kind == "categorical":
        slots = largest_slots(names, counts=item.counts)
    else:
        slots = neighbouring_slots(names, values=column.levels)
    return Column(
        name=name,
        kind=column.kind,
        codes=column.size,
        comparison=compare(item, synthetic=synthetic, total=total, shape=shape),
        bars=bars(item, slots=slots, synthetic=synthetic, total=total, shape=shape),
    )


def _pair(item: Measurement, *, schema: Schema, codes: Codes, total: float, shape: NoiseShape) -> Pair:
    synthetic = synthetic_counts(item.marginal, codes=codes, domain=schema.domain)
    return Pair(
        columns=item.marginal.clique,
        cells=item.counts.size,
        comparison=compare(item, synthetic=synthetic, total=total, shape=shape),
        association=cramers_v(synthetic),
    )


def _summary(columns: Sequence[Column], pairs: Sequence[Pair]) -> str:
    """Return what to expect of the rest, in a sentence or two."""
    kinds = (("columns", [c.comparison for c in columns]), ("pairs", [p.comparison for p in pairs]))
    told = [
        f"{sum(c.reading is Reading.WITHIN for c in found)} of {len(found)} {kind}"
        for kind, found in kinds
        if found
    ]
    if not told:
        return "Nothing was measured but the number of rows."
    lost = sum(c.reading is Reading.LOST for _, found in kinds for c in found)
    more = f" {lost} of the others are lost in noise." if lost else ""
    return f"{' and '.join(told)} agree with what was measured, within its noise.{more}"


def _noise_levels(items: Sequence[Measurement], *, total: float, shape: NoiseShape) -> tuple[NoiseLevel, ...]:
    groups: dict[tuple[int, float], list[Measurement]] = {}
    for item in items:
        groups.setdefault((len(item.marginal.clique), float(item.variance)), []).append(item)
    levels = []
    for (columns, variance), group in groups.items():
        reach = shape.reach * variance**0.5
        levels.append(
            NoiseLevel(
                what=_counted(len(group), columns=columns),
                most_cells=max(item.counts.size for item in group),
                deviation=variance**0.5,
                reach=reach,
                share=reach / total,
            )
        )
    return tuple(levels)


def _counted(number: int, *, columns: int) -> str:
    if columns == 0:
        return "number of rows"
    one = {1: "column", 2: "pair"}.get(columns, f"combination of {columns} columns")
    many = {1: "columns", 2: "pairs"}.get(columns, f"combinations of {columns} columns")
    return f"{number} {one if number == 1 else many}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return value  # the statement: its numbers are promises and stay as they are
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
