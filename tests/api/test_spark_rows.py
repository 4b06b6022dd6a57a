"""Rows that workers of a cluster draw: the tasks are run here, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.inference.model import Model
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise, NoiseSource
from populace.release import synthetic_rows
from populace.sampling import row_blocks

Draw = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Session:
    """What is used of a Spark session: numbers in partitions, and a function over each of these."""

    partitions: int | None
    numbers: tuple[int, ...] = ()

    def range(self, start: int, end: int, step: int, parts: int) -> Session:
        return Session(self.partitions or parts, tuple(range(start, end, step)))

    def mapInArrow(self, draw: Draw, types: pa.Schema) -> pa.Table:
        shares = [self.numbers[first :: self.partitions] for first in range(self.partitions or 1)]
        batches = [pa.record_batch({"id": pa.array(share, pa.int64())}) for share in shares]
        return pa.Table.from_batches([each for batch in batches for each in draw(iter([batch]))], types)


def make_model(folder: Path, *, noise: NoiseSource | None = None) -> Model:
    schema = pp.Schema.parse(
        '[columns.a]\nkind = "integer"\nmin = 0\nmax = 99\nwidth = 10\n'
        '[columns.d]\nkind = "date"\nmin = "2020-01-01"\nmax = "2020-01-09"\n'
    )
    table = pa.table({"a": [*range(10)] * 50, "d": ["2020-01-03"] * 500})
    return pp.fit(pp.measure(table, schema=schema, epsilon=1, delta=0, ledger=folder / "m.db", noise=noise))


def test_a_rehearsal_has_no_rows_without_a_stamp(tmp_path: Path) -> None:
    model = make_model(tmp_path, noise=ExactNoise(RehearsalEntropy(3)))
    with pytest.raises(ReleaseError, match="rehearsal"):
        pp.generate_on_spark(model, None, rows=10, seed=4)


@pytest.mark.parametrize("rows", [1050, 90])
def test_the_same_seed_gives_the_rows_of_generate_in_any_number_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    types: Any = ModuleType("pyspark.sql.pandas.types")
    types.from_arrow_schema = lambda schema: schema
    monkeypatch.setitem(sys.modules, "pyspark.sql.pandas.types", types)
    for module in (row_blocks, synthetic_rows):
        monkeypatch.setattr(module, "MAX_BLOCK_ROWS", 100)
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 100)
    monkeypatch.setattr(row_blocks, "MAX_COPIES", 3)
    model = make_model(tmp_path)
    expected = pp.generate(model, rows=rows, seed=4).table
    apart, together = (
        pp.generate_on_spark(model, Session(partitions), rows=rows, seed=4) for partitions in (None, 1)
    )
    assert apart.cast(expected.schema).equals(expected)
    assert together.equals(apart)
    other = pp.generate_on_spark(model, Session(None), rows=rows, seed=5)
    assert other.num_rows == rows
    assert not other.equals(apart)
