"""Every number of a hierarchical release is made again: a forged one is found, whatever digests say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.release.bundle import Release
from populace.release.table_files import write_table
from populace.release.verify.verify import verify
from tests.helpers.forged_releases import Forger, exit_code
from tests.helpers.small_geography import release_geography
from tests.release.verify.test_forged_releases import fuzz


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("land")
    release_geography(place / "ledger.db", frequency=True).save(place / "out", format="parquet")
    return place / "out"


@pytest.fixture(scope="module")
def microdata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("people")
    release_geography(place / "ledger.db", zeros=True, delta="0").save(
        place / "out", format="csv", report=False
    )
    return place / "out"


def forge(path: Path, column: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change a column of a Parquet file that is otherwise written as it was."""
    groups = pq.ParquetFile(path)
    tables = [groups.read_row_group(number) for number in range(groups.num_row_groups)]
    del groups
    with pq.ParquetWriter(path, tables[0].schema, compression="zstd") as out:
        for number, table in enumerate(tables):
            values = table[column].to_numpy().copy()
            changed = pa.array(change(values) if number == len(tables) - 1 else values, table[column].type)
            out.write_table(table.set_column(table.column_names.index(column), column, changed))


def add(amount: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[-1] += amount
        return values

    return change


def failed(folder: Path) -> list[str]:
    return [check.name for check in verify(folder).checks if check.outcome.value == "failed"]


def test_releases_are_verified_in_all_their_parts(folder: Path, microdata: Path) -> None:
    for each in (folder, microdata):
        verdict = verify(each)
        assert verdict.verified, [check for check in verdict.checks if not check.passed]
        assert {"tables", "noisy measurements", "fitted", "redrawn"} <= {c.name for c in verdict.checks}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "column", "change", "check"),
    [
        ("tables.parquet", "unbiased", add(0.01), "tables"),
        ("tables.parquet", "unbiased", add(0.001), "tables"),
        ("tables.parquet", "unbiased", add(0.0004), "tables"),
        ("tables.parquet", "unbiased", add(float("nan")), "tables"),
        ("tables.parquet", "margin", add(-0.001), "tables"),
        ("tables.parquet", "published", add(1), "tables"),
        ("tables.parquet", "sex", lambda values: values[::-1], "tables"),
        ("tables.parquet", "county", lambda values: np.where(values == "A", "B", "A"), "tables"),
        ("noisy_measurements.parquet", "value", add(1), "noisy measurements"),
        ("noisy_measurements.parquet", "variance", add(1e-9), "noisy measurements"),
        (
            "noisy_measurements.parquet",
            "query",
            lambda values: np.full(len(values), "sex"),
            "noisy measurements",
        ),
    ],
)
def test_forged_numbers_are_found(
    folder: Path,
    tmp_path: Path,
    name: str,
    column: str,
    change: Callable[[np.ndarray], np.ndarray],
    check: str,
) -> None:
    forger = Forger(folder, tmp_path / "out", seed=1)
    forge(forger.folder / name, column, change)
    forger.reseal()
    assert failed(forger.folder) == [check]


def test_forged_rows_are_found(folder: Path, tmp_path: Path) -> None:
    forger = Forger(folder, tmp_path / "out", seed=1)
    path = forger.folder / "synthetic.parquet"
    table = pq.read_table(path)
    counts = table["n"].to_numpy().copy()
    counts[0] += 1
    for moved, check in ((0, "rows"), (-1, "redrawn")):
        counts[1] += moved
        write_table(table.set_column(4, "n", pa.array(counts)), path)
        forger.reseal()
        assert check in failed(forger.folder)


def test_rows_that_stand_for_nobody_are_found(folder: Path, tmp_path: Path) -> None:
    forger = Forger(folder, tmp_path / "out", seed=1)
    path = forger.folder / "synthetic.parquet"
    table = pq.read_table(path)
    counts = table["n"].to_numpy().copy()
    counts[0], counts[1] = 0, counts[0] + counts[1]
    write_table(table.set_column(4, "n", pa.array(counts)), path)
    forger.reseal()
    assert "rows" in failed(forger.folder)


def test_integer_tables_that_do_not_follow_from_the_measurements_are_found(
    folder: Path, tmp_path: Path
) -> None:
    """A model, its rows and its tables agree with each other; only fitting again shows that they are made up."""
    release = Release.load(folder)
    counts = release.hierarchy.smallest.copy()
    place = tuple(np.argwhere(counts > 0)[0])
    counts[place] -= 1
    counts[place[0] ^ 1][place[1:]] += 1
    from dataclasses import replace

    from populace.methods.topdown.counts_model import build_counts_model

    schema = release.measurements.schema
    model = replace(build_counts_model(counts, schema), measurements_digest=release.measurements.digest)
    forged = pp.generate(model.with_measurements(release.measurements), seed=release.seed)
    forged.save(tmp_path / "out", report=False)
    assert failed(tmp_path / "out") == ["fitted"]


def test_missing_or_further_files_are_found(folder: Path, tmp_path: Path) -> None:
    forger = Forger(folder, tmp_path / "out", seed=1)
    path = forger.folder / "manifest.json"
    for names in (("tables.parquet",), ("tables.parquet", "noisy_measurements.parquet")):
        manifest = json.loads(path.read_text("utf-8"))
        for name in names:
            (forger.folder / name).unlink()
            del manifest["files"][name]
        path.write_text(json.dumps(manifest, indent=2))
        forger.reseal()
        assert failed(forger.folder) in (["files"], ["contents"])
        forger.restore()


def test_metadata_and_other_row_groups_are_not_verified(folder: Path, tmp_path: Path) -> None:
    forger = Forger(folder, tmp_path / "out", seed=1)
    path = forger.folder / "tables.parquet"
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"who": "somebody"}), path)
    forger.reseal()
    assert exit_code(forger.folder)[0] == 2


@pytest.mark.slow
def test_forged_releases_are_answered(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.release.verify.test_forged_releases.NEWEST", folder.parent)
    fuzz(folder, tmp_path / "out", seed=3, mutations=60, monkeypatch=monkeypatch)
