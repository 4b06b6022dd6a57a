"""What every page shares: templates, the formats of numbers, and JSON that a page may hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from populace.core.number_format import (
    format_exact,
    format_number,
    format_percent,
    format_percent_bound,
    format_with_error,
)
from populace.release.report.palette import DARK, LIGHT
from populace.release.report.vega_scripts import load_scripts

if TYPE_CHECKING:
    from jinja2 import Environment

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
