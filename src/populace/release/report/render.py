"""The report as one HTML file that opens offline: the document, its charts and the scripts that draw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from populace.core.number_format import format_percent
from populace.measurements.measurements import describe_count
from populace.release.report import charts
from populace.release.report.count_precision import CountPrecision
from populace.release.report.document import ReportDocument
from populace.release.report.html_templates import embed_json, format_number, make_environment
from populace.release.report.vega_scripts import load_scripts

if TYPE_CHECKING:
    from jinja2 import Template

WORST_SHOWN = 12
MAX_CHARTS = 120


def render_report(document: ReportDocument) -> str:
    """Return the report of a document as HTML. The same document gives the same bytes.

    The scripts come from the installed vl-convert package; nothing is fetched, then or when it is read.
    """
    return _template().render(
        document=document,
        statement=document.statement,
        worst=document.columns[:WORST_SHOWN],
        other=document.columns[WORST_SHOWN:MAX_CHARTS],
        worst_pairs=document.pairs[:WORST_SHOWN],
        sure=_group_by_size(document.sure),
        rehearsed=any(
            comparison.likely is not None
            for comparison in (
                *(column.comparison for column in document.columns),
                *(pair.comparison for pair in document.pairs),
            )
        ),
        specs_json=embed_json(_chart_specs(document)),
        document_json=embed_json(document.to_json()),
        script=load_scripts(),
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    filters: dict[str, Callable[..., Any]] = {
        "percent": format_percent,
        "ceiling": math.ceil,
        "reaches": _describe_margins,
        "reaches_beyond": charts.is_clipped,
    }
    return make_environment(filters).get_template("report.html")


def _group_by_size(found: Sequence[CountPrecision]) -> list[tuple[str, list[CountPrecision]]]:
    """Return what is known of columns, of pairs and of larger tables, under their names."""
    kinds = groupby(found, key=lambda sure: len(sure.columns))
    same = [(size, list(rows)) for size, rows in kinds if size > 0]
    return [(describe_count(len(rows), columns=size), rows) for size, rows in same]


def _describe_margins(found: Sequence[CountPrecision]) -> str:
    """Return how far intervals reach in words: from the surest table to the least sure."""
    least, most = (format_number(math.ceil(sure.reach)) for sure in (found[-1], found[0]))
    return f"± {most} rows" if least == most else f"± {least} to {most} rows"


def _chart_specs(document: ReportDocument) -> dict[str, Any]:
    specs = {"budget": charts.budget_chart(document.stages)}
    for place, column in enumerate(document.columns[:MAX_CHARTS], start=1):
        specs[f"column-{place}"] = charts.column_chart(column)
    if document.pairs:
        specs["pairs"] = charts.pairs_chart(document.pairs[:WORST_SHOWN])
    return specs
