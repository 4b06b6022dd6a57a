"""Figures and pages of studies: every kind is drawn, the truth is a line, and what is internal says so."""

from __future__ import annotations

import numpy as np
import pytest

from populace.studies.study import Figure, FigureKind
from populace.studies.study_charts import running_mean
from populace.studies.study_document import build_document, build_figure
from populace.studies.study_page import describe_crossover, render_study
from populace.studies.study_results import to_table
from populace.studies.study_summary import list_series
from tests.helpers.small_studies import METHOD, open_runs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    figures = "".join(f'[[figures]]\nkind = "{kind.value}"\ncaption = "<b>"\n' for kind in FigureKind)
    runs = open_runs(folder, methods=METHOD + '[[methods]]\nkind = "known_size"\n', more=figures)
    rows = [row for number in range(2) for seed in range(3) for row in runs.run(number, seed)]
    return runs, to_table(rows)


@pytest.mark.slow
def test_every_figure_is_drawn_on_one_page(made):
    runs, table = made
    document = build_document(runs.study, truth=runs.truth, table=table)
    page = render_study(document)
    # Noise, context and methods have a panel each, bias one, intervals one for each method and ε; each at two widths.
    assert page.count("<svg") == 2 * (1 + 1 + 1 + 1 + 4)
    assert "&lt;b&gt;" in page
    assert "<script" not in page
    assert len(page) < 500_000


def test_boxes_hold_the_quantiles_of_runs(made):
    runs, table = made
    series = list_series(table)
    figure = build_figure(
        Figure(kind=FigureKind.CONTEXT, title="t", methods=("plain",)), series, study=runs.study
    )
    boxes = figure["panels"][0]["boxes"]
    assert [(box["place"], box["series"]) for box in boxes[:2]] == [
        ("ε = 1", "sampling and privacy noise"),
        ("ε = 1", "sampling alone"),
    ]
    first = next(each for each in series if each.method == "plain" and each.epsilon == 1)
    assert boxes[0]["p50"] == np.median(first.estimate)
    assert figure["panels"][0]["truth"] == first.truth


def test_what_is_internal_is_stamped(made):
    runs, table = made
    document = build_document(runs.study, truth=runs.truth, table=table)
    document["figures"] = []
    assert 'role="alert"' not in render_study(document)
    assert 'role="alert"' in render_study(document | {"internal": "INTERNAL: not for release"})


def test_bounds_of_crossovers_are_said():
    assert "from ε = 0.1 on" in describe_crossover(
        {"epsilon": 0.1, "bound": "at most", "interval": [0.1, 0.1]}
    )


def test_running_means_of_many_points_are_as_many_less_the_window():
    found = running_mean([(float(number), 1.0) for number in range(200)])
    assert len(found) == 151
    assert all(second == pytest.approx(1.0) for _, second in found)
