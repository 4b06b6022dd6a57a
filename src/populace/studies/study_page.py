"""The report of a study: one page that opens offline, made of its document and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from populace.core.number_format import format_number
from populace.release.report.render import load_templates
from populace.release.report.vega_scripts import draw_for_page
from populace.studies.study_charts import CHARTS


def render_study(document: Mapping[str, Any]) -> str:
    """Return the page of a study as HTML."""
    figures = [
        {
            **figure,
            "drawn": [
                (panel["name"], draw_for_page(partial(_chart, figure["kind"], panel)))
                for panel in figure["panels"]
                if panel.get("boxes") or panel.get("points") or panel.get("users")
            ],
        }
        for figure in document["figures"]
    ]
    return (
        load_templates()
        .get_template("study.html")
        .render(
            study=document,
            figures=figures,
            headline=_list_headlines(document),
            show=_show,
            between=_show_interval,
        )
    )


def _chart(kind: str, panel: Mapping[str, Any], width: int) -> dict[str, Any]:
    return CHARTS[kind](panel, width=width)


def _show(number: float | None) -> str:
    """Return a number for a table: four digits; a dash for none."""
    if number is None:
        return "–"
    return format_number(number) if abs(number) >= 100 else f"{number:.4g}".replace("-", "\N{MINUS SIGN}")


def _show_interval(interval: list[float] | None) -> str:
    return "" if interval is None else f"{_show(interval[0])} to {_show(interval[1])}"


def _list_headlines(document: Mapping[str, Any]) -> list[str]:
    """Return what a reader wants to know first: from which ε on privacy noise is below sampling error."""
    found = []
    for each in document["crossovers"][:8]:
        name = f"{each['query']}, {each['group']}" if each["group"] else each["query"]
        found.append(f"{name} by {each['method']}: {describe_crossover(each)}")
    more = len(document["crossovers"]) - len(found)
    return found + ([f"{more} more are in the table below."] if more > 0 else [])


def describe_crossover(each: Mapping[str, Any]) -> str:
    """Return the ε at which privacy noise falls below sampling error, in words.

    >>> describe_crossover({"epsilon": 0.0312, "bound": "", "interval": [0.025, 0.04]})
    'privacy noise falls below sampling error at ε = 0.0312 (95 % interval 0.025 to 0.04)'
    >>> describe_crossover({"epsilon": 8.0, "bound": "above", "interval": [8.0, 8.0]})
    'privacy noise is above sampling error at every ε up to 8'
    """
    if each["bound"] == "above":
        return f"privacy noise is above sampling error at every ε up to {each['epsilon']:g}"
    if each["bound"] == "at most":
        return f"privacy noise is below sampling error from ε = {each['epsilon']:g} on, the smallest that shows it"
    low, high = each["interval"]
    return (
        f"privacy noise falls below sampling error at ε = {each['epsilon']:.3g} "
        f"(95 % interval {low:.3g} to {high:.3g})"
    )
