"""A release of more rows than one block: written, loaded, reported and verified without ever being whole."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.api.publish import publish_release
from populace.api.request import RowRequest, RunRequest
from populace.core.errors import OtherFormat, ReleaseError
from populace.inference.model import Model
from populace.release import synthetic_rows, table_files
from populace.release.streamed_table import StreamedTable
from populace.release.verify.checks import CheckOutcome
from populace.sampling import row_blocks
from populace.schema.schema import Schema
from tests.helpers.small_geography import release_geography

SCHEMA = Schema.parse(
    """
[columns.age]
kind = "integer"
min = 0
max = 99
width = 10
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
"""
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_blocks, synthetic_rows, table_files):
        monkeypatch.setattr(module, "MAX_BLOCK_ROWS", 300)
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 300)
    monkeypatch.setattr(row_blocks, "MAX_COPIES", 2)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    people = pa.table({"age": [3, 47, 81, 20] * 400, "sex": ["f", "m", "m", "f"] * 400})
    measured = pp.measure(
        people, schema=SCHEMA, epsilon=1, delta="1e-9", dataset="people", ledger=tmp_path / "l.db"
    )
    return pp.fit(measured)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["csv", "parquet", "dta"])
@pytest.mark.parametrize("where", [None, "age >= 40"])
def test_a_streamed_release_is_verified(model: Model, tmp_path: Path, kind: str, where: str | None) -> None:
    release = pp.generate(model, rows=1001, seed=4, where=where)
    assert isinstance(release.synthetic, StreamedTable)
    assert release.table.num_rows == release.statement["total"]["rows"] == 1001
    release.save(tmp_path / "out", format=kind)
    assert pp.Release.load(tmp_path / "out").table.equals(release.table)
    if where is None:
        assert len(release.compared_codes["age"]) <= 300
    verdict = pp.verify(tmp_path / "out")
    assert verdict.verified, verdict
    held = json.loads((tmp_path / "out" / "codebook.json").read_text("utf-8"))
    said = [(tmp_path / "out" / name).read_text("utf-8") for name in ("statement.md", "report.html")]
    assert [("Rows repeat: 502 rows" in text, "copies" in held) for text in said] == [
        (where is None,) * 2
    ] * 2
    assert "1001 synthetic rows" in repr(release)
    assert release._repr_html_()


def test_a_release_that_was_loaded_is_saved_as_it_was(model: Model, tmp_path: Path) -> None:
    pp.generate(model, rows=1001, seed=4).save(tmp_path / "out", report=False, ledger=tmp_path / "l.db")
    pp.Release.load(tmp_path / "out").save(tmp_path / "again", report=False, ledger=tmp_path / "l.db")
    assert pp.verify(tmp_path / "again").verified
    for name in ("statement.json", "synthetic.parquet", "codebook.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_rows_that_meet_public_counts_are_verified_whole(tmp_path: Path) -> None:
    totals = '[[totals]]\nby = ["sex"]\ncounts = { f = 401, m = 400 }\n'
    people = pa.table({"age": [3, 47, 81, 20] * 200, "sex": ["f", "m", "m", "f"] * 200})
    release = pp.synthesize(
        people,
        schema=Schema.parse(f"{SCHEMA.to_toml()}\n{totals}"),
        epsilon=1,
        delta="1e-9",
        dataset="people",
        ledger=tmp_path / "l.db",
    )
    assert isinstance(release.synthetic, pa.Table)
    assert release.table.num_rows > table_files.MAX_BLOCK_ROWS
    release.save(tmp_path / "out", report=False)
    verdict = pp.verify(tmp_path / "out")
    assert verdict.verified, verdict


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_microdata_of_a_geography_are_drawn_in_blocks_and_tabulate_to_its_tables(
    tmp_path: Path, kind: str
) -> None:
    release = release_geography(tmp_path / "l.db", zeros=True, delta="0")
    assert isinstance(release.synthetic, StreamedTable)
    sizes = [block.num_rows for block in release.synthetic.open_blocks()]
    assert len(sizes) > 1
    assert max(sizes) <= row_blocks.MAX_BLOCK_ROWS
    release.save(tmp_path / "out", format=kind)
    verdict = pp.verify(tmp_path / "out")
    assert verdict.verified, verdict
    assert "Rows repeat" not in (tmp_path / "out" / "statement.md").read_text("utf-8")
    loaded = pp.Release.load(tmp_path / "out")
    assert isinstance(loaded.synthetic, StreamedTable)
    shown = loaded.hierarchy
    counts = np.zeros(shown.smallest.shape, dtype=np.int64)
    np.add.at(counts, (loaded.codes["geocode"], *(loaded.codes[name] for name in shown.columns)), 1)
    assert np.array_equal(counts, shown.smallest)


def test_every_block_of_a_geography_is_like_the_whole(tmp_path: Path) -> None:
    release = release_geography(tmp_path / "l.db", delta="0")
    blocks = [block["county"].to_pylist().count("A") for block in release.synthetic.open_blocks()]
    assert max(blocks) - min(blocks) <= 1
    # In random order, not in that of the cells.
    assert release.synthetic.first_block()["county"].to_pylist() != sorted(
        release.synthetic.first_block()["county"].to_pylist()
    )


def test_other_rows_are_found(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pp.generate(model, rows=1001, seed=4, like="x.parquet").save(tmp_path / "out", report=False)
    assert pq.ParquetFile(tmp_path / "out" / "synthetic.parquet").num_row_groups == 4
    from populace.release.verify import verify_rows

    real = verify_rows.draw_tables
    monkeypatch.setattr(verify_rows, "draw_tables", lambda *a, **k: real(*a, **{**k, "seed": k["seed"] + 1}))
    verdict = pp.verify(tmp_path / "out")
    assert {each.name: each.outcome for each in verdict.checks}["redrawn"] is CheckOutcome.FAILED


@pytest.mark.parametrize("kind", ["csv", "parquet", "dta"])
def test_a_number_of_rows_that_no_file_holds_costs_no_memory(model: Model, tmp_path: Path, kind: str) -> None:
    """A folder is somebody's: blocks are made for the rows of its table, not for those that it claims."""
    pp.generate(model, rows=1001, seed=4).save(tmp_path / "out", format=kind, report=False)
    path = tmp_path / "out" / "statement.json"
    told = json.loads(path.read_text("utf-8"))
    told["total"]["rows"] = 2**30
    path.write_text(json.dumps(told), encoding="utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseError, match="number of rows"):
            table_files.open_table(tmp_path / "out" / f"synthetic.{kind}", schema=SCHEMA, rows=2**30)
        assert not pp.verify(tmp_path / "out").passed
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_implicates_differ_and_the_first_stays(model: Model) -> None:
    one = pp.generate(model, rows=700, seed=4).table
    first, second = pp.generate(model, rows=700, seed=4, implicates=2).tables
    assert first.equals(one)
    assert not second.equals(one)


def test_what_does_not_fit_as_a_stata_file_is_written_as_parquet(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = pp.generate(model, rows=1001, seed=4)
    monkeypatch.setattr(table_files, "memory_limit", lambda: 100_000)
    with pytest.warns(OtherFormat, match=r"written as \.parquet"):
        release.save(tmp_path / "out", format="dta", report=False)
    verdict = pp.verify(tmp_path / "out")
    assert verdict.verified, verdict
    assert (tmp_path / "out" / "synthetic.parquet").is_file()


def test_rows_asked_for_that_do_not_fit_as_a_stata_file_are_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("age,sex\n3,f\n")
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    request = RunRequest.of(
        tmp_path / "people.csv", tmp_path / "schema.toml", 1, "1e-9", "auto", None, tmp_path / "l.db", None
    )
    monkeypatch.setattr(table_files, "memory_limit", lambda: 100_000)
    with pytest.raises(pp.PopulaceError, match="1001 rows do not fit in memory"):
        publish_release(request, RowRequest(rows=1001), tmp_path / "out", table_format="dta", report=False)
    assert not (tmp_path / "l.db").exists()


def test_memory_allows_no_whole_table(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    release = pp.generate(model, rows=700, seed=4)
    monkeypatch.setattr("populace.core.untrusted_files.memory_limit", lambda: 100)
    with pytest.raises(pp.PopulaceError, match="does not fit in memory"):
        release.table  # noqa: B018
