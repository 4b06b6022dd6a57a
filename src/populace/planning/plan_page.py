"""A plan as a folder: plan.json for machines, and plan.html, one page with pictures that opens offline."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from populace.core.marginals import Clique
from populace.core.number_format import format_percent
from populace.planning import plan_summary as summary
from populace.planning.plan import Plan
from populace.planning.simulated.pair_errors import PairError
from populace.release.report import charts
from populace.release.report.vega_scripts import convert_errors
from populace.release.statement.cost import BudgetStage
from populace.release.statement.statement import format_exact

MAX_COLUMNS_SHOWN = 40
# Pairs in the tables of the page, of the smallest and of the largest errors; and points in the picture.
MAX_PAIRS_SHOWN, MAX_POINTS = 10, 2000
# Points with a label: so many of the smallest errors and of the largest, at places of their own.
LABELLED = 3
WIDTH, MAX_DECADES = 760, 3
# Space beside a chart for names: so many pixels a letter, up to so many in all; longer names are cut.
LETTER_PIXELS, MAX_LABEL_PIXELS = 7, 260


def write_plan(plan: Plan, folder: Path) -> None:
    """Write a plan to a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plan.to_json(), indent=1, ensure_ascii=False)
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8")
    (folder / "plan.html").write_text(render_plan(plan), encoding="utf-8")


def render_plan(plan: Plan) -> str:
    """Return the page of a plan."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("populace.release.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters.update(percent=format_percent, exact=format_exact, range=summary.format_range)
    stages = [
        BudgetStage(label=label, noise="", mechanism="", share=share) for label, share in plan.budget.items()
    ]
    return environment.get_template("plan.html").render(
        plan=plan,
        verdict=summary.summarize_verdict(plan),
        pairs_measured=summary.describe_pairs(plan),
        more=[*summary.summarize_target(plan), *summary.summarize_public_table(plan)],
        assumptions=summary.summarize_assumptions(plan),
        groups_note=summary.GROUPS_NOTE,
        named=summary.select_pairs(plan, each=MAX_PAIRS_SHOWN),
        columns=Markup(_draw_svg(chart_column_errors(plan))),
        pairs=Markup(_draw_svg(chart_pair_errors(plan))) if plan.by_pair else None,
        budget=Markup(_draw_svg(charts.budget_chart(stages))),
    )


def chart_pair_errors(plan: Plan) -> dict[str, Any]:
    """Return the chart of the errors of pairs if they are measured, by their cells; of very many it shows some."""
    every = list(plan.by_pair.items())
    step = -(-len(every) // MAX_POINTS)
    labels = _choose_labels(plan)
    middle = math.sqrt(every[0][1].cells * max(error.cells for _, error in every))
    values = [
        {
            "cells": error.cells,
            "error": _log_scale_error(error),
            "measured": "yes" if error.measured else "no",
            "label": labels.get(pair, ""),
            "right": error.cells > middle,
        }
        for pair, error in every
        if pair in labels or every.index((pair, error)) % step == 0
    ]
    shades = {"domain": ["yes", "no"], "range": [charts.SPENT_FILL, charts.SYNTHETIC]}
    text = {"type": "text", "fontSize": 11, "color": charts.INK, "dy": -8}
    measured = {"field": "measured", "type": "nominal", "scale": shades, "title": "measured in a simulation"}
    return {
        "description": "Expected error of pairs if they are measured, by number of cells.",
        "width": WIDTH - 100,
        "height": 280,
        "data": {"values": values},
        "encoding": {
            "x": {
                "field": "cells",
                "type": "quantitative",
                "scale": {"type": "log", "nice": True},
                "title": "cells of the pair",
                "axis": {"format": ",", "values": _log_ticks([error.cells for _, error in every])},
            },
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "expected error, if measured",
                "axis": {
                    "format": ".2~%",
                    "values": _log_ticks([_log_scale_error(error) for _, error in every], between=(2, 5)),
                },
            },
        },
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 26, "opacity": 0.8},
                "encoding": {"color": measured | {"legend": {"orient": "top"}}},
            },
            *(
                {
                    "transform": [{"filter": f"datum.label != '' && datum.right == {str(right).lower()}"}],
                    "mark": text | {"align": "right" if right else "left"},
                    "encoding": {"text": {"field": "label"}},
                }
                for right in (False, True)
            ),
        ],
        "config": charts.CONFIG,
    }


def _choose_labels(plan: Plan) -> dict[Clique, str]:
    """Return the names of pairs of the smallest and of the largest errors, one at each place of the chart."""
    places: dict[tuple[int, float], Clique] = {}
    for pair, error in plan.by_pair.items():
        places.setdefault((error.cells, error.error.mean), pair)
    pairs = list(places.values())
    chosen = pairs if len(pairs) <= 2 * LABELLED else pairs[:LABELLED] + pairs[-LABELLED:]
    return {pair: " × ".join(pair) for pair in chosen}


def chart_column_errors(plan: Plan) -> dict[str, Any]:
    """Return the chart of the errors of columns, the largest first, with their ranges."""
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)[:MAX_COLUMNS_SHOWN]
    values = [
        {"column": name, "error": error.mean, "low": error.low, "high": error.high} for name, error in worst
    ]
    share = {"type": "quantitative", "title": "expected error (total variation)"}
    # Letters are wider in some browsers than where the chart is laid out.
    beside = min(MAX_LABEL_PIXELS, LETTER_PIXELS * max(len(name) for name, _ in worst) + 10)
    names = {"labelLimit": MAX_LABEL_PIXELS * 3 // 4, "minExtent": beside}
    return {
        "description": "Expected error of columns.",
        "width": WIDTH - beside - 20,
        "height": {"step": 18},
        "data": {"values": values},
        "encoding": {"y": {"field": "column", "type": "nominal", "sort": None, "title": None, "axis": names}},
        "layer": [
            {
                "mark": {"type": "bar", "fill": charts.SYNTHETIC, "height": 10},
                "encoding": {"x": {"field": "error", **share, "axis": {"format": ".1~%", "tickCount": 6}}},
            },
            {
                "mark": {"type": "rule", "color": charts.INK},
                "encoding": {"x": {"field": "low", **share}, "x2": {"field": "high"}},
            },
        ],
        "config": charts.CONFIG,
    }


def _log_scale_error(pair: PairError) -> float:
    """Return the error of a pair where a logarithm has a place for it: it has none for nothing."""
    return max(pair.error.mean, 1e-6)


def _log_ticks(values: Sequence[float], *, between: tuple[int, ...] = ()) -> list[float]:
    """Return the powers of ten around some numbers, and some between; marks at all others would run into each other.

    >>> _log_ticks([30, 2000]), _log_ticks([0.03, 0.2], between=(2, 5))
    ([10.0, 100.0, 1000.0, 10000.0], [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
    """
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    if last - first > MAX_DECADES:
        between = ()
    found = [float(f"{times}e{power}") for power in range(first, last) for times in (1, *between)]
    return [*found, float(f"1e{last}")]


def _draw_svg(spec: dict[str, Any]) -> str:
    import vl_convert

    fixed = spec | {"width": WIDTH if spec.get("width") == "container" else spec["width"]}
    with convert_errors("the charts of the page could not be drawn."):
        drawn: str = vl_convert.vegalite_to_svg(fixed)
    return drawn
