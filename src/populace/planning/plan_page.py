"""A plan as a folder: plan.json for machines, and plan.html, one page with pictures that opens offline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from populace.core.marginals import Clique
from populace.planning import plan_text as summary
from populace.planning.plan import Plan
from populace.planning.simulated.pair_errors import PairError
from populace.release.report.charts import ACCENT, BAR, CONFIG, INK, budget_chart, quantity, shorten_labels
from populace.release.report.render import load_templates
from populace.release.report.vega_scripts import draw_for_page
from populace.release.statement.cost import BudgetStage
from populace.release.statement.membership_power import describe_protection

MAX_COLUMNS_SHOWN = 40
# Pairs in the tables of the page, of the smallest and of the largest errors; and points in the picture.
MAX_PAIRS_SHOWN, MAX_POINTS = 10, 2000
# Points with a label: so many of the smallest errors and of the largest, each so many times the one before or as far
# from it as a label is high, as a part of the chart.
LABELLED, LABEL_GAP, LABEL_HEIGHT = 3, 1.5, 1 / 18
# Letters of the labels of a chart, by its width.
LETTERS = {760: 30, 340: 16}
LETTER_PIXELS, MAX_DECADES = 7, 3


def write_plan(document: Mapping[str, Any], page: str, folder: Path) -> None:
    """Write a plan to a new folder: for machines, and its page."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8")
    (folder / "plan.html").write_text(page, encoding="utf-8")


def render_plan(plan: Plan) -> str:
    """Return the page of a plan: each chart is drawn for wide pages and for phones."""
    stages = [
        BudgetStage(label=label, noise="", mechanism="", share=share) for label, share in plan.budget.items()
    ]

    return (
        load_templates()
        .get_template("plan.html")
        .render(
            plan=plan,
            verdict=[describe_protection(plan.membership_power), *summary.summarize_verdict(plan)],
            columns_range=summary.format_range(plan.columns),
            pairs_range=summary.format_range(plan.pairs) if plan.pairs else "",
            pairs_measured=summary.describe_pairs(plan),
            more=[*summary.summarize_target(plan), *summary.summarize_public_table(plan)],
            assumptions=summary.summarize_assumptions(plan),
            groups_note=summary.GROUPS_NOTE,
            named=summary.select_pairs(plan, each=MAX_PAIRS_SHOWN),
            columns=draw_for_page(lambda width: chart_column_errors(plan, width=width)),
            pairs=draw_for_page(lambda width: chart_pair_errors(plan, width=width)) if plan.by_pair else None,
            budget=draw_for_page(lambda _: budget_chart(stages)),
        )
    )


def chart_pair_errors(plan: Plan, *, width: int) -> dict[str, Any]:
    """Return the chart of the errors of pairs if they are measured, by their cells; of very many it shows some."""
    every = list(plan.by_pair.items())
    step = -(-len(every) // MAX_POINTS)
    labels = _choose_labels(plan, letters=LETTERS[width])
    middle = math.sqrt(every[0][1].cells * max(error.cells for _, error in every))
    values = [
        {
            "cells": error.cells,
            "error": _log_scale_error(error),
            "measured": "yes" if error.measured else "no",
            "label": labels.get(pair, ""),
            "right": error.cells > middle,
        }
        for number, (pair, error) in enumerate(every)
        if pair in labels or number % step == 0
    ]
    shades = {"domain": ["yes", "no"], "range": [ACCENT, BAR]}
    text = {"type": "text", "fontSize": 11, "color": INK, "dy": -8}
    measured = {"field": "measured", "type": "nominal", "scale": shades, "title": "measured in a simulation"}
    return {
        "description": "Expected error of pairs if they are measured, by number of cells.",
        "width": width - 90,
        "height": 280,
        "data": {"values": values},
        "encoding": {
            "x": quantity("cells")
            | {
                "scale": {"type": "log", "nice": True},
                "title": "cells of the pair",
                "axis": {"format": ",", "values": _log_ticks([error.cells for _, error in every])},
            },
            "y": quantity("error")
            | {
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
        "config": CONFIG,
    }


def _choose_labels(plan: Plan, *, letters: int) -> dict[Clique, str]:
    """Return the names of some pairs of the smallest and of the largest errors, far enough apart to be read."""
    chosen: list[Clique] = []
    errors = {pair: _log_scale_error(error) for pair, error in plan.by_pair.items()}
    low, *_, high = _log_ticks(list(errors.values()))
    gap, last = max(LABEL_GAP, (high / low) ** LABEL_HEIGHT), 0.0
    for pair, error in errors.items():
        if error > gap * last:
            chosen.append(pair)
            last = error
    if len(chosen) > 2 * LABELLED:
        chosen = chosen[:LABELLED] + chosen[-LABELLED:]
    names = shorten_labels([" × ".join(pair) for pair in chosen], letters)
    return dict(zip(chosen, names, strict=True))


def chart_column_errors(plan: Plan, *, width: int) -> dict[str, Any]:
    """Return the chart of the errors of columns, the largest first, with their ranges."""
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)[:MAX_COLUMNS_SHOWN]
    labels = shorten_labels([name for name, _ in worst], LETTERS[width])
    values = [
        {"column": label, "error": error.mean, "low": error.low, "high": error.high}
        for label, (_, error) in zip(labels, worst, strict=True)
    ]
    share = {"type": "quantitative", "title": "expected error (total variation)"}
    # Letters are wider in some browsers than where the chart is laid out.
    beside = LETTER_PIXELS * max(map(len, labels)) + 10
    names = {"labelLimit": beside, "minExtent": beside}
    return {
        "description": "Expected error of columns.",
        "width": width - beside - 20,
        "height": {"step": 18},
        "data": {"values": values},
        "encoding": {"y": {"field": "column", "type": "nominal", "sort": None, "title": None, "axis": names}},
        "layer": [
            {
                "mark": {"type": "bar", "fill": BAR, "height": 10},
                "encoding": {
                    "x": {
                        "field": "error",
                        **share,
                        "axis": {"format": ".1~%", "tickCount": 6 if width > 500 else 3},
                    }
                },
            },
            {
                "mark": {"type": "rule", "color": INK},
                "encoding": {"x": {"field": "low", **share}, "x2": {"field": "high"}},
            },
        ],
        "config": CONFIG,
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
