"""Reports as HTML files that open offline: templates, the formats of numbers, and JSON that a page may hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from populace.core.number_format import (
    format_exact,
    format_number,
    format_percent,
    format_percent_bound,
    format_with_error,
)
from populace.measurements.measurements import describe_count
from populace.release.report import charts
from populace.release.report.heat_maps import pair_heat_map
from populace.release.report.palette import DARK, LIGHT
from populace.release.report.report_data import CountPrecision, ReportDocument
from populace.release.report.vega_scripts import load_scripts
from populace.release.statement.statement import describe_parts
from populace.release.statement.unpaired_columns import describe_ties

if TYPE_CHECKING:
    from jinja2 import Environment

# The columns and pairs of the largest error bounds are shown at once; charts of more columns than these are not drawn.
WORST_SHOWN = 12
MAX_CHARTS = 120
# A map of more columns has labels that nobody can read.
MAX_HEAT_COLUMNS = 60
SYMBOLS = {"CLOSE": "●", "ROUGH": "◐", "WEAK": "○", "LOST": "~", "FAR": "▲", "OUTSIDE": "✕"}
FORMATS: Mapping[str, Callable[..., str]] = {
    "number": format_number,
    "percent": format_percent,
    "bound": format_percent_bound,
    "with_error": format_with_error,
    "exact": format_exact,
    "unbroken": lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%"),
}


@cache
def load_templates() -> Environment:
    """Return the templates of all pages; the formats of numbers are filters, and `palette` has the colours."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("populace.release.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FORMATS, ceiling=math.ceil)
    made.globals["palette"] = {"light": LIGHT, "dark": DARK}
    return made


def render_page(template: str, document: Any, *, charts: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    """Return a report as one HTML file that opens offline. The same document gives the same bytes.

    The scripts come from the installed vl-convert package; nothing is fetched, then or when it is read.
    """
    return (
        load_templates()
        .get_template(template)
        .render(
            document=document,
            statement=document.statement,
            guarantee=describe_parts(document.statement),
            specs_json=embed_json(charts),
            document_json=embed_json(to_plain(document)),
            script=load_scripts(),
            **more,
        )
    )


def to_plain(value: Any) -> Any:
    """Return a document as plain JSON values, floats to six significant digits.

    A dataclass may name properties that belong to it as `derived`.
    """
    if is_dataclass(value) and not isinstance(value, type):
        names = [*(part.name for part in fields(value)), *getattr(value, "derived", ())]
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return value  # the statement: its numbers are promises and stay as they are
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def embed_json(value: Any) -> str:
    """Return JSON that no HTML parser takes for markup, whatever the labels hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def render_report(document: ReportDocument) -> str:
    """Return the report of a document as HTML."""
    specs = _chart_specs(document)
    likely = [column.comparison.likely for column in document.columns]
    likely += [pair.comparison.likely for pair in document.pairs]
    return render_page(
        "report.html",
        document,
        charts=specs,
        more={
            "worst": document.columns[:WORST_SHOWN],
            "other": document.columns[WORST_SHOWN:MAX_CHARTS],
            "precision": _group_by_size(document.precision),
            "clipped": {column.name for column in document.columns if charts.is_clipped(column)},
            "bootstrapped": any(error is not None for error in likely),
            "symbols": SYMBOLS,
            "mapped": "heat" in specs,
            "ties": describe_ties(bool(document.statement["rules"])),
        },
    )


def _group_by_size(found: Sequence[CountPrecision]) -> list[tuple[str, str, list[CountPrecision]]]:
    """Return columns, pairs and larger tables apart: their name, the range of their margins, and each of them."""
    tables = []
    for size, alike in groupby(found, key=lambda each: len(each.columns)):
        rows = list(alike)
        ends = dict.fromkeys(format_number(math.ceil(each.margin)) for each in (rows[-1], rows[0]))
        if size > 0:
            tables.append((describe_count(len(rows), columns=size), f"± {' to '.join(ends)} rows", rows))
    return tables


def _chart_specs(document: ReportDocument) -> dict[str, Any]:
    specs = {"budget": charts.budget_chart(document.stages)}
    for place, column in enumerate(document.columns[:MAX_CHARTS], start=1):
        specs[f"column-{place}"] = charts.column_chart(column)
    if document.pairs:
        specs["pairs"] = charts.pairs_chart(document.pairs[:WORST_SHOWN])
        if len({name for pair in document.pairs for name in pair.columns}) <= MAX_HEAT_COLUMNS:
            specs["heat"] = pair_heat_map(document.pairs)
    return specs
