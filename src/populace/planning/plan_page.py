"""A plan as a folder: plan.json for machines, and plan.html, one page with pictures that opens offline."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from populace.planning.plan import Plan
from populace.planning.simulated.pair_errors import PairError
from populace.planning.simulated.simulated_run import ASSUMED_BINS, ASSUMED_VALUES
from populace.planning.verdict import (
    COARSE_SIZES,
    MAX_ERROR_ENOUGH,
    MAX_ERROR_FEW,
    MAX_RELATIVE_PAIR_ERROR,
    MIN_COLUMNS_LEFT,
)
from populace.release.report import charts
from populace.release.report.html_templates import load_templates
from populace.release.report.vega_scripts import convert_errors
from populace.release.statement.cost import BudgetStage

MAX_COLUMNS_SHOWN = 40
# Pairs in the tables of the page, of the smallest and of the largest errors; and points in the picture.
MAX_PAIRS_SHOWN, MAX_POINTS = 10, 2000
WIDTH, MAX_DECADES = 760, 3
# Room beside a chart for names: so many pixels a letter, up to so many in all; longer names are cut.
LETTER_PIXELS, MAX_LABEL_PIXELS = 7, 260


def write_plan(plan: Plan, folder: Path) -> None:
    """Write a plan to a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plan.to_json(), indent=1, ensure_ascii=False)
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8")
    (folder / "plan.html").write_text(render_plan(plan), encoding="utf-8")


def render_plan(plan: Plan) -> str:
    """Return the page of a plan."""
    from markupsafe import Markup

    stages = [
        BudgetStage(label=label, noise="", mechanism="", share=share) for label, share in plan.shares.items()
    ]
    return (
        load_templates()
        .get_template("plan.html")
        .render(
            plan=plan,
            budget=Markup(_draw_svg(charts.budget_chart(stages))),
            columns=Markup(_draw_svg(chart_column_errors(plan))),
            pairs=Markup(_draw_svg(chart_pair_errors(plan))) if plan.by_pair else None,
            named=select_pairs(plan),
            rehearsals=plan.rehearsals,
            coarse=COARSE_SIZES[-1],
            thin=MAX_ERROR_ENOUGH,
            too_small=MAX_ERROR_FEW,
            no_use=MAX_RELATIVE_PAIR_ERROR,
            counted=counted,
            least=MIN_COLUMNS_LEFT,
            values=ASSUMED_VALUES,
            bins=ASSUMED_BINS,
        )
    )


def counted(number: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "pair"), counted(1200, "pair")
    ('1 pair', '1,200 pairs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def select_pairs(plan: Plan) -> list[tuple[str, PairError]]:
    """Return the pairs of the smallest and of the largest errors, in the order of these."""
    every = [(" × ".join(pair), told) for pair, told in plan.by_pair.items()]
    return every if len(every) <= 2 * MAX_PAIRS_SHOWN else every[:MAX_PAIRS_SHOWN] + every[-MAX_PAIRS_SHOWN:]


def chart_pair_errors(plan: Plan) -> dict[str, Any]:
    """Return the chart of what pairs err by if they are measured, by their cells; of very many it shows some."""
    every = list(plan.by_pair.items())
    step = -(-len(every) // MAX_POINTS)
    values = [
        {
            "pair": " × ".join(pair),
            "cells": told.cells,
            "error": _log_scale_error(told),
            "likely": "yes" if told.measured else "no",
        }
        for pair, told in every[::step]
    ]
    shades = {"domain": ["yes", "no"], "range": [charts.ACCENT, charts.BAR]}
    return {
        "description": "Error of pairs that noise alone will cause if they are measured, by number of cells.",
        "width": WIDTH - 160,
        "height": 260,
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.7},
        "encoding": {
            "x": {
                "field": "cells",
                "type": "quantitative",
                "scale": {"type": "log", "nice": True},
                "title": "cells of the pair",
                "axis": {"format": ",", "values": _log_ticks([told.cells for _, told in every])},
            },
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "share of rows in the wrong cell, if measured",
                "axis": {
                    "labelExpr": charts.PERCENT_EXPR,
                    "values": _log_ticks([_log_scale_error(told) for _, told in every], between=(2, 5)),
                },
            },
            "color": {
                "field": "likely",
                "type": "nominal",
                "scale": shades,
                "title": "measured in a rehearsal",
                "legend": {"orient": "top"},
            },
        },
        "config": charts.CONFIG,
    }


def chart_column_errors(plan: Plan) -> dict[str, Any]:
    """Return the chart of the errors of columns, the largest first, with their spread."""
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)[:MAX_COLUMNS_SHOWN]
    values = [
        {"column": name, "error": error.mean, "low": error.low, "high": error.high} for name, error in worst
    ]
    share = {"type": "quantitative", "title": "share of rows that noise alone puts into the wrong code"}
    # Letters are wider in some browsers than where the chart is laid out.
    room = min(MAX_LABEL_PIXELS, LETTER_PIXELS * max(len(name) for name, _ in worst) + 10)
    names = {"labelLimit": MAX_LABEL_PIXELS * 3 // 4, "minExtent": room}
    return {
        "description": "Error of columns that noise alone will cause.",
        "width": WIDTH - room - 20,
        "height": {"step": 18},
        "data": {"values": values},
        "encoding": {"y": {"field": "column", "type": "nominal", "sort": None, "title": None, "axis": names}},
        "layer": [
            {
                "mark": {"type": "bar", "fill": charts.BAR, "height": 10},
                "encoding": {
                    "x": {
                        "field": "error",
                        **share,
                        "axis": {"labelExpr": charts.PERCENT_EXPR, "tickCount": 6},
                    }
                },
            },
            {
                "mark": {"type": "rule", "color": charts.INK},
                "encoding": {"x": {"field": "low", **share}, "x2": {"field": "high"}},
            },
        ],
        "config": charts.CONFIG,
    }


def _log_scale_error(told: PairError) -> float:
    """Return the error of a pair where a logarithm has a place for it: it has none for nothing."""
    return max(told.error.mean, 1e-6)


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
