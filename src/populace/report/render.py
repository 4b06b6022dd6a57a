"""The report as one HTML file that opens offline: the document, its charts and the scripts that draw them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from populace.errors import ResourceError
from populace.measurements import counted
from populace.report import charts
from populace.report.document import Document
from populace.report.sure import Sure

WORST = 12
MOST_CHARTS = 120


def render(document: Document) -> str:
    """Return the report of a document as HTML. The same document gives the same bytes.

    The scripts are cut out of the installed vl-convert package; nothing is fetched, then or when it is read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("populace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=charts.percent,
        number=number,
        ceiling=math.ceil,
        reaches=_reaches,
        reaches_beyond=charts.reaches_beyond,
    )
    page = environment.get_template("report.html")
    return page.render(
        document=document,
        statement=document.statement,
        worst=document.columns[:WORST],
        other=document.columns[WORST:MOST_CHARTS],
        worst_pairs=document.pairs[:WORST],
        sure=_by_kind(document.sure),
        specs_json=_for_script(_specs(document)),
        document_json=_for_script(document.to_json()),
        script=_script(),
    )


def number(value: float) -> str:
    """Return a number for reading: three significant digits, thousands apart.

    >>> number(12345.6).split(), number(0.01234), number(7.0)
    (['12', '346'], '0.0123', '7')
    """
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.3g}"


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


def _for_script(value: Any) -> str:
    """Return JSON that no HTML parser takes for markup, whatever the labels hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@lru_cache(maxsize=1)
def _script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    try:
        script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    except (ValueError, OSError, MemoryError) as failure:
        raise ResourceError(
            "the scripts of the report could not be put together.",
            hint="free some memory and disk space, or install vl-convert-python again",
        ) from failure
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
