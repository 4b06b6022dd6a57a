"""A unit is one unit, and a text one text, however many batches its rows are read in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.private.read import csv_lines as lines
from populace.private.read import sources
from populace.private.read.rows_to_codes import open_source, read_codes
from populace.private.read.value_counts import read_tallies
from populace.schema.schema import Schema

ROWS = 1000
TEXT = """
[table]
unit = "household"
rows_per_unit = {rows}
id = "HOUSE"

[columns.AGE]
kind = "integer"
min = 0
max = 999

[columns.CITY]
kind = "categorical"
values = "learn"
"""


def table() -> pa.Table:
    """Seven households in turn, and rows of nobody; each batch meets houses and cities in another order."""
    place = range(ROWS)
    return pa.table(
        {
            "AGE": list(place),
            "HOUSE": [None if n % 10 == 9 else f"h{n * n % 7}" for n in place],
            "CITY": [f"c{n // 50 + n % 3}" for n in place],
        }
    )


def expected(rows: int) -> tuple[list[int], dict[str, int]]:
    seen: dict[str, int] = {}
    ages, cities = [], {}
    for row in table().to_pylist():
        house = row["HOUSE"]
        if house is not None and seen.setdefault(house, 0) < rows:
            seen[house] += 1
            ages.append(row["AGE"])
            cities[row["CITY"]] = cities.get(row["CITY"], 0) + 1
    return ages, dict(sorted(cities.items()))


def csv(path: Path) -> Path:
    header, *body = (",".join(table().column_names), *(row.values() for row in table().to_pylist()))
    written = [",".join("" if cell is None else str(cell) for cell in row) for row in body]
    path.write_text("\n".join([header, *written, ""]))
    return path


def parquet(path: Path) -> Path:
    pq.write_table(table(), path)
    return path


KINDS = {"csv": csv, "parquet": parquet, "frame": lambda _: table()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", [1, 3, 60])
@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_a_unit_has_its_rows_once_in_all_batches(made, rows, tmp_path, monkeypatch):
    """Only its first rows are counted, in codes and in texts, also where they lie far apart."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 512)
    monkeypatch.setattr(sources, "BATCH_ROWS", 64)
    schema = Schema.parse(TEXT.format(rows=rows))
    source = open_source(made(tmp_path / "rows"))
    assert len(list(source.batches(["HOUSE"]))) > 5
    ages, cities = expected(rows)
    assert read_codes(source, schema)["AGE"].tolist() == ages
    tally = read_tallies(source, schema)["CITY"]
    assert dict(zip(tally.keys.to_pylist(), tally.counts.tolist(), strict=True)) == cities
    assert tally.keys.to_pylist() == list(cities), "sorted, and no text of rows that do not count"
