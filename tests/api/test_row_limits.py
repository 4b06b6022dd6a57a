"""Noise may ask for billions of rows: as many as fit are drawn, and the statement says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from populace.api import synthesize as synthesize_api
from populace.core.errors import ResourceError
from populace.methods.registry import METHODS
from populace.private import capacity as room
from populace.release.row_selection import RowSelection, expected_row_count
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases

SCHEMA = Schema.parse(
    '[table]\ndataset = "few"\n\n'
    + "".join(f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 2\n\n' for name in "abc")
)
PER_ROW = 3 + 8 * 3


def rows(seed):
    rng = np.random.default_rng(seed)
    return pa.table({name: rng.integers(0, 3, 20) for name in "abc"})


@pytest.fixture
def small(monkeypatch):
    """Memory for a thousand rows, four times over, of one table."""
    most = room._fixed_bytes(SCHEMA) + room.COPIES_HELD * PER_ROW * 1000
    monkeypatch.setattr(room, "memory_limit", lambda: most)


@pytest.mark.parametrize(
    "method",
    sample_cases(
        [name for name in METHODS if name not in ("stability", "histogram-exponential", "topdown")], to=4
    ),
)
def test_no_method_draws_more_rows_than_fit(method, small, tmp_path):
    for number in range(20):
        release = synthesize_api.synthesize(
            rows(1),
            schema=SCHEMA,
            epsilon="1e-6",
            delta="1e-9",
            method=method,
            public=rows(2) if method == "dpsyn" else None,
            ledger=tmp_path / f"{number}.db",
        )
        assert release.synthetic.num_rows <= 1000
        if release.model.total > 1000:
            break
    else:
        pytest.fail("noise was never above the limit")
    total = release.statement["total"]
    assert (total["rows"], total["origin"]) == (1000, "noisy, and cut to what memory holds")
    assert "memory" in total["text"]
    release.save(tmp_path / "out", report=False)
    assert "as many as memory held" in (tmp_path / "out" / "statement.md").read_text()
    assert verify(tmp_path / "out").passed


def test_several_tables_share_the_memory_and_rows_asked_for_are_not_cut(small):
    assert room.max_synthetic_rows(SCHEMA) == 1000
    assert room.max_synthetic_rows(SCHEMA, tables=4) == 250
    assert expected_row_count(replace(SCHEMA, max_rows=10), 1e11) == 10
    assert expected_row_count(SCHEMA, 40.0, selection=RowSelection(where="a == 1", share=0.25)) == 10


def test_declared_totals_that_do_not_fit_are_refused_before_anything_is_spent(small, tmp_path):
    schema = Schema.parse(SCHEMA.to_toml() + "\n[[totals]]\ncount = 1000000000\n")
    with pytest.raises(ResourceError):
        synthesize_api.synthesize(rows(1), schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()
