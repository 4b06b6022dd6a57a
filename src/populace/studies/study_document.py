"""A study as a document: what was run, what came out, and the numbers that its figures show. The page is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats
from populace.core.number_format import format_exact
from populace.studies.study import Figure, FigureKind, SampleDesign, SampleKind, Study
from populace.studies.study_summary import RunSeries, find_crossover, list_series, summarize_series
from populace.studies.truths import Truth

STUDY_FORMAT = "populace study 1"
QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
MAX_PANELS = 12
# Runs whose intervals are drawn.
MAX_INTERVALS = 24
WITH_NOISE, WITHOUT_NOISE = "sampling and privacy noise", "sampling alone"
INTERNAL_STAMP = "INTERNAL: computed from rows that are not public. Not for release."
_NOT_PRIVATE = ("global_sensitivity",)


def build_document(study: Study, *, truth: Truth, table: pa.Table) -> dict[str, Any]:
    """Return the document of a study, as plain values."""
    series = list_series(table)
    # In the order of the study.
    order = {each.name: place for place, each in enumerate(study.methods)}
    asked = {each.query.name: place for place, each in enumerate(study.queries)}
    series.sort(key=lambda each: (asked[each.query], each.group, order[each.method], each.epsilon))
    figures = study.figures or _default_figures(study)
    document = {
        "format": STUDY_FORMAT,
        "title": study.title,
        "about": study.about,
        "internal": f"{INTERNAL_STAMP} ({truth.internal}.)" if truth.internal else "",
        "truth": truth.words,
        "sample": describe_sample(study.sample),
        "nonresponse": _describe_nonresponse(study),
        "methods": [
            {"name": each.name, "kind": each.kind, "private": each.kind not in _NOT_PRIVATE}
            for each in study.methods
        ],
        "queries": len(study.queries),
        "epsilon": [format_exact(each) for each in study.epsilon],
        "delta": format_exact(study.delta),
        "seeds": study.seeds,
        "runs": len({(run.method, run.epsilon, seed) for run in series for seed in run.seeds.tolist()}),
        "summary": [summarize_series(each) for each in series],
        "crossovers": _list_crossovers(series),
        "costs": _list_costs(series),
        "figures": [build_figure(figure, series, study=study) for figure in figures],
    }
    rounded: dict[str, Any] = _round_digits(document)
    return rounded


def describe_sample(design: SampleDesign) -> str:
    """Return a sampling design in words.

    >>> describe_sample(SampleDesign(kind=SampleKind.SRS, n=200))
    'simple random samples of 200'
    """
    rates = "".join(f", {condition} at {float(rate):g}" for condition, rate in design.rates)
    share = "" if design.rate is None else f" at a rate of {float(design.rate):g}{rates}"
    return {
        SampleKind.ALL: "everybody, no sampling",
        SampleKind.SRS: f"simple random samples{share or f' of {design.n}'}",
        SampleKind.STRATIFIED: f"stratified by {design.strata}: "
        + ", ".join(f"{name} {size}" for name, size in design.sizes.items()),
        SampleKind.POISSON: f"Poisson sampling{share}",
        SampleKind.CLUSTER: f"{design.n} clusters of {design.psu}{share}",
    }[design.kind]


def _describe_nonresponse(study: Study) -> str:
    model = study.nonresponse
    if model is None:
        return ""
    source = "given" if model.learn is None else f"learnt from {model.learn.name}"
    return f"{model.column} is missing by a logistic model of {', '.join(model.terms)}, {source}"


def _default_figures(study: Study) -> tuple[Figure, ...]:
    several = len(study.epsilon) > 1
    found = [Figure(kind=FigureKind.METHODS, title="Estimates and the truth", epsilon=study.epsilon[-1:])]
    if several:
        found.insert(0, Figure(kind=FigureKind.CONTEXT, title="Privacy noise within sampling error"))
        found.insert(0, Figure(kind=FigureKind.NOISE, title="Privacy noise alone"))
    return tuple(found)


def _list_crossovers(series: Sequence[RunSeries]) -> list[dict[str, Any]]:
    found = []
    for (method, query, group), own in groupby(
        sorted(series, key=lambda each: each.name), key=lambda each: each.name
    ):
        crossing = find_crossover(list(own))
        if crossing is not None:
            found.append(
                {
                    "method": method,
                    "query": query,
                    "group": group,
                    "epsilon": crossing.epsilon,
                    "bound": crossing.bound,
                    "interval": [crossing.low, crossing.high],
                }
            )
    return found


def _list_costs(series: Sequence[RunSeries]) -> list[dict[str, Any]]:
    """Return CPU seconds and memory of a run, by method: every number of a run has the same."""
    found = []
    for method in dict.fromkeys(each.method for each in series):
        own = [each for each in series if each.method == method]
        first = [each for each in own if (each.query, each.group) == (own[0].query, own[0].group)]
        seconds = np.concatenate([each.cpu_seconds for each in first])
        memory = max(float(each.peak_mb.max()) for each in first)
        found.append(
            {
                "method": method,
                "cpu_seconds": float(np.median(seconds)),
                "cpu_seconds_p95": float(np.quantile(seconds, 0.95)),
                "peak_mb": memory,
            }
        )
    return found


def build_figure(figure: Figure, series: Sequence[RunSeries], *, study: Study) -> dict[str, Any]:
    """Return a figure: its panels with the numbers that they show."""
    epsilons = {float(each) for each in figure.epsilon or study.epsilon}
    own = [
        each
        for each in series
        if each.epsilon in epsilons
        and each.method in (figure.methods or [method.name for method in study.methods])
        and each.query in (figure.queries or [each.query.name for each in study.queries])
    ]
    found: dict[str, Any] = {"kind": figure.kind.value, "title": figure.title, "caption": figure.caption}
    if figure.kind is FigureKind.BIAS:
        return found | {"panels": [_bias_panel(own)], "left_out": 0}
    panels = []
    for (query, group), runs in groupby(own, key=lambda each: (each.query, each.group)):
        name = f"{query}, {group}" if group else query
        held = list(runs)
        if figure.kind is FigureKind.INTERVALS:
            panels += [_interval_panel(f"{name}, {each.method}", each) for each in held]
        else:
            panels.append(_box_panel(figure.kind, name, held))
    return found | {"panels": panels[:MAX_PANELS], "left_out": max(0, len(panels) - MAX_PANELS)}


def _box_panel(kind: FigureKind, name: str, series: Sequence[RunSeries]) -> dict[str, Any]:
    several = len({each.method for each in series}) > 1
    boxes = []
    for each in series:
        label = f"ε = {each.epsilon:g}"
        if kind is FigureKind.NOISE:
            boxes.append(_box(label, each.method if several else "privacy noise", each.noise))
            continue
        before = f"{each.method}: " if several and kind is FigureKind.CONTEXT else ""
        place = label if kind is FigureKind.CONTEXT else each.method
        boxes.append(_box(place, before + WITH_NOISE, each.estimate))
        boxes.append(_box(place, before + WITHOUT_NOISE, each.sampling_only))
    return {
        "name": name,
        "truth": 0.0 if kind is FigureKind.NOISE else _keep_finite(series[0].truth),
        "boxes": [box for box in boxes if box is not None],
    }


def _box(place: str, label: str, values: Floats) -> dict[str, Any] | None:
    known = values[~np.isnan(values)]
    if not known.size:
        return None
    shown = np.quantile(known, list(QUANTILES.values()))
    numbers = dict(zip(QUANTILES, (float(each) for each in shown), strict=True))
    return {"place": place, "series": label, "lost": int(values.size - known.size), **numbers}


def _bias_panel(series: Sequence[RunSeries]) -> dict[str, Any]:
    points = []
    for each in series:
        summary = summarize_series(each)
        if summary["asymmetry"] is not None:
            points.append(
                {
                    "truth": each.truth,
                    "b": summary["asymmetry"],
                    "bias": summary["bias"],
                    "method": each.method,
                }
            )
    points.sort(key=lambda point: point["truth"])
    error = float(np.median([float(np.nanstd(each.estimate)) for each in series])) if series else 0.0
    return {"name": "B by true count", "points": points, "noise": error}


def _interval_panel(name: str, series: RunSeries) -> dict[str, Any]:
    known = ~np.isnan(series.low) & ~np.isnan(series.high) & ~np.isnan(series.estimate)
    estimates = series.estimate[known]
    held = (series.low <= series.truth) & (series.truth <= series.high)
    return {
        "name": f"{name}, ε = {series.epsilon:g}",
        "truth": _keep_finite(series.truth),
        "producer": [float(each) for each in np.quantile(estimates, [0.025, 0.5, 0.975])]
        if estimates.size
        else None,
        "coverage": float(held[known].mean()) if estimates.size else None,
        "users": [
            {"low": float(low), "estimate": float(value), "high": float(high)}
            for low, value, high in zip(
                series.low[known][:MAX_INTERVALS],
                estimates[:MAX_INTERVALS],
                series.high[known][:MAX_INTERVALS],
                strict=True,
            )
        ],
    }


def _round_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_digits(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_round_digits(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
