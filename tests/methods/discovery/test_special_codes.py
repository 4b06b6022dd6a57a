"""Learning bins of a column with special codes, and the noise of everything that is told about it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from populace.api.measure import measure
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import open_source, read_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.schema import Schema

LEARN = """
[columns.AGE]
kind = "integer"
min = 0
max = 99
missing = ["-1", "R"]
{bins}
"""


class Shifted(ExactNoise):
    """Noise that moves every count by the same number: where it is missing shows."""

    def __init__(self, shift: int) -> None:
        super().__init__(RehearsalEntropy(1))
        self.shift = shift

    def add(self, exact, *, mechanism):
        return exact + self.shift


def test_special_codes_are_counted_beside_learnt_bins(tmp_path):
    """What is measured while bins are learnt is the learnt column's own marginal, with rows at special codes too."""
    ages = [str(n % 100) for n in range(20_000)] + ["-1"] * 3000 + ["R"] * 500 + ["x"] * 70
    frame = pa.table({"AGE": ages})
    found = measure(
        frame,
        schema=Schema.parse(LEARN.format(bins='bins = "learn"')),
        epsilon=10,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "ledger.db",
        noise=Shifted(0),
    )
    codes = encode_values(found.schema.columns["AGE"], frame["AGE"])
    tables = [item for item in found.items if item.marginal.clique]
    assert len(tables) == 2
    for item in tables:
        groups = item.marginal.groupings[0].lookup[codes] if item.marginal.groupings else codes
        assert np.bincount(groups, minlength=item.counts.size).tolist() == item.counts.ravel().tolist()
        assert item.counts.sum() == len(ages)


def test_every_part_of_a_column_has_noise_and_the_rest_too(tmp_path):
    schema = Schema.parse(LEARN.format(bins=""))
    run = Ledger.open(tmp_path / "ledger.db").reserve(
        "d",
        epsilon=Fraction(10),
        delta=Fraction(1, 10**6),
        unit=schema.unit,
        method="test",
        schema_digest=schema.digest,
        rehearsal=True,
    )
    table = PrivateTable.of(pa.table({"AGE": [1, 2, 50, -1, None]}), schema=schema)
    barrier = Barrier(table, run=run, noise=Shifted(1000))
    groups = np.full(schema.columns["AGE"].size, 2)
    groups[:2], groups[2:10] = 0, 1
    told = barrier.discover_bins("AGE", groups=groups, noise=DiscreteGaussian(Fraction(100)))
    assert told.tolist() == [1001, 1001, 1003]


TIED = """
[columns.CITY]
kind = "categorical"
values = "learn"

[columns.AGE]
kind = "integer"
min = 0
max = 99
bins = "learn"
universe = "CITY is not missing"
outside = "N"
"""


def test_bins_are_learnt_on_rows_that_keep_rules_about_learnt_values(tmp_path):
    """Before its values are learnt every city is missing; bins are learnt on rows that are read with them."""
    rng = np.random.default_rng(1)
    ages = rng.integers(0, 100, 6000)
    frame = pa.table({"CITY": ["Ulm", "Bonn", None] * 2000, "AGE": ages})
    found = measure(
        frame,
        schema=Schema.parse(TIED),
        epsilon=10,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "ledger.db",
        noise=Shifted(0),
    )
    assert len(found.schema.columns["AGE"].starts) > 10
    codes = read_codes(open_source(frame), found.schema)["AGE"]
    levels = [item for item in found.items if item.marginal.clique == ("AGE",)]
    assert len(levels) == 2
    for item in levels:
        assert np.bincount(codes, minlength=item.counts.size).tolist() == item.counts.tolist()
        assert item.counts[: found.schema.columns["AGE"].levels].sum() == 4000
