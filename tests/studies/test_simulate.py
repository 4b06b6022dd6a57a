"""Whole studies: files, resumption, watermarks."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from populace.core.errors import UsageError
from populace.privacy.ledger.ledger import Ledger
from populace.simulation.population import simulate_population
from populace.studies import runs as study_runs
from populace.studies.simulate import simulate
from tests.helpers.small_studies import METHOD, write_study

FILE = '[truth]\nfile = "people.parquet"\nschema = "schema.toml"\n'
SCHEMA = '[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n'


@pytest.fixture
def people(tmp_path):
    pq.write_table(simulate_population(households=100)[0], tmp_path / "people.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


@pytest.mark.slow
def test_a_study_writes_results_a_document_and_a_page(tmp_path):
    found = simulate(write_study(tmp_path), tmp_path / "out", seeds=3, workers=1, ledger=tmp_path / "l.db")
    table = pq.read_table(tmp_path / "out" / "results.parquet")
    assert table.num_rows == 3 * 2
    assert {
        "run",
        "method",
        "epsilon",
        "seed",
        "query",
        "truth",
        "estimate",
        "low",
        "high",
        "sampling_only",
    } < set(table.column_names)
    document = json.loads((tmp_path / "out" / "study.json").read_text())
    assert document == found.document
    assert (document["runs"], document["internal"]) == (6, "")
    assert [row["runs"] for row in found.summary] == [3, 3]
    assert len(found.crossovers) == 1
    page = (tmp_path / "out" / "study.html").read_text()
    assert "INTERNAL" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert not (tmp_path / "l.db").exists()


@pytest.fixture
def no_page(monkeypatch):
    """Draw no charts: they take longer than the runs."""
    monkeypatch.setattr("populace.studies.simulate.render_study", lambda document: document["internal"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_page")
def test_what_is_done_is_not_done_again_and_more_seeds_go_on(tmp_path, monkeypatch):
    path, done = write_study(tmp_path), []
    own = study_runs.StudyRuns.run

    def count(self, number, seed):
        done.append((number, seed))
        return own(self, number, seed)

    monkeypatch.setattr(study_runs.StudyRuns, "run", count)
    first = simulate(path, tmp_path / "out", seeds=2, workers=1)
    again = simulate(path, tmp_path / "out", seeds=2, workers=1)
    more = simulate(path, tmp_path / "out", seeds=3, workers=1)
    assert done == [(0, 0), (0, 1), (0, 2)]
    assert first.table.equals(again.table)
    whole = simulate(path, tmp_path / "other", seeds=3, workers=1)
    columns = ["method", "seed", "epsilon", "estimate", "low", "high", "sampling_only"]
    assert more.table.select(columns).equals(whole.table.select(columns))


@pytest.mark.usefixtures("no_page")
def test_a_changed_study_needs_another_folder(tmp_path):
    simulate(write_study(tmp_path), tmp_path / "out", seeds=1, workers=1)
    with pytest.raises(UsageError, match="another study"):
        simulate(write_study(tmp_path, head="epsilon = [2]\n"), tmp_path / "out", seeds=1, workers=1)


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("why", ["not declared", "account of the file", "account of the dataset", "public"])
def test_a_file_that_is_not_public_makes_everything_internal(people, why):
    ledger = Ledger.open(people / "l.db")
    if why.startswith("account of"):
        ledger.open_account("people" if why.endswith("file") else "census", epsilon=1, delta=0)
    if why.endswith("dataset"):
        (people / "schema.toml").write_text('[table]\ndataset = "census"\n' + SCHEMA)
    path = write_study(people, truth=FILE + ("" if why == "not declared" else "public = true\n"))
    found = simulate(path, people / "out", seeds=1, workers=1, ledger=people / "l.db")
    about = pq.read_schema(people / "out" / "results.parquet").metadata
    page = (people / "out" / "study.html").read_text()
    marked = [bool(found.document["internal"]), b"INTERNAL" in about, "INTERNAL" in page]
    assert marked == [why != "public"] * 3


def test_wrong_numbers_of_runs_are_refused(tmp_path):
    for words in ({"seeds": 0}, {"workers": 0}):
        with pytest.raises(UsageError, match="below 1"):
            simulate(write_study(tmp_path), tmp_path / "out", **words)


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    with pytest.raises(UsageError, match="there is no file"):
        simulate(write_study(tmp_path, truth=FILE), tmp_path / "out", workers=1)


@pytest.mark.slow
def test_several_workers_give_what_one_does(tmp_path):
    path = write_study(tmp_path, methods=METHOD + METHOD.replace("plain", "half") + "share = 0.5\n")
    one = simulate(path, tmp_path / "one", seeds=4, workers=1)
    two = simulate(path, tmp_path / "two", seeds=4, workers=3)
    columns = ["run", "query", "truth", "estimate", "low", "high", "sampling_only"]
    assert one.table.select(columns).equals(two.table.select(columns))


@pytest.mark.slow
def test_a_worker_that_is_refused_says_why(tmp_path):
    path = write_study(tmp_path, sample='[sample]\ndesign = "srs"\nn = 1000000\n')
    with pytest.raises(UsageError, match="are to be drawn"):
        simulate(path, tmp_path / "out", seeds=2, workers=2)
