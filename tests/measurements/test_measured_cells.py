"""Cells of measurements by name: every count says which columns and values it counts, and nothing else is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.core.marginals import Grouping, Marginal
from populace.measurements import measured_cells
from populace.measurements.measured_cells import read_cells, tabulate_cells
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[columns.sex]
kind = "categorical"
values = ["1", "2"]
labels = { "1" = "female", "2" = "male" }
other = "1"

[columns.age]
kind = "integer"
min = 0
max = 29
width = 10
other = "0"

[columns.town]
kind = "categorical"
values = ["a", "b", "c"]
labels = { "a" = "same", "b" = "same" }
other = "a"
""")
TOWNS = Grouping("town", (0, 1, 0))
COUNTS = [
    (Marginal(()), np.array(7)),
    (Marginal(("sex", "age")), np.arange(6).reshape(2, 3)),
    (Marginal(("town",)), np.arange(3)),
    (Marginal.with_groupings(("town", "sex"), {"town": TOWNS}), np.arange(4).reshape(2, 2)),
]
MARGINALS = [marginal for marginal, _ in COUNTS]


def test_cells_have_names(tmp_path: Path) -> None:
    table = tabulate_cells(COUNTS, beside={}, schema=SCHEMA)
    assert list(dict.fromkeys(table["marginal"].to_pylist())) == [
        "number of rows",
        "sex × age",
        "town",
        "town × sex",
    ]
    assert table["cell"].to_pylist() == [
        "all rows",
        *("female × 0–9", "female × 10–19", "female × 20–29", "male × 0–9", "male × 10–19", "male × 20–29"),
        *("same [0]", "same [1]", "c"),
        *("same, c × female", "same, c × male", "same × female", "same × male"),
    ]
    path = tmp_path / "cells.parquet"
    for labelled in (True, False):
        schema = SCHEMA if labelled else None
        pq.write_table(
            tabulate_cells(COUNTS, beside={"low": [c * 1.0 for _, c in COUNTS]}, schema=schema), path
        )
        found = read_cells(path, MARGINALS, schema=SCHEMA, labelled=labelled)
        assert [each.tolist() for each in found] == [counts.tolist() for _, counts in COUNTS]


def test_other_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cells.parquet"
    table = tabulate_cells(COUNTS, beside={}, schema=SCHEMA)
    for name in ("marginal", "cell"):
        texts = table[name].to_pylist()
        texts[3] += " "
        pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(texts)), path)
        with pytest.raises(ValueError, match="other cells"):
            read_cells(path, MARGINALS, schema=SCHEMA, labelled=True)
    pq.write_table(table, path)
    with pytest.raises(ReleaseError, match="columns and types"):
        read_cells(path, MARGINALS, schema=SCHEMA, labelled=False)


def test_saved_measurements_keep_their_format(tmp_path: Path) -> None:
    rows = pa.table({"sex": ["1", "2"] * 50, "age": [5, 25] * 50, "town": ["a", "c"] * 50})
    spending = {"epsilon": 1, "delta": 0, "ledger": tmp_path / "l.db"}
    measured = pp.measure(rows, schema=SCHEMA, method="independent", dataset="x", **spending)
    measured.save(tmp_path / "one")
    again = pp.Measurements.load(tmp_path / "one")
    assert again.digest == measured.digest
    assert pq.read_schema(tmp_path / "one" / "measurements.parquet").field("cell").type == pa.string()
    again.save(tmp_path / "two")
    for name in ("measurements.json", "measurements.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_cells_are_labelled_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of Arrow holds 2 GiB of texts: one of all labels of a large table fails, after all was paid for."""
    whole = tabulate_cells(COUNTS, beside={}, schema=SCHEMA)
    monkeypatch.setattr(measured_cells, "PART_CELLS", 2)
    joined = measured_cells.pc.binary_join_element_wise
    sizes: list[int] = []

    def join(*texts: Any) -> Any:
        sizes.append(len(texts[0]))
        return joined(*texts)

    monkeypatch.setattr(measured_cells.pc, "binary_join_element_wise", join)
    parts = tabulate_cells(COUNTS, beside={}, schema=SCHEMA)
    assert max(sizes) == 2
    assert parts.equals(whole)
    assert all(column.num_chunks == 1 for column in parts.columns)
