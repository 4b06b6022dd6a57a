"""The chart of the budget of a hierarchy: tiles of levels and queries."""

from __future__ import annotations

from collections.abc import Sequence

from populace.core.number_format import format_number, format_percent
from populace.release.report import charts
from populace.release.report.charts import Spec
from populace.release.report.hierarchy.level_axes import named_rows
from populace.release.report.hierarchy.level_shares import LevelShare


def shares_chart(shares: Sequence[LevelShare], *, plural: str) -> Spec:
    """Return a tile for each level and query with its share of the budget and the noise it bought."""
    levels = list(dict.fromkeys(each.level for each in shares))
    queries = list(dict.fromkeys(each.name for each in shares))
    columns = charts.label_lines(
        [(charts.cut_middle(name, 24), (charts.cut_middle(name, 11),)) for name in queries]
    )
    rows = charts.label_rows(levels)
    values = [
        {
            "place": rows[levels.index(each.level)],
            "column": columns[queries.index(each.name)],
            "level": each.level,
            "query": each.name,
            "share": charts.round_digits(each.share),
            "text": format_percent(each.share),
            "noise": f"σ {format_number(each.deviation)}",
            "noise_text": f"{format_number(each.deviation)} {plural}",
        }
        for each in shares
    ]
    titles = {
        "level": "level",
        "query": "query",
        "text": "share",
        "noise_text": "standard deviation of the noise",
    }
    text = {"type": "text", "color": charts.INK, "baseline": "middle"}
    # Narrow tiles have no room for numbers; the table below has them.
    shown = f"width / {len(queries)}"
    x = {
        "field": "column",
        "type": "nominal",
        "sort": None,
        "title": None,
        "scale": {"domain": columns},
        "axis": {
            "labelExpr": charts.LABEL_EXPR,
            "labelLimit": 0,
            "labelFontSize": 10,
            "ticks": False,
            "domain": False,
            "orient": "top",
            "labelOverlap": False,
            **({"labelAngle": 0} if len(queries) <= 4 else {"labelAngle": -45, "labelAlign": "left"}),
        },
    }
    tile = {"type": "rect", "fill": charts.BAR, "stroke": charts.BAR_EDGE, "strokeWidth": 0.75}
    opacity = {
        **charts.quantity("share"),
        "scale": {"domain": [0, max(each.share for each in shares)], "range": [0.08, 1]},
        "legend": None,
    }
    return charts.make_spec(
        "Shares of the privacy budget, in per cent, by level and query, with the standard deviation σ of the noise "
        f"in each count, in {plural}.",
        values,
        height=42 * len(levels),
        encoding={"y": named_rows(rows), "x": x, "tooltip": charts.make_tooltip(titles)},
        layers=[
            {"mark": tile, "encoding": {"fillOpacity": opacity}},
            {
                "mark": {**text, "dy": -8, "fontSize": {"expr": f"{shown} < 52 ? 0 : 12"}},
                "encoding": {"text": {"field": "text"}},
            },
            {
                "mark": {**text, "dy": 8, "fontSize": {"expr": f"{shown} < 46 ? 0 : 11"}},
                "encoding": {"text": {"field": "noise"}},
            },
        ],
        title="Budget shares and noise σ",
    )
