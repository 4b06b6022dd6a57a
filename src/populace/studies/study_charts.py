"""The charts of a study's report, as Vega-Lite specifications for a page of so many pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from populace.release.report.charts import CONFIG, INK, quantity, shorten_labels
from populace.release.report.palette import colour

Spec = dict[str, Any]
COLOURS = [colour(name) for name in ("noise", "bar", "accent", "imputation", "bad", "weak")]
HEIGHT, AXIS_PIXELS, PHONE = 260, 84, 500
TICKS = [0, 1, 2, 5, *(times * 10**power for power in range(1, 7) for times in (1, 2, 5))]
# Points that the line of the mean bias averages over.
BIAS_WINDOW = 50


def box_chart(panel: Mapping[str, Any], *, width: int) -> Spec:
    """Return boxes of quartiles with whiskers of the middle 90 %, side by side, and the truth as a line."""
    boxes, truth = panel["boxes"], panel["truth"]
    names = list(dict.fromkeys(box["series"] for box in boxes))
    places = list(dict.fromkeys(box["place"] for box in boxes))
    labels = dict(zip(places, shorten_labels(places, 26 if width > PHONE else 12), strict=True))
    slanted = max(map(len, labels.values())) * 7 * len(places) > width - AXIS_PIXELS
    size = max(2.0, 0.62 * (width - AXIS_PIXELS) / max(1, len(places) * len(names)))
    values = [{**box, "place": labels[box["place"]]} for box in boxes]
    axis = {"title": None, "labelAngle": -35 if slanted else 0, "labelLimit": 0, "grid": False}
    scale = {"domain": names, "range": [COLOURS[place % len(COLOURS)] for place in range(len(names))]}
    series = {"field": "series", "type": "nominal", "sort": names}
    number = {"title": panel["name"], "scale": {"zero": False}, "axis": {"minExtent": 54}}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": INK},
            "encoding": {"y": quantity("p5") | number, "y2": {"field": "p95"}},
        },
        {
            "mark": {"type": "bar", "size": size, "stroke": INK, "strokeWidth": 0.6},
            "encoding": {
                "y": quantity("p25") | number,
                "y2": {"field": "p75"},
                "color": series | {"scale": scale, "legend": _legend(width) if len(names) > 1 else None},
            },
        },
        {
            "mark": {"type": "tick", "size": size, "thickness": 2, "color": INK},
            "encoding": {"y": quantity("p50") | number},
        },
    ]
    if truth is not None:
        layers.append(_truth_rule("y", truth))
    return {
        "description": f"Box plots of {panel['name']}.",
        "width": width - AXIS_PIXELS,
        "height": HEIGHT,
        "data": {"values": values},
        "encoding": {
            "x": {"field": "place", "type": "nominal", "sort": list(labels.values()), "axis": axis},
            "xOffset": series,
        },
        "layer": layers,
        "config": CONFIG,
    }


def _legend(width: int) -> Spec:
    """Return a legend above a chart; letters may be wider on the page than where it is laid out."""
    columns = 1 if width < PHONE else 2
    return {"orient": "top", "title": None, "labelLimit": 0, "columnPadding": 48, "columns": columns}


def _truth_rule(axis: str, truth: float) -> Spec:
    return {
        "data": {"values": [{"truth": truth}]},
        "mark": {"type": "rule", "color": colour("bad"), "strokeDash": [5, 3], "strokeWidth": 1.5},
        "encoding": {axis: quantity("truth"), "x" if axis == "y" else "y": None, "xOffset": None},
    }


def bias_chart(panel: Mapping[str, Any], *, width: int) -> Spec:
    """Return B of each count against its true count, the mean over near ones as a line, and the size of the noise."""
    points = panel["points"]
    line = running_mean([(point["truth"], point["b"]) for point in points])
    x = quantity("truth") | {
        "scale": {"type": "symlog", "nice": True},
        "title": "true count",
        "axis": {"values": TICKS},
    }
    y = quantity("b") | {"scale": {"domain": [-1, 1]}, "title": "B = (σ₊² − σ₋²)/(σ₊² + σ₋²)"}
    return {
        "description": "Bias B of every count against its true count.",
        "width": width - AXIS_PIXELS,
        "height": HEIGHT + 40,
        "data": {"values": points},
        "layer": [
            {
                "mark": {
                    "type": "point",
                    "filled": True,
                    "size": 16,
                    "opacity": 0.55,
                    "color": colour("accent"),
                },
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [{"truth": first, "b": second} for first, second in line]},
                "mark": {"type": "line", "color": colour("bad"), "strokeWidth": 2},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [{"truth": panel["noise"]}]},
                "mark": {"type": "rule", "color": INK, "strokeDash": [5, 3]},
                "encoding": {"x": x},
            },
            {
                "data": {"values": [{"b": 0}]},
                "mark": {"type": "rule", "color": colour("axis")},
                "encoding": {"y": y},
            },
        ],
        "config": CONFIG,
    }


def running_mean(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return means of so many neighbouring points, in the order of their first number.

    >>> running_mean([(1.0, 1.0), (2.0, 0.0)])
    [(1.5, 0.5)]
    """
    window = min(BIAS_WINDOW, len(points))
    if not window:
        return []
    numbers = np.array(points)
    means = np.stack(
        [np.convolve(column, np.full(window, 1 / window), mode="valid") for column in numbers.T], axis=1
    )
    return [(float(first), float(second)) for first, second in means]


def interval_chart(panel: Mapping[str, Any], *, width: int) -> Spec:
    """Return the producer's view, published numbers around the truth, above the users': intervals around each."""
    low, middle, high = panel["producer"] or (None, None, None)
    names = {"producer": "published numbers, 95 %", "user": "interval of one release"}
    rows = [{"row": 0, "low": low, "estimate": middle, "high": high, "view": names["producer"]}]
    rows += [
        {"row": place, **each, "view": names["user"]} for place, each in enumerate(panel["users"], start=1)
    ]
    x = quantity("low") | {"title": panel["name"], "scale": {"zero": False}}
    y = {"field": "row", "type": "ordinal", "axis": None}
    scale = {"domain": list(names.values()), "range": [colour("noise"), colour("accent")]}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3},
            "encoding": {
                "x": x,
                "x2": {"field": "high"},
                "y": y,
                "color": {"field": "view", "type": "nominal", "scale": scale, "legend": _legend(width)},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 30, "color": INK},
            "encoding": {"x": quantity("estimate"), "y": y},
        },
    ]
    if panel["truth"] is not None:
        layers.append(_truth_rule("x", panel["truth"]))
    return {
        "description": f"Published numbers around the truth, and intervals around them, of {panel['name']}.",
        "width": width - 20,
        "height": 12 * len(rows) + 10,
        "data": {"values": rows},
        "layer": layers,
        "config": CONFIG,
    }


CHARTS: Mapping[str, Callable[..., Spec]] = {
    "noise": box_chart,
    "context": box_chart,
    "methods": box_chart,
    "bias": bias_chart,
    "intervals": interval_chart,
}
