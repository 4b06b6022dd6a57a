"""Estimates of areas: any set of units, by any columns, and units that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.core.errors import UsageError
from populace.release.bundle import Release
from populace.release.hierarchy.area_units import find_members
from tests.helpers.small_geography import release_geography


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return release_geography(tmp_path_factory.mktemp("land") / "ledger.db")


def test_a_unit_of_the_spine_has_the_numbers_of_its_table(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "out", report=False)
    table = pq.read_table(tmp_path / "out" / "tables.parquet")
    found = release.area({"county": ["B"]}, by=("sex", "age")).table
    own = [row for row in table.to_pylist() if row["level"] == "county" and row["county"] == "B"]
    assert found.num_rows == len(own) == 6
    for row, cell in zip(found.to_pylist(), own, strict=True):
        assert (row["sex"], row["age"], row["published"]) == (cell["sex"], cell["age"], cell["published"])
        assert row["unbiased"] == pytest.approx(cell["unbiased"], abs=0.002)
        assert row["margin"] == pytest.approx(cell["margin"], abs=0.002)
        assert row["low"] == pytest.approx(row["unbiased"] - row["margin"], abs=0.002)


def test_an_area_off_the_spine_adds_up_its_units(release: Release) -> None:
    area = {"county": ["A", "B"], "tract": ["2", "1"]}
    members = np.array([False, True, False, True, False])
    found = release.area(area, by=["age"])
    hierarchy = release.hierarchy
    assert found.units == 2
    assert found.table["published"].to_pylist() == hierarchy.smallest[members].sum(axis=(0, 1)).tolist()
    estimates = hierarchy.estimates.cells[-1][members].sum(axis=(0, 1))
    assert np.allclose(found.table["unbiased"].to_numpy(), estimates, atol=0.001)
    deviation = hierarchy.estimates.area(members, clique=("age",)).standard_deviation
    assert np.allclose(found.table["margin"].to_numpy(), 1.96 * deviation, atol=0.001)
    total = release.area(area).table
    assert total.num_rows == 1
    assert total["published"].to_pylist() == [sum(found.table["published"].to_pylist())]


def test_impossible_cells_are_left_out(tmp_path: Path) -> None:
    found = (
        release_geography(tmp_path / "ledger.db", zeros=True).area({"county": ["A"]}, by=("sex", "age")).table
    )
    assert [(row["sex"], row["age"]) for row in found.to_pylist()][-1] == ("m", "30–59")
    assert found.num_rows == 5


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "arrow"])
def test_units_come_from_files_and_frames(release: Release, kind: str, tmp_path: Path) -> None:
    columns = {"county": ["A", "A", "A"], "tract": ["1", "3", "3"], "name": ["x", "y", "y"]}
    units: Any = pa.table(columns)
    if kind == "csv":
        units = tmp_path / "units.csv"
        pd.DataFrame(columns).to_csv(units, index=False)
    elif kind == "parquet":
        units = str(tmp_path / "units.parquet")
        pq.write_table(pa.table(columns), units)
    elif kind == "pandas":
        units = pd.DataFrame(columns)
    members = find_members(units, release.hierarchy.geography)
    assert members.tolist() == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("units", "message", "hint"),
    [
        ({"county": ["A", "C", "C"]}, "the release has no unit county 'C'.", "leading zeros"),
        ({"county": ["B"], "tract": ["2"]}, "no unit county 'B' tract '2'", "leading zeros"),
        ({"tract": ["1"]}, "tract '1' is the id of several units", "'county'"),
        ({"place": ["A"]}, "no column 'county' or 'tract'", "level"),
        ({"county": []}, "the area has no units", "one unit or more"),
        ({"county": list("CDEFGHI")}, "county 'G' and 2 more", "leading zeros"),
    ],
)
def test_units_that_cannot_be_found_are_refused_by_name(
    release: Release, units: dict[str, list[str]], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        release.area(units)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_ids_that_do_not_repeat_need_no_wider_column(release: Release) -> None:
    assert find_members({"tract": ["2", "4"]}, release.hierarchy.geography).tolist() == [0, 1, 0, 0, 1]


def test_unknown_columns_are_refused(release: Release) -> None:
    with pytest.raises(UsageError, match="no column 'sexx'"):
        release.area({"county": ["A"]}, by=("sexx",))
    with pytest.raises(UsageError, match="named twice"):
        release.area({"county": ["A"]}, by=("sex", "sex"))
    assert release.area({"county": ["A"]}, by="sex").by == ("sex",)
