"""Saved counts have their intervals beside them, the right ones, and `verify` computes them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.stage_folders import save_measurements
from populace.inference.gls.count_intervals import intervals
from populace.measurements.measurements import Measurements
from populace.release.bundle import Release
from tests.helpers import releases
from tests.release.verify.test_verify import failed, put, reseal


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    table, schema = releases.small_sample()
    return releases.make(releases.measure(table, schema, ledger=tmp_path_factory.mktemp("l") / "ledger.db"))


def rewrite(folder: Path, table: pa.Table) -> None:
    pq.write_table(table, folder / "measurements.parquet")
    reseal(folder)


def test_every_saved_count_has_its_interval(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out")
    cells = pq.read_table(folder / "measurements.parquet").to_pandas()
    found = intervals(release.measurements)
    start = 0
    for item in release.measurements.items:
        here, interval = cells[start : start + item.counts.size], found.at(item.marginal)
        start += item.counts.size
        assert set(here["marginal"]) == {str(item.marginal)}
        assert (here["count"] == item.counts.ravel()).all()
        np.testing.assert_allclose(here["estimate"], interval.estimate.ravel(), atol=1e-3)
        np.testing.assert_allclose(here["low"], interval.low.ravel(), atol=1e-3)
        np.testing.assert_allclose(here["high"], interval.high.ravel(), atol=1e-3)
    assert start == len(cells)
    assert (cells["low"] <= cells["high"]).all()


def test_the_first_stage_writes_them_too(release: Release, tmp_path: Path) -> None:
    save_measurements(release.measurements, tmp_path / "measured")
    names = ["marginal", "cell", "count", "estimate", "low", "high"]
    assert pq.read_schema(tmp_path / "measured" / "measurements.parquet").names == names
    assert Measurements.load(tmp_path / "measured").digest == release.measurements.digest


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["estimate", "low", "high"])
def test_intervals_that_do_not_follow_from_the_counts_fail(
    release: Release, tmp_path: Path, name: str
) -> None:
    folder = put(release, tmp_path / "out")
    table = pq.read_table(folder / "measurements.parquet")
    numbers = table[name].to_numpy().copy()
    numbers[-1] += 0.01
    rewrite(folder, table.set_column(table.schema.get_field_index(name), name, pa.array(numbers)))
    assert failed(folder) == ["intervals"]


def test_counts_without_intervals_fail(release: Release, tmp_path: Path) -> None:
    folder = put(release, tmp_path / "out")
    rewrite(folder, pq.read_table(folder / "measurements.parquet").drop_columns(["low"]))
    assert failed(folder) == ["intervals"]
