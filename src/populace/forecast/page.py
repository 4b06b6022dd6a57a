"""A plan as a folder: plan.json for machines, and plan.html, one page with pictures that opens offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from populace.forecast.plan import Plan
from populace.release.cost import Stage
from populace.report import charts

MOST_SHOWN = 40
WIDTH = 620


def write(plan: Plan, folder: Path) -> None:
    """Write a plan to a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plan.to_json(), indent=1, ensure_ascii=False)
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8")
    (folder / "plan.html").write_text(render(plan), encoding="utf-8")


def render(plan: Plan) -> str:
    """Return the page of a plan."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("populace.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters.update(percent=charts.percent)
    stages = [Stage(label=label, noise="", law="", share=share) for label, share in plan.shares.items()]
    return environment.get_template("plan.html").render(
        plan=plan,
        budget=Markup(_svg(charts.budget(stages))),
        columns=Markup(_svg(column_errors(plan))),
    )


def column_errors(plan: Plan) -> dict[str, Any]:
    """Return the chart of the errors of columns, the largest first, with their spread."""
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)[:MOST_SHOWN]
    values = [
        {"column": name, "error": error.mean, "low": error.low, "high": error.high} for name, error in worst
    ]
    share = {"type": "quantitative", "title": "share of rows that noise alone puts into the wrong code"}
    return {
        "description": "Error of columns that noise alone will cause.",
        "width": WIDTH - 160,
        "height": {"step": 18},
        "data": {"values": values},
        "encoding": {"y": {"field": "column", "type": "nominal", "sort": None, "title": None}},
        "layer": [
            {
                "mark": {"type": "bar", "fill": charts.SYNTHETIC, "height": 10},
                "encoding": {"x": {"field": "error", **share, "axis": {"format": ".1~%"}}},
            },
            {
                "mark": {"type": "rule", "color": charts.INK},
                "encoding": {"x": {"field": "low", **share}, "x2": {"field": "high"}},
            },
        ],
        "config": charts.CONFIG,
    }


def _svg(spec: dict[str, Any]) -> str:
    import vl_convert

    fixed = spec | {"width": WIDTH if spec.get("width") == "container" else spec["width"]}
    drawn: str = vl_convert.vegalite_to_svg(fixed)
    return drawn
