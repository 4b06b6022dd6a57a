"""For generated universes, zeros and functions: whole runs release as many rows as asked, and all rows keep them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import populace as pp
from populace.core.errors import SchemaError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn
from populace.schema.conditions.structural_zeros import StructuralZero
from populace.schema.schema import Schema
from tests.properties.example_counts import tried
from tests.properties.slow_interpreter import keeps
from tests.properties.test_expressions_agree import _text, cells, rows, ruled


@tried(4)
@given(st.data())
def test_every_released_row_keeps_every_rule(data: st.DataObject) -> None:
    """By a slow interpreter of the released values, not by the tables that the model is made of."""
    schema = data.draw(ruled())
    table = pa.table(cells(schema, data.draw(rows(schema))))
    asked = data.draw(st.sampled_from([0, 1, 7, 200]))
    with tempfile.TemporaryDirectory() as place:
        release = pp.synthesize(
            table,
            schema=schema,
            epsilon=data.draw(st.sampled_from([1, 50])),
            delta="1e-6",
            method=data.draw(st.sampled_from(["auto", "mst", "independent"])),
            rows=asked,
            ledger=Path(place) / "ledger.db",
            noise=ExactNoise(RehearsalEntropy(data.draw(st.integers(0, 99)))),
        )
    released = release.table.to_pylist()
    assert len(released) == asked
    for row in released:
        texts = {name: "" if value is None else _text(value) for name, value in row.items()}
        assert all(keeps(texts, schema)), texts


@tried(20)
@given(st.data())
def test_rules_are_refused_exactly_where_no_row_keeps_them(data: st.DataObject) -> None:
    """By looking at every row there could be."""
    seed, count = data.draw(st.integers(0, 9999)), data.draw(st.integers(1, 14))
    rng = np.random.default_rng(seed)
    values = ("0", "1", "2")
    columns = {name: CategoricalColumn(name=name, values=values, other="0") for name in "abcde"}
    grid = np.indices((3,) * 5).reshape(5, -1)
    kept = np.ones(grid.shape[1], dtype=bool)
    zeros = []
    for _ in range(count):
        first, second = rng.choice(5, 2, replace=False)
        one, other = rng.integers(0, 3, 2)
        wide = rng.random() < 0.5
        names = "abcde"
        zeros.append(
            StructuralZero(
                when=f"{names[first]} {'!=' if wide else '=='} '{one}' and {names[second]} != '{other}'"
            )
        )
        kept &= ~(((grid[first] != one) if wide else (grid[first] == one)) & (grid[second] != other))
    if kept.any():
        schema = Schema(columns=columns, zeros=tuple(zeros))
        codes = TableCodec(schema).encode({name: pa.array(["2"]) for name in columns})
        assert kept[np.ravel_multi_index([codes[name][0] for name in columns], (3,) * 5)]
    else:
        with pytest.raises(SchemaError, match=r"contradict|no code|forbids"):
            Schema(columns=columns, zeros=tuple(zeros))
