"""A release folder appears complete or not at all, loads back, and equal releases have equal bytes."""

from __future__ import annotations

import errno
import json
import re
import resource
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.core.errors import ReleaseError, ResourceError, UsageError
from populace.release import bundle, manifest
from populace.release.bundle import Release
from populace.release.manifest import MEASUREMENT_FILES, MODEL_FILES
from populace.release.statement.statement import REHEARSAL_STAMP
from populace.release.table_files import TableFormat
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema
from tests.helpers import releases

FILES = {
    "codebook.json",
    "manifest.json",
    "measurements.json",
    "measurements.parquet",
    "model.json",
    "model.npz",
    "report.html",
    "statement.json",
    "statement.md",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    table, schema = releases.small_sample()
    return releases.make(releases.measure(table, schema, ledger=tmp_path_factory.mktemp("l") / "ledger.db"))


def put(release: Release, folder: Path, table_format: TableFormat = TableFormat.CSV) -> Path:
    """Write without drawing a report, which takes a second."""
    releases.write(release, folder, table_format=table_format, report="<html></html>")
    return folder


def test_save_writes_every_file(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES | {"synthetic.csv"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    statement = json.loads((tmp_path / "out" / "statement.json").read_text())
    assert statement == release.statement


@pytest.mark.parametrize("table_format", list(TableFormat))
def test_load_gives_back_what_was_saved(release: Release, tmp_path: Path, table_format: TableFormat) -> None:
    loaded = Release.load(put(release, tmp_path / "out", table_format))
    assert loaded.synthetic.equals(release.synthetic)
    assert loaded.statement == release.statement
    assert (loaded.seed, loaded.format, loaded.rows_asked) == (7, table_format, None)
    assert loaded.measurements.record == release.measurements.record
    assert loaded.model.total == release.model.total
    again = put(loaded, tmp_path / "again", table_format)
    assert contents(again) == contents(tmp_path / "out")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("table_format", ["csv", "parquet"])
def test_equal_releases_have_equal_bytes(release: Release, tmp_path: Path, table_format: str) -> None:
    twin = releases.make(release.measurements)
    release.save(tmp_path / "a", format=table_format)
    twin.save(tmp_path / "b", format=table_format)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    other = put(releases.make(release.measurements, seed=8), tmp_path / "c", TableFormat(table_format))
    assert contents(other) != contents(tmp_path / "a")


def test_no_file_tells_where_or_when_it_was_made(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out", TableFormat.PARQUET)
    for name, data in contents(folder).items():
        assert str(tmp_path).encode() not in data, name
        assert b"ledger.db" not in data, name
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest) == {
        "format", "stamp", "dataset", "command", "sampling_seed", "rows_asked", "where", "share",
        "implicates", "drawing", "arithmetic", "versions", "parents", "files",
    }  # fmt: skip
    assert manifest["command"] == (
        "populace synth DATA --schema FILE --method mst --epsilon 1 --delta 1e-9 --seed 7 --format parquet --out DIR"
    )
    assert set(pq.read_schema(folder / "synthetic.parquet").metadata or {}) <= {b"ARROW:schema"}


def test_an_empty_folder_is_taken(release: Release, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    put(release, tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_a_folder_that_holds_something_is_refused(release: Release, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "keep").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        release.save(tmp_path / "out")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(UsageError, match="not a folder"):
            release.save(tmp_path / name)
    assert contents(tmp_path / "out") == {"keep": b"mine"}
    with pytest.raises(UsageError, match="format"):
        release.save(tmp_path / "new", format="xlsx")


def test_a_full_disk_leaves_nothing(release: Release, tmp_path: Path) -> None:
    """A limit on file sizes stands in for a full disk: the system refuses the write in the same place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(ResourceError, match="could not be written") as refused:
            put(release, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.exit_code == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_nothing(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(bundle, "describe_release", interrupted)
    with pytest.raises((ResourceError, KeyboardInterrupt)):
        put(release, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_is_refused(release: Release, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError):
        put(release, tmp_path / "file" / "out")


def test_a_missing_parent_is_made(release: Release, tmp_path: Path) -> None:
    assert (put(release, tmp_path / "a" / "b") / "manifest.json").is_file()


def test_a_folder_without_manifest_does_not_load(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out")
    (folder / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match=r"manifest\.json"):
        Release.load(folder)


@pytest.mark.parametrize(
    ("like", "kind", "table_format"),
    [
        (pd.DataFrame({"a": [1]}), pd.DataFrame, "parquet"),
        (pl.DataFrame({"a": [1]}), pl.DataFrame, "parquet"),
        (pl.LazyFrame({"a": [1]}), pa.Table, "parquet"),
        (pa.table({"a": [1]}), pa.Table, "parquet"),
        ("people.CSV", pa.Table, "csv"),
        (Path("people.parquet"), pa.Table, "parquet"),
        (None, pa.Table, "csv"),
    ],
)
def test_the_table_is_of_the_kind_that_came_in(
    release: Release, like: object, kind: type, table_format: str
) -> None:
    made = releases.make(release.measurements, like=like)
    assert isinstance(made.table, kind)
    assert made.format == table_format
    assert list(made.table.columns if kind is not pa.Table else made.table.column_names) == list(releases.FEW)


def test_whole_numbers_stay_whole_in_pandas(tmp_path: Path) -> None:
    table, schema = releases.small_sample(("sex", "age"))
    ages = [age if age > 20 else None for age in table["age"].to_pylist()]
    table = table.set_column(1, "age", pa.array(ages, pa.int64()))
    gaps = IntegerColumn(name="age", min=0, max=99)
    schema = Schema(columns={**schema.columns, "age": gaps}, unit=schema.unit, dataset=schema.dataset)
    measured = releases.measure(table, schema, ledger=tmp_path / "l.db")
    frame = releases.make(measured, like=pd.DataFrame({"a": [1]})).table
    assert frame["age"].isna().any()
    assert str(frame["age"].dtype) == "Int64"


def test_zero_rows_and_chosen_rows(release: Release, tmp_path: Path) -> None:
    for rows in (0, 3):
        made = releases.make(release.measurements, rows=rows)
        loaded = Release.load(put(made, tmp_path / str(rows)))
        assert loaded.table.num_rows == rows
        assert loaded.statement["total"]["origin"] == "chosen by the curator"
        assert f"--rows {rows}" in json.loads((tmp_path / str(rows) / "manifest.json").read_text())["command"]


def test_a_rehearsal_is_stamped_on_every_artefact(tmp_path: Path) -> None:
    table, schema = releases.small_sample(("sex", "health"), households=30)
    measured = releases.measure(table, schema, ledger=tmp_path / "l.db", rehearsal=True)
    releases.make(measured).save(tmp_path / "out")
    for name in ("statement.json", "statement.md", "codebook.json", "manifest.json", "report.html"):
        assert REHEARSAL_STAMP in (tmp_path / "out" / name).read_text(encoding="utf-8"), name
    assert json.loads((tmp_path / "out" / "measurements.json").read_text())["rehearsal"] is True


def test_it_prints_in_two_lines(release: Release) -> None:
    rows = release.synthetic.num_rows
    assert repr(release) == (
        f"Release of “sample-population”: {rows} synthetic rows, 5 columns\n  ε = 1, δ = 1e-9 for one person"
    )
    assert repr(release.measurements) == (
        "Measurements of “sample-population”: number of rows, 5 columns, 4 pairs\n  paid for with ε = 1, δ = 1e-9"
    )
    assert repr(release.model) == f"Model of 5 columns, 6 cliques, {rows} rows"
    assert repr(release.measurements.items[1]).startswith("Measurement(sex, 2 cells, variance ")


@pytest.mark.parametrize("name", [*MEASUREMENT_FILES, *MODEL_FILES, "synthetic.csv"])
def test_what_is_missing_or_cut_short_is_named(release: Release, tmp_path: Path, name: str) -> None:
    folder = put(release, tmp_path / "out")
    (folder / name).write_bytes((folder / name).read_bytes()[:20])
    for words in (name, f"no {name}"):
        with pytest.raises(ReleaseError, match=re.escape(words)) as refused:
            Release.load(folder)
        assert "Error" not in str(refused.value)
        (folder / name).unlink(missing_ok=True)


def test_versions_are_told_where_arrow_has_lost_its_own(monkeypatch):
    told = manifest.list_versions()
    monkeypatch.setattr(manifest.pa, "__version__", None)
    assert manifest.list_versions() == told
