"""Rows that workers of a cluster draw: the tasks are run here, one after the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.inference.model import Model
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise, NoiseSource


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
