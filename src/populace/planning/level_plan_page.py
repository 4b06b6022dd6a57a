"""The page of the plan of a hierarchical release: margins of error by level and table, and the budget."""

from __future__ import annotations

import math
from typing import Any

from populace.planning import level_plan_text as summary
from populace.planning.level_plan import GeographyPlan, describe_level, format_count
from populace.planning.plan_page import LETTER_PIXELS, LETTERS
from populace.release.report.charts import ACCENT, BAR, CONFIG, INK, budget_chart, shorten_labels
from populace.release.report.render import load_templates
from populace.release.report.vega_scripts import draw_for_page
from populace.release.statement.cost import BudgetStage
from populace.release.statement.membership_power import describe_protection

TICK_EXPR = "format(datum.value, datum.value < 1 ? '~g' : '~s')"


def render_level_plan(plan: GeographyPlan) -> str:
    """Return the page of a plan."""
    stages = [
        BudgetStage(label=level.name, noise="", mechanism="", share=level.share)
        for level in plan.levels
        if level.share
    ]
    return (
        load_templates()
        .get_template("level_plan.html")
        .render(
            plan=plan,
            verdicts=[
                describe_protection(plan.membership_power),
                *(describe_level(level, plan) for level in plan.levels),
            ],
            more=[*summary.summarize_level_target(plan), *summary.summarize_cells(plan)],
            assumptions=summary.summarize_margins(plan),
            count=format_count,
            root=math.sqrt,
            margins=draw_for_page(lambda width: chart_margins(plan, width=width)),
            budget=draw_for_page(lambda _: budget_chart(stages)),
        )
    )


def chart_margins(plan: GeographyPlan, *, width: int) -> dict[str, Any]:
    """Return margins of error beside the average count, for totals and for all columns together, by level."""
    values = []
    for level in plan.levels:
        for table in dict.fromkeys((level.total, level.tables[-1])):
            if table.margin_high > 0:
                name = f"{level.name}, {'total' if not table.columns else 'cell'}"
                values.append({"row": name, "margin": table.margin, "average": table.average})
    labels = shorten_labels([str(value["row"]) for value in values], LETTERS[width])
    for value, label in zip(values, labels, strict=True):
        value["row"] = label
    beside = LETTER_PIXELS * max(map(len, labels), default=1) + 10
    axis = {"labelLimit": beside, "minExtent": beside}
    x = {
        "type": "quantitative",
        "scale": {"type": "log"},
        "title": f"{plan.plural}, on an axis of logarithms",
        "axis": {"labelExpr": TICK_EXPR, "tickCount": 6 if width > 500 else 3},
    }
    shape = {"field": "what", "type": "nominal", "title": None}
    colours = {"domain": ["margin of error", "average count"], "range": [ACCENT, BAR]}
    points = [
        {"row": value["row"], "what": what, "value": value[key]}
        for value in values
        for what, key in (("margin of error", "margin"), ("average count", "average"))
    ]
    return {
        "description": "Median margins of error beside average counts, by level.",
        "width": width - beside - 30,
        "height": {"step": 22},
        "data": {"values": points},
        "encoding": {"y": {"field": "row", "type": "nominal", "sort": None, "title": None, "axis": axis}},
        "layer": [
            {
                "mark": {"type": "line", "color": INK, "strokeWidth": 1},
                "encoding": {"x": {"field": "value", **x}, "detail": {"field": "row"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "x": {"field": "value", **x},
                    "color": shape | {"scale": colours, "legend": {"orient": "top"}},
                    "shape": shape | {"scale": {"domain": colours["domain"], "range": ["circle", "diamond"]}},
                },
            },
        ],
        "config": CONFIG,
    }
