"""Compact HTML for notebooks: a headline, facts and a table with bars, in the colours of the page around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_BAR = "display:inline-block;height:.7em;border-radius:2px;background:#4c8bd6;vertical-align:baseline;width:"
_CELL = (
    "padding:2px 10px 2px 0;text-align:left;border:0;background:none;color:inherit;vertical-align:baseline"
)
_LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.35);background:none"


def render_card(
    title: str,
    facts: Mapping[str, object],
    *,
    header: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
    note: str = "",
) -> str:
    """Return a card; every text is escaped, and a `Bar` among the cells of a row is drawn.

    >>> render_card("Release", {"ε": 1})[:45]
    '<div style="font:inherit;color:inherit"><p><b'
    """
    shown = " · ".join(f"{escape(key)} {escape(str(value))}" for key, value in facts.items())
    parts = [f"<p><b>{escape(title)}</b><br>{shown}</p>"]
    if rows:
        head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in header)
        body = "".join(
            f'<tr style="{_LINE}">'
            + "".join(f'<td style="{_CELL}">{_cell(each)}</td>' for each in row)
            + "</tr>"
            for row in rows
        )
        parts.append(f'<table style="border-collapse:collapse"><tr style="{_LINE}">{head}</tr>{body}</table>')
    if note:
        parts.append(f'<p style="opacity:.7">{escape(note)}</p>')
    return f'<div style="font:inherit;color:inherit">{"".join(parts)}</div>'


class Bar(float):
    """A share between 0 and 1, to be drawn."""


def _cell(value: object) -> str:
    if isinstance(value, Bar):
        return f'<span style="{_BAR}{100 * min(max(value, 0.0), 1.0):.0f}px"></span>'
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
