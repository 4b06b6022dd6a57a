"""What every page shares: templates, and JSON that a page may hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def make_environment(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Return the templates of this package, with filters by their names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("populace.release.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({"number": format_number, **filters})
    return made


def format_number(value: float) -> str:
    """Return a number for reading: three significant digits, thousands apart.

    >>> format_number(12345.6).split(), format_number(0.01234), format_number(7.0)
    (['12', '346'], '0.0123', '7')
    """
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.3g}"


def embed_json(value: Any) -> str:
    """Return JSON that no HTML parser takes for markup, whatever the labels hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
