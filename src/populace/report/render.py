"""The report as one HTML file that opens offline: the document, its charts and the scripts that draw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from populace.measurements import counted
from populace.report import charts
from populace.report.document import Document
from populace.report.pages import environment, for_script, number
from populace.report.scripts import script
from populace.report.shares import percent
from populace.report.sure import Sure

if TYPE_CHECKING:
    from jinja2 import Template

WORST = 12
MOST_CHARTS = 120


def render(document: Document) -> str:
    """Return the report of a document as HTML. The same document gives the same bytes.

    The scripts come from the installed vl-convert package; nothing is fetched, then or when it is read.
    """
    return _page().render(
        document=document,
        statement=document.statement,
        worst=document.columns[:WORST],
        other=document.columns[WORST:MOST_CHARTS],
        worst_pairs=document.pairs[:WORST],
        sure=_by_kind(document.sure),
        rehearsed=any(
            comparison.likely is not None
            for comparison in (
                *(column.comparison for column in document.columns),
                *(pair.comparison for pair in document.pairs),
            )
        ),
        specs_json=for_script(_specs(document)),
        document_json=for_script(document.to_json()),
        script=script(),
    )


@lru_cache(maxsize=1)
def _page() -> Template:
    filters: dict[str, Callable[..., Any]] = {
        "percent": percent,
        "ceiling": math.ceil,
        "reaches": _reaches,
        "reaches_beyond": charts.reaches_beyond,
    }
    return environment(filters).get_template("report.html")


def _by_kind(found: Sequence[Sure]) -> list[tuple[str, list[Sure]]]:
    """Return what is known of columns, of pairs and of larger tables, under their names."""
    kinds = groupby(found, key=lambda sure: len(sure.columns))
    same = [(size, list(rows)) for size, rows in kinds if size > 0]
    return [(counted(len(rows), columns=size), rows) for size, rows in same]


def _reaches(found: Sequence[Sure]) -> str:
    """Return how far intervals reach in words: from the surest table to the least sure."""
    least, most = (number(math.ceil(sure.reach)) for sure in (found[-1], found[0]))
    return f"± {most} rows" if least == most else f"± {least} to {most} rows"


def _specs(document: Document) -> dict[str, Any]:
    specs = {"budget": charts.budget(document.stages)}
    for place, column in enumerate(document.columns[:MOST_CHARTS], start=1):
        specs[f"column-{place}"] = charts.column(column)
    if document.pairs:
        specs["pairs"] = charts.pairs(document.pairs[:WORST])
    return specs
