"""The colours of every page and chart, light and dark: charts name them, style sheets define them.

A chart says `var(--ink)` and takes the colour from the page that shows it, so it follows the reader's colour scheme.
"""

from __future__ import annotations

from typing import Any

LIGHT = {
    "ink": "#1f2933",
    "soft": "#52606d",
    "line": "#d9dee4",
    "paper": "#ffffff",
    "band": "#f5f7fa",
    "accent": "#3f6797",
    "link": "#23507f",
    "bar": "#9fb8d6",
    "bar-edge": "#3f6797",
    "bound": "#dfe7f1",
    "bound-edge": "#b8c6d8",
    "grid": "#e4e7eb",
    "axis": "#9aa5b1",
    "warning": "#fff4e5",
    "warning-stripe": "#ffe3bf",
    "warning-edge": "#b42318",
    "weak": "#7a4b00",
    "bad": "#8f1d10",
    "noise": "#b4690e",
    "noise-soft": "#f6ddb8",
    "imputation": "#7d8b99",
}
DARK = {
    "ink": "#e6ebf1",
    "soft": "#a9b5c1",
    "line": "#38434f",
    "paper": "#12171d",
    "band": "#1b222a",
    "accent": "#7fa9dc",
    "link": "#93bbee",
    "bar": "#3f638f",
    "bar-edge": "#8fb1da",
    "bound": "#26374a",
    "bound-edge": "#4d6480",
    "grid": "#2a333d",
    "axis": "#6f7e8d",
    "warning": "#33261a",
    "warning-stripe": "#443220",
    "warning-edge": "#f0766a",
    "weak": "#ecb964",
    "bad": "#ff9d90",
    "noise": "#e39a3b",
    "noise-soft": "#5c4423",
    "imputation": "#94a2b0",
}


def colour(name: str) -> str:
    """Return a colour as charts and style sheets refer to it.

    >>> colour("ink")
    'var(--ink)'
    """
    if name not in LIGHT:
        raise KeyError(name)
    return f"var(--{name})"


def fill_colours(spec: Any) -> Any:
    """Return a chart with the light colours themselves, for pictures that no page shows.

    >>> fill_colours({"color": [colour("paper")]})
    {'color': ['#ffffff']}
    """
    if isinstance(spec, dict):
        return {key: fill_colours(part) for key, part in spec.items()}
    if isinstance(spec, list):
        return [fill_colours(part) for part in spec]
    if isinstance(spec, str) and spec.startswith("var(--"):
        return LIGHT[spec[len("var(--") : -1]]
    return spec
