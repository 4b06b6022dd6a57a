"""Noisy measurements in the layout of the US Census Bureau: estimates are dense least squares of all that they hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.area import estimate_area
from populace.core.errors import UsageError
from populace.release.hierarchy.census_measurements import has_census_files, read_census_measurements

SHAPE = (2, 3)
ATTRIBUTES = ("hhgq", "votingage")
# One state, whose county B has a single block group: it was passed over, and its blocks are more precise.
BLOCKS = {
    "0": "1" + "44001030100" + "1" + "1001",
    "1": "1" + "44001030100" + "1" + "1002",
    "2": "1" + "44003020600" + "2" + "2001",
    "3": "1" + "44003020600" + "2" + "2002",
}
WIDTHS = {"State": 3, "County": 6, "Block": 17}
SHAPES = {"total_dpq": (1, 1), "hhgq_dpq": (2, 1), "detailed_dpq": SHAPE, "hhinst_dpq": (2, 2)}
Row = tuple[str, str, tuple[int, ...], np.ndarray, float]


def write_level(folder: Path, level: str, rows: list[Row], totals: dict[str, int] | None = None) -> None:
    """Write the files of a level as the Bureau does: queries and constraints apart, by state."""
    table = pa.table(
        {
            "geocode": [row[0] for row in rows],
            "query_name": [row[1] for row in rows],
            **{name: ["*"] * len(rows) for name in ATTRIBUTES},
            "query_shape": [list(row[2]) for row in rows],
            "value": [row[3].ravel().astype(np.int64).tolist() for row in rows],
            "variance": pa.array([row[4] for row in rows], pa.float32()),
            "plb": ["1/2"] * len(rows),
        }
    )
    path = folder / f"{level}.parquet" / "DPQuery" / "State=144" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    if totals:
        con = folder / f"{level}.parquet" / "Constraint" / "State=144" / "part-0.parquet"
        con.parent.mkdir(parents=True)
        columns = {
            "geocode": [*totals],
            "query_name": ["total_con"] * len(totals),
            "sign": ["="] * len(totals),
            "query_shape": [[1, 1]] * len(totals),
            "value": [[count] for count in totals.values()],
        }
        pq.write_table(pa.table(columns), con)


def census(
    folder: Path, *, exact: bool = False
) -> tuple[list[tuple[np.ndarray, np.ndarray, float]], np.ndarray]:
    """Write a small census; return the rows of every noisy count over all cells of all blocks, and the truth."""
    rng = np.random.default_rng(4)
    truth = rng.poisson(20, size=(len(BLOCKS), *SHAPE))
    codes = list(BLOCKS.values())
    cells = np.eye(truth.size).reshape(truth.size, *truth.shape)
    design = []
    for level, width in WIDTHS.items():
        units = sorted({code[:width] for code in codes})
        rows: list[Row] = []
        for unit, (name, shape) in product(units, SHAPES.items()):
            passed = level == "County" and unit == "144003"
            if passed and name != "total_dpq":
                continue
            inside = [place for place, code in enumerate(codes) if code.startswith(unit)]
            if name == "hhinst_dpq":
                rows.append((unit, name, shape, np.zeros(shape), 1.0))
                continue
            lost = tuple(1 + axis for axis, n in enumerate(shape) if n == 1)
            sums = cells[:, inside].sum(axis=1).sum(axis=lost, keepdims=True).reshape(truth.size, -1).T
            variance = 4.0 if level == "Block" and unit.startswith("144003") else 9.0 + len(unit)
            values = np.rint(sums @ truth.ravel() + rng.normal(scale=variance**0.5, size=len(sums)))
            rows.append((unit, name, shape, values, variance))
            design.append((sums, values, variance))
        totals = {unit: int(truth.sum()) for unit in units} if exact and level == "State" else None
        write_level(folder, level, rows, totals)
    return design, truth


def least_squares(
    design: list[tuple[np.ndarray, np.ndarray, float]], truth: np.ndarray, *, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([sums / variance**0.5 for sums, _, variance in design])
    values = np.concatenate([v / variance**0.5 for _, v, variance in design])
    size = truth.size
    matrix, right = rows.T @ rows, rows.T @ values
    if not exact:
        return np.linalg.solve(matrix, right), np.linalg.inv(matrix)
    ones = np.ones((1, size))
    whole = np.block([[matrix, ones.T], [ones, np.zeros((1, 1))]])
    inverse = np.linalg.inv(whole)
    return inverse[:size] @ np.append(right, truth.sum()), inverse[:size, :size]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("by", [(), ("hhgq",), ("votingage",), ("hhgq", "votingage")])
def test_estimates_of_areas_are_dense_least_squares(by: tuple[str, ...], exact: bool, tmp_path: Path) -> None:
    design, truth = census(tmp_path, exact=exact)
    estimate, covariance = least_squares(design, truth, exact=exact)
    found = read_census_measurements(tmp_path, by=by)
    assert found.left_out == ("hhinst",)
    lost = tuple(1 + axis for axis, name in enumerate(ATTRIBUTES) if name not in by)
    cells = np.eye(truth.size).reshape(truth.size, *truth.shape)
    for members in ([0], [1, 2], [0, 3], [0, 1, 2, 3]):
        sums = cells[:, members].sum(axis=1).sum(axis=lost).reshape(truth.size, -1).T
        # A block's public id has no digit for the group.
        geoids = [BLOCKS[str(place)][1:][:11] + BLOCKS[str(place)][1:][12:] for place in members]
        table = found.area({"block": geoids}).table
        assert np.allclose(table["unbiased"].to_numpy(), sums @ estimate, atol=2e-3)
        deviation = np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", sums, covariance, sums), 0))
        assert np.allclose(table["margin"].to_numpy(), 1.96 * deviation, atol=2e-3)


def test_the_verb_reads_such_a_folder(tmp_path: Path) -> None:
    _, truth = census(tmp_path / "nmf", exact=True)
    assert has_census_files(tmp_path / "nmf")
    assert not has_census_files(tmp_path)
    (tmp_path / "units.csv").write_text("county\n144001\n144003\n")
    found = estimate_area(tmp_path / "nmf", tmp_path / "units.csv")
    assert found.units == 4
    assert "published" not in found.table.column_names
    assert found.table["unbiased"].to_pylist() == [truth.sum()]
    assert found.table["margin"].to_pylist() == [0]


def drop(column: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = next((folder / "Block.parquet").rglob("*.parquet"))
        pq.write_table(pq.ParquetFile(path).read().drop_columns([column]), path)

    return change


def lose_a_block(folder: Path) -> None:
    path = next((folder / "Block.parquet" / "DPQuery").rglob("*.parquet"))
    table = pq.ParquetFile(path).read()
    first = table["geocode"][0].as_py()
    kept = [text != first or name == "total_dpq" for text, name in zip(*_texts(table), strict=True)]
    pq.write_table(table.filter(pa.array(kept)), path)


def _texts(table: pa.Table) -> tuple[list[str], list[str]]:
    return table["geocode"].to_pylist(), table["query_name"].to_pylist()


@pytest.mark.parametrize(
    ("change", "by", "said"),
    [
        (drop("variance"), (), "no column 'variance'"),
        (lambda _: None, ("hhgqq",), "no column 'hhgqq'"),
        (lose_a_block, ("hhgq", "votingage"), "were not measured"),
        (lambda folder: (next(folder.rglob("part-0.parquet"))).write_bytes(b"x"), (), "cannot be read"),
    ],
)
def test_folders_that_cannot_be_read_are_refused_with_a_hint(
    change: Callable[[Path], object], by: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    census(tmp_path)
    change(tmp_path)
    with pytest.raises(UsageError, match=said) as refused:
        read_census_measurements(tmp_path, by=by)
    assert refused.value.hint
