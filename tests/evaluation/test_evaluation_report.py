"""The internal report: marked on every page, closed to others, never in a release folder, the same bytes every time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.evaluation.evaluation_charts import chart_column, chart_pairs, chart_sample_size
from populace.evaluation.evaluation_report import format_interval, render_evaluation, write_evaluation
from populace.evaluation.evaluation_tables import MAX_ROWS, list_tables, summarize
from populace.evaluation.internal_marking import INTERNAL
from tests.evaluation.test_score_files import SCHEMA, people


@pytest.fixture(scope="module")
def found() -> pp.Evaluation:
    synthetic = people(500, 2)
    return pp.evaluate(
        people(600, 1),
        synthetic.filter(synthetic["AREA"].to_numpy() != "west"),
        schema=SCHEMA,
        areas=["AREA"],
    )


def test_both_files_are_marked_and_open_for_the_owner_alone(found, tmp_path: Path) -> None:
    found.save(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["evaluation.html", "scores.json"]
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    scores = json.loads((tmp_path / "out" / "scores.json").read_text("utf-8"))
    page = (tmp_path / "out" / "evaluation.html").read_text("utf-8")
    assert scores["marking"] == INTERNAL
    assert scores == found.to_json()
    assert page == render_evaluation(found)
    assert page.count("INTERNAL") >= 4
    assert 'content: "INTERNAL"' in page
    assert len(page.encode()) < 5_000_000
    assert "Distance to the closest record is not offered" in page
    # Nothing is fetched: the page's own policy forbids it, and its markup names no address.
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "default-src 'none'" in markup
    assert not re.findall(r'(?:src|href)="(?!#|data:)', markup)


def test_a_release_folder_takes_no_evaluation(found, tmp_path: Path) -> None:
    for name in ("manifest.json", "statement.json"):
        (tmp_path / name).write_text("{}")
    for folder in (tmp_path, tmp_path / "inner", tmp_path / "deep" / "inner"):
        with pytest.raises(UsageError, match="published as it is"):
            write_evaluation(found, folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "statement.json"]


def test_tables_come_worst_first_and_small_groups_are_named(found) -> None:
    tables = {table.name: table for table in list_tables(found)}
    assert {"columns", "pairs", "areas", "subgroups", "rules", "numbers"} <= set(tables)
    assert tables["areas"].rows[0][0] == "AREA = west"
    assert tables["areas"].rows[0][4] == "0"
    assert "small" in {row[-1] for row in tables["subgroups"].rows}
    assert all(len(table.rows) <= MAX_ROWS for table in tables.values())
    assert any("no synthetic row at all" in line for line in summarize(found))
    assert [pair.distance for pair in found.pairs] == sorted((p.distance for p in found.pairs), reverse=True)


def test_charts_hold_the_figures_of_the_tables(found) -> None:
    worst = found.columns[0]
    values = chart_column(worst)["data"]["values"]
    assert [value["real"] for value in values] == pytest.approx([bar.real for bar in worst.bars], rel=1e-4)
    assert len(chart_pairs(found)["data"]["values"]) == 2 * len(found.pairs)
    point = chart_sample_size(found)["layer"][-1]["data"]["values"][0]
    assert point["distance"] == found["tv_pairs"].value


def test_intervals_of_exact_scores_say_so(found) -> None:
    assert format_interval(found["tv_pairs"]) == "exact"
    assert " to " in format_interval(found["equivalent_sample_size"])
