"""Draw docs/images/estimates.png: estimates of the invented survey, as their report shows them. Run by `make docs`.

Its noise is that of a rehearsal, so that the picture changes only when the software does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import vl_convert

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.report.charts import CONFIG
from populace.release.report.estimates_report import EstimatesDocument, interval_chart
from populace.release.report.palette import fill_colours
from populace.simulation.sample_survey import simulate_survey

PICTURE = Path(__file__).with_suffix(".png")
EXAMPLE = Path(__file__).parents[2] / "examples" / "survey"
SHOWN = ("mean income", "income below 15 000", "persons")
EPSILON, DELTA = "2", "1e-9"


def document() -> EstimatesDocument:
    """Return the report of one rehearsed run."""
    table, _ = simulate_survey()
    with tempfile.TemporaryDirectory() as folder:
        found = estimate(
            table,
            schema=EXAMPLE / "people-schema.toml",
            design=EXAMPLE / "people-design.toml",
            queries=EXAMPLE / "people-queries.toml",
            epsilon=EPSILON,
            delta=DELTA,
            ledger=Path(folder) / "ledger.db",
            noise=ExactNoise(RehearsalEntropy(1)),
        )
    return found.document()


def picture(shown: EstimatesDocument) -> dict[str, Any]:
    """Return one Vega-Lite specification: some queries beside each other."""
    answers = {answer.name: answer for answer in shown.answers}
    panels = []
    for name in SHOWN:
        answer = answers[name]
        spec = {
            key: part
            for key, part in interval_chart(answer).items()
            if key not in ("config", "autosize", "width")
        }
        unit = f", in {answer.unit}" if answer.unit else ""
        heading = {"text": f"{name}{unit}", "anchor": "start", "fontSize": 12, "fontWeight": "bold"}
        panels.append({**spec, "width": 270, "title": heading})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "config": {**CONFIG, "padding": 12, "background": "#ffffff"},
        "hconcat": panels,
        "spacing": 30,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
    }


if __name__ == "__main__":
    PICTURE.write_bytes(vl_convert.vegalite_to_png(fill_colours(picture(document())), scale=1.25))
    print(PICTURE)
