"""Results on disk: parts appear whole, are joined once, and belong to one study."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from populace.core.errors import UsageError
from populace.studies.study_results import INTERNAL_KEY, RESULTS_FILE, ResultFolder, StudyRow


def row(method="a", seed=0, epsilon=1.0, estimate=2.0):
    return StudyRow(
        run=f"{method}/{epsilon}/{seed}", method=method, epsilon=epsilon, seed=seed, query="q", group="", truth=1.0,
        estimate=estimate, low=None, high=None, sampling_only=1.5, cpu_seconds=0.1, peak_mb=3.0,
    )  # fmt: skip


@pytest.fixture
def results(tmp_path):
    made = ResultFolder(folder=tmp_path / "out", digest="one")
    made.make_folder()
    return made


def test_parts_are_joined_and_known_to_be_done(results):
    results.write_part(1, 0, [row("b")])
    results.write_part(0, 1, [row("a", 1), row("a", 1, 2.0)])
    assert results.done(["a", "b"]) == {(1, 0), (0, 1)}
    table = results.join(internal="")
    assert table["run"].to_pylist() == ["a/1.0/1", "a/2.0/1", "b/1.0/0"]
    assert list(results.parts.glob("*.parquet")) == []
    assert results.done(["a", "b"]) == {(1, 0), (0, 1)}


def test_a_run_that_is_in_both_files_counts_once(results):
    results.write_part(0, 0, [row("a")])
    results.join(internal="")
    results.write_part(0, 0, [row("a", estimate=9.0)])
    assert results.join(internal="")["estimate"].to_pylist() == [2.0]


def test_what_is_internal_says_so_in_the_file(results):
    results.write_part(0, 0, [row("a")])
    results.join(internal="people.csv is not declared public")
    assert INTERNAL_KEY in pq.read_schema(results.folder / RESULTS_FILE).metadata


def test_a_folder_of_another_study_or_of_something_else_is_refused(results, tmp_path):
    with pytest.raises(UsageError, match="runs of another study"):
        ResultFolder(folder=results.folder, digest="two").make_folder()
    results.write_part(0, 0, [row("a")])
    results.join(internal="")
    (results.parts / "study").unlink()
    with pytest.raises(UsageError, match="runs of another study"):
        ResultFolder(folder=results.folder, digest="two").make_folder()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        ResultFolder(folder=tmp_path / "full", digest="one").make_folder()
    with pytest.raises(UsageError, match="is not a folder"):
        ResultFolder(folder=tmp_path / "full" / "letter.txt", digest="one").make_folder()


def test_drafts_of_a_killed_run_do_not_count(results):
    (results.parts / ".000-000001.parquet.99").write_bytes(b"half")
    assert results.done(["a"]) == set()
