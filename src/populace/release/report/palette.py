"""The colours of every page and chart, light and dark: charts name them, style sheets define them.

A chart says `var(--ink)` and takes the colour from the page that shows it, so it follows the reader's colour scheme.
"""

from __future__ import annotations

from typing import Any

# By name: on light pages and on dark ones.
COLOURS = {
    "ink": ("#1f2933", "#e6ebf1"),
    "soft": ("#52606d", "#a9b5c1"),
    "line": ("#d9dee4", "#38434f"),
    "paper": ("#ffffff", "#12171d"),
    "band": ("#f5f7fa", "#1b222a"),
    "accent": ("#3f6797", "#7fa9dc"),
    "link": ("#23507f", "#93bbee"),
    "bar": ("#9fb8d6", "#3f638f"),
    "bar-edge": ("#3f6797", "#8fb1da"),
    "bound": ("#dfe7f1", "#26374a"),
    "bound-edge": ("#b8c6d8", "#4d6480"),
    "grid": ("#e4e7eb", "#2a333d"),
    "axis": ("#9aa5b1", "#6f7e8d"),
    "warning": ("#fff4e5", "#33261a"),
    "warning-stripe": ("#ffe3bf", "#443220"),
    "warning-edge": ("#b42318", "#f0766a"),
    "weak": ("#7a4b00", "#ecb964"),
    "bad": ("#8f1d10", "#ff9d90"),
    "noise": ("#b4690e", "#e39a3b"),
    "noise-soft": ("#f6ddb8", "#5c4423"),
    "imputation": ("#7d8b99", "#94a2b0"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
DARK = {name: dark for name, (_, dark) in COLOURS.items()}


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
