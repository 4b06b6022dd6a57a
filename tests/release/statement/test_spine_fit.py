"""A spine whose ids the data write otherwise shows in the statement; one that fits does not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import populace as pp
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise

SCHEMA = """
[table]
dataset = "counted"
frequency = "n"
[geography]
levels = ["county", "block"]
units = ["01|1", "01|2", "02|1", "02|2"]
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "m"
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("counties", "blocks", "told"),
    [
        (["01", "01", "02", "02"], ["1", "2", "1", "2"], None),
        (["North", "North", "South", "South"], ["1", "2", "1", "2"], "first county"),
        (["01", "01", "02", "02"], ["a", "b", "a", "b"], "first block"),
    ],
)
def test_ids_that_do_not_fit_show(tmp_path, counties: list[str], blocks: list[str], told: str | None) -> None:
    rows = pa.table(
        {"county": counties, "block": blocks, "sex": ["f", "m"] * 2, "n": [4000, 3000, 5000, 2000]}
    )
    release = pp.synthesize(
        rows,
        schema=pp.Schema.parse(SCHEMA),
        epsilon=2,
        delta="1e-6",
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(3)),
    )
    warnings = [text for text in release.statement["warnings"] if "off the spine" in text]
    assert (not warnings) if told is None else (told in warnings[0])
