"""The internal report of an evaluation: scores as JSON, and one page that opens offline, the worst first.

Both files say that they are internal, and neither is ever written into a release folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from populace.core.number_format import format_number
from populace.core.pretty_json import pretty_json
from populace.evaluation.evaluation_charts import chart_column, chart_pairs, chart_sample_size
from populace.evaluation.evaluation_result import NO_DISTANCE_TO_CLOSEST_RECORD, Evaluation
from populace.evaluation.evaluation_tables import list_tables, summarize
from populace.evaluation.internal_marking import INTERNAL
from populace.evaluation.scores.score import Score
from populace.release.folder.destination import atomic_folder, check_outside_release
from populace.release.report.render import embed_json, load_templates, to_plain
from populace.release.report.vega_scripts import load_scripts

SCORES_FILE, PAGE_FILE = "scores.json", "evaluation.html"
OWNER_ONLY = 0o700
MAX_CHARTS = 12


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Write the scores and the page to a folder that is empty or does not exist yet, for the owner alone."""
    check_outside_release(folder)
    with atomic_folder(folder, mode=OWNER_ONLY) as place:
        (place / SCORES_FILE).write_text(pretty_json(evaluation.to_json()) + "\n", encoding="utf-8")
        (place / PAGE_FILE).write_text(render_evaluation(evaluation), encoding="utf-8")


def render_evaluation(evaluation: Evaluation) -> str:
    """Return the page. The same evaluation gives the same bytes."""
    charts: dict[str, Any] = {}
    if evaluation.expected:
        charts["size"] = chart_sample_size(evaluation)
    if evaluation.pairs:
        charts["heat"] = chart_pairs(evaluation)
    for place, column in enumerate(evaluation.columns[:MAX_CHARTS]):
        charts[f"column-{place}"] = chart_column(column)
    return (
        load_templates()
        .get_template("evaluation.html")
        .render(
            evaluation=evaluation,
            internal=INTERNAL,
            no_distance=NO_DISTANCE_TO_CLOSEST_RECORD,
            summary=summarize(evaluation),
            scores=[
                (score, format_score(score.value), format_interval(score)) for score in evaluation.scores
            ],
            tables=list_tables(evaluation),
            worst=evaluation.columns[:MAX_CHARTS],
            specs_json=embed_json(charts),
            document_json=embed_json(evaluation.to_json() | {"columns": to_plain(evaluation.columns)}),
            script=load_scripts(),
        )
    )


def format_score(value: float) -> str:
    """Return a score to four digits, large ones whole.

    >>> format_score(955.5643), format_score(0.0444356), format_score(0.0)
    ('955.6', '0.04444', '0')
    """
    return format_number(value) if abs(value) >= 10_000 else f"{value:.4g}"


def format_interval(score: Score) -> str:
    """Return the interval of a score, or a word where it is the value itself."""
    low, high = score.interval or (score.value, score.value)
    return "exact" if low == high == score.value else f"{format_score(low)} to {format_score(high)}"
