"""A release of estimates loads back, verifies, and holds nothing of the private rows but noise."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.release.estimates_bundle import NUMBER_COLUMNS, Estimates
from populace.release.manifest import dump_json
from populace.release.report import estimates_report as report
from populace.release.report import render
from populace.release.verify.verify import verify
from populace.survey.estimate_notes import SUPPRESSED
from populace.survey.queries.query_plan import QueryPlan
from tests.helpers import small_survey

FILES = {
    "estimates.csv",
    "estimates.json",
    "statement.json",
    "statement.md",
    "codebook.json",
    "manifest.json",
}
ROWS = 419  # a number that stands nowhere else


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Estimates:
    return small_survey.run(small_survey.rows(ROWS), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def folder(found: Estimates, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "out"
    found.save(out, report=False)
    return out


def failed(folder: Path) -> list[str]:
    return [check.name for check in verify(folder).checks if not check.passed]


def test_a_folder_holds_what_it_should_and_verifies(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert failed(folder) == []


def test_load_gives_back_what_was_saved(found: Estimates, folder: Path, tmp_path: Path) -> None:
    loaded = Estimates.load(folder)
    assert loaded.rows == found.rows
    assert loaded.statement == found.statement
    loaded.save(tmp_path / "again", report=False)
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_folder_is_loaded_without_a_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plan costs, whoever wrote the folder decides: nothing is planned before its files were checked."""
    monkeypatch.setattr(QueryPlan, "of", lambda *_, **__: pytest.fail("planned"))
    assert len(Estimates.load(folder).rows) == 7


def test_the_table_has_a_row_for_each_estimate(found: Estimates, folder: Path) -> None:
    lines = list(csv.DictReader((folder / "estimates.csv").read_text("utf-8").splitlines()))
    assert list(lines[0]) == ["query", "sex", "age", "p", *NUMBER_COLUMNS, "note"]
    assert [line["query"] for line in lines] == [row.query for row in found.rows]
    assert float(lines[0]["estimate"]) == pytest.approx(found.rows[0].estimate, rel=1e-9)
    assert found.table.num_rows == len(found.rows) == 2 + 1 + 3 + 1
    assert [dict(row.group) for row in found.rows[3:6]] == [
        {"age": "0–17"},
        {"age": "18–64"},
        {"age": "65–100"},
    ]


def test_the_statement_has_the_keys_of_every_release_and_the_survey_sentences(found: Estimates) -> None:
    told = found.statement
    asked = [
        "epsilon",
        "delta",
        "neighbours",
        "unit",
        "rows_per_unit",
        "dataset",
        "total",
        "spends",
        "domains",
    ]
    assert set(asked) <= set(told)
    assert (told["epsilon"], told["delta"], told["method"]) == (8.0, 0.0, "estimate")
    words = " ".join(told["not_covered"])
    for part in ("sampling design", "Non-response", "above 50 counted as 50"):
        assert part in words


def test_unused_budget_is_none(found: Estimates) -> None:
    """A quantile of clusters is located before psus are asked about it, so this plan is not fixed in advance."""
    assert found.record.plan.value == "adaptive"
    assert found.record.used > found.record.cap * 99 / 100


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "alter", "check"),
    [
        ("estimates.json", lambda told: told["estimates"][0].update(estimate=1.0), "estimates"),
        ("estimates.json", lambda told: told["estimates"][0].update(low=-1e9), "estimates"),
        ("estimates.json", lambda told: told["answers"][0].update(answer=[[0]]), "estimates"),
        ("estimates.json", lambda told: told["answers"].pop(), "answers"),
        ("estimates.json", lambda told: told["design"].update(psu=None, psus={}), "estimates"),
        ("estimates.json", lambda told: told.update(ledger_entry="0" * 64), "parents"),
        ("statement.json", lambda told: told.update(epsilon=0.1), "statement"),
        ("statement.json", lambda told: told["record"].update(epsilon="1/10"), "budget"),
        ("statement.json", lambda told: told["record"]["spends"][0].update(l1=1, l2_squared=1), "answers"),
        ("statement.json", lambda told: told["record"]["spends"][0].update(l1=1, l2_squared=1), "budget"),
        ("statement.json", lambda told: told["record"]["spends"][0].update(what="income"), "answers"),
        ("codebook.json", lambda told: told.update(rows=3), "codebook"),
    ],
)
def test_alterations_are_seen(folder: Path, tmp_path: Path, name: str, alter: Any, check: str) -> None:
    out = shutil.copytree(folder, tmp_path / "out")
    told = json.loads((out / name).read_text("utf-8"))
    alter(told)
    (out / name).write_text(dump_json(told), encoding="utf-8")
    assert failed(out) == ["digests"]
    seal(out)
    assert check in failed(out)


