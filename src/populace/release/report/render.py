"""The report of a release as one HTML file that opens offline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from populace.core.number_format import format_number
from populace.measurements.measurements import describe_count
from populace.release.report import charts
from populace.release.report.count_precision import CountPrecision
from populace.release.report.html_templates import render_page
from populace.release.report.report_data import ReportDocument

# The columns and pairs of the largest error bounds are shown at once; charts of more columns than these are not drawn.
WORST_SHOWN = 12
MAX_CHARTS = 120
SYMBOLS = {"CLOSE": "●", "ROUGH": "◐", "WEAK": "○", "LOST": "~", "FAR": "▲", "OUTSIDE": "✕"}


def render_report(document: ReportDocument) -> str:
    """Return the report of a document as HTML."""
    return render_page(
        "report.html",
        document,
        charts=_chart_specs(document),
        more={
            "worst": document.columns[:WORST_SHOWN],
            "other": document.columns[WORST_SHOWN:MAX_CHARTS],
            "precision": _group_by_size(document.precision),
            "clipped": {column.name for column in document.columns if charts.is_clipped(column)},
            "bootstrapped": any(
                comparison.likely is not None
                for comparison in (
                    *(column.comparison for column in document.columns),
                    *(pair.comparison for pair in document.pairs),
                )
            ),
            "symbols": SYMBOLS,
        },
    )


def _group_by_size(found: Sequence[CountPrecision]) -> list[tuple[str, str, list[CountPrecision]]]:
    """Return columns, pairs and larger tables apart: their name, the range of their margins, and each of them."""
    sizes = groupby(found, key=lambda each: len(each.columns))
    tables = [(size, list(rows)) for size, rows in sizes if size > 0]
    return [(describe_count(len(rows), columns=size), _describe_margins(rows), rows) for size, rows in tables]


def _describe_margins(found: Sequence[CountPrecision]) -> str:
    least, most = (format_number(math.ceil(each.margin)) for each in (found[-1], found[0]))
    return f"± {most} rows" if least == most else f"± {least} to {most} rows"


def _chart_specs(document: ReportDocument) -> dict[str, Any]:
    specs = {"budget": charts.budget_chart(document.stages)}
    for place, column in enumerate(document.columns[:MAX_CHARTS], start=1):
        specs[f"column-{place}"] = charts.column_chart(column)
    if document.pairs:
        specs["pairs"] = charts.pairs_chart(document.pairs[:WORST_SHOWN])
    return specs