def test_a_table_that_says_something_else_is_seen(folder: Path, tmp_path: Path) -> None:
    out = shutil.copytree(folder, tmp_path / "out")
    text = (out / "estimates.csv").read_text("utf-8")
    (out / "estimates.csv").write_text(text.replace("income", "wealth"), encoding="utf-8")
    seal(out)
    assert failed(out) == ["estimates"]


def seal(out: Path) -> None:
    """Write the digests of altered files into the manifest, as a forger would."""
    from populace.release.manifest import digest_file

    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    manifest["files"] = {name: digest_file(out / name) for name in manifest["files"]}
    (out / "manifest.json").write_text(dump_json(manifest), encoding="utf-8")


@pytest.mark.parametrize("more", [small_survey.FILLED, small_survey.TOTALS], ids=["filled", "totals"])
def test_other_ways_verify_too(tmp_path: Path, more: str) -> None:
    asked = {
        small_survey.FILLED: '[[query]]\nstatistic = "mean"\ncolumn = "income"\nby = ["sex"]',
        small_survey.TOTALS: '[[query]]\nstatistic = "count"\nwhere = "age >= 65"\nby = ["sex"]',
    }
    found = small_survey.run(small_survey.rows(), tmp_path, design=more, queries=asked[more])
    found.save(tmp_path / "out", report=False)
    assert failed(tmp_path / "out") == []
    assert [dict(row.group) for row in found.rows] == [{"sex": "f"}, {"sex": "m"}]
    assert all(row.estimate is not None and row.low < row.estimate < row.high for row in found.rows)


def test_a_rehearsal_is_stamped_and_refused(tmp_path: Path) -> None:
    small_survey.run(small_survey.rows(), tmp_path, seed=4).save(tmp_path / "out", report=False)
    assert failed(tmp_path / "out") == ["real noise"]
    for name in ("estimates.json", "statement.json", "statement.md", "manifest.json", "codebook.json"):
        assert "REHEARSAL" in (tmp_path / "out" / name).read_text("utf-8")


def test_nothing_of_the_rows_is_in_the_folder_but_noise(tmp_path: Path) -> None:
    """Two orders of one table give one release under the same noise; its size stands nowhere."""
    table = small_survey.rows(ROWS)
    turned = table.take(pa.array(range(ROWS - 1, -1, -1)))
    texts = []
    for number, held in enumerate((table, turned)):
        found = small_survey.run(held, tmp_path / str(number), seed=9)
        found.save(tmp_path / str(number) / "out", report=False)
        record = found.record
        names = {path.name for path in (tmp_path / str(number) / "out").iterdir()} - {"manifest.json"}
        text = {name: (tmp_path / str(number) / "out" / name).read_text("utf-8") for name in sorted(names)}
        texts.append(
            {k: v.replace(record.run, "RUN").replace(record.digest, "ENTRY") for k, v in text.items()}
        )
    assert texts[0] == texts[1]
    assert not any(f'"{ROWS}"' in text or f" {ROWS}," in text for text in texts[0].values())


def test_a_release_of_rows_is_no_release_of_estimates(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no synthetic table"):
        pp.Release.load(folder)
    pp.synthesize(
        pa.table({"a": [0, 1, 1]}),
        schema=pp.Schema.from_sizes({"a": 2}),
        epsilon=1,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "ledger.db",
    ).save(tmp_path / "rows", report=False)
    with pytest.raises(ReleaseError, match="no estimates"):
        pp.Estimates.load(tmp_path / "rows")


def test_the_report_shows_every_estimate(found: Estimates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "load_scripts", lambda: "window.vegaEmbed = () => {};")
    document = found.document()
    assert document.count == len(found.rows)
    page = report.render_estimates_report(document)
    for text in (
        "female",
        "65–100",
        "sampling error",
        "privacy error",
        "Privacy budget",
    ):
        assert text in page
    assert sum(stage.share for stage in document.stages) == pytest.approx(1, abs=0.01)
    charts = json.loads(page.split('id="charts">')[1].split("</script>")[0])
    assert {"query-1", "query-4", "budget"} <= set(charts)


@pytest.mark.slow
def test_a_report_without_anything_to_say_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "load_scripts", lambda: "")
    found = small_survey.run(small_survey.rows(3), tmp_path, epsilon="0.01")
    assert {row.note for row in found.rows if row.estimate is None} == {SUPPRESSED}
    assert "indistinguishable from noise" in report.render_estimates_report(found.document())
