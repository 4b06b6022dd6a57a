"""Whole runs of the methods that copy bins or rows: their noise is what the ledger says, no less and no more."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from populace.api import measure as measure_api
from populace.api import reservation
from populace.privacy.accounting.mechanisms import DiscreteLaplace, ExponentialCount, PartitionSelection
from populace.schema.schema import Schema
from tests.audit.test_noise_scale import Scaled, within
from tests.audit.transcripts import Workspace

FACTORS = [(Fraction(1), True), (Fraction(1, 2), False), (Fraction(2), False)]
TABLE = '[table]\nunit = "person"\nmax_rows = 100000\nneighbours = "{relation}"\n{id}'
COLUMN = '[columns.{name}]\nkind = "integer"\nmin = 0\nmax = {last}\nother = "0"\n'


class Faulty(Scaled):
    """A noise source of another scale, for counts within a range and for keys too."""

    def add(self, exact, *, mechanism):
        if isinstance(mechanism, ExponentialCount):
            return self.true.add(
                exact, mechanism=ExponentialCount(mechanism.scale * self.factor, mechanism.most)
            )
        return super().add(exact, mechanism=mechanism)

    def reveal(self, keys, counts, *, mechanism):
        noise = DiscreteLaplace(mechanism.noise.scale * self.factor)
        return self.true.reveal(keys, counts, mechanism=PartitionSelection(noise, mechanism.threshold))


def run(codes, *, method, factor, sizes, relation="add-remove", rows=1, epsilon="1", delta="1e-3"):
    person = f'id = "p"\nrows_per_unit = {rows}\n' if rows > 1 else ""
    text = TABLE.format(relation=relation, id=person)
    text += "".join(COLUMN.format(name=name, last=size - 1) for name, size in sizes.items())
    frame = pa.table({**codes, "p": [f"u{n}" for n in range(len(next(iter(codes.values()))))]})
    with patch.object(reservation, "Ledger", Workspace):
        return measure_api.measure(
            frame,
            schema=Schema.parse(text),
            epsilon=epsilon,
            delta=delta,
            method=method,
            ledger=Path("nowhere"),
            noise=Faulty(factor, seed=8),
        )


def none(sizes):
    return {name: pa.array([], pa.int64()) for name in sizes}


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
@pytest.mark.parametrize(("method", "groups"), [("histogram", 1), ("field-groups", 3)])
def test_bins_carry_the_booked_noise(method, groups, factor, fits):
    """On an empty table every bin is noise: its second moment, to 6 standard errors (false alarms below 1e-8)."""
    sizes = {"a": 20, "b": 50, "c": 2, "d": 500, "e": 100} if groups == 3 else {"a": 40, "b": 50}
    found = run(none(sizes), method=method, factor=factor, sizes=sizes, rows=3, relation="replace-one")
    (booked,) = found.record.spends
    assert booked.spend.mechanism == DiscreteLaplace(Fraction(6 * groups))
    assert (found.record.guarantee, booked.price) == ((1, 0), 1)
    noise = np.concatenate([item.counts.ravel() for item in found.items])
    assert within(noise, booked.spend.mechanism) is fits


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_counts_within_a_range_carry_the_booked_noise(factor, fits):
    """On an empty table bins are geometric: mean q/(1 − q), here 3.52, of 2,000 bins; 6 standard errors."""
    sizes = {"a": 40, "b": 50}
    found = run(
        none(sizes), method="histogram-exponential", factor=factor, sizes=sizes, relation="replace-one"
    )
    (booked,) = found.record.spends
    assert booked.spend.mechanism == ExponentialCount(Fraction(4), 100_000)
    assert (found.record.guarantee, booked.price) == ((1, 0), 1)
    (item,) = found.items
    q = math.exp(-1 / 4)
    error = math.sqrt(q) / (1 - q) / math.sqrt(item.counts.size)
    assert item.counts.min() >= 0
    assert bool(abs(item.counts.mean() - q / (1 - q)) < 6 * error) is fits


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
@pytest.mark.parametrize(("relation", "moves"), [("add-remove", 1), ("replace-one", 2)])
def test_rows_are_told_with_the_booked_noise(relation, moves, factor, fits):
    """1,500 different rows, 60 of each: the second moment of their noise, to 6 standard errors (below 1e-8)."""
    codes = {"a": np.repeat(np.arange(1500), 60), "b": np.repeat(np.arange(1500), 60) % 7}
    found = run(codes, method="stability", factor=factor, sizes={"a": 10**6, "b": 10**6}, relation=relation)
    mechanism = found.record.spends[-1].spend.mechanism
    assert mechanism.noise.scale == pytest.approx(moves / 0.98, rel=1e-9)
    assert found.record.guarantee == (1, Fraction(1, 1000))
    assert len(found.released_rows.counts) == 1500
    assert within(found.released_rows.counts - 60, mechanism.noise) is fits


@pytest.mark.parametrize(("factor", "fits"), FACTORS)
def test_rows_are_told_as_often_as_the_booked_law_says(factor, fits):
    """3,000 rows of two copies below the threshold T: P[Z > 2] = q³/(1 + q) each; 5 standard errors, fixed seed."""
    mechanism = (
        run(none("ab"), method="stability", factor=Fraction(1), sizes={"a": 10**6, "b": 9})
        .record.spends[-1]
        .spend.mechanism
    )
    each, below = 3000, mechanism.threshold - 2
    codes = {"a": np.repeat(np.arange(each), below), "b": np.zeros(each * below, np.int64)}
    found = run(codes, method="stability", factor=factor, sizes={"a": 10**6, "b": 9})
    q = math.exp(-1 / float(mechanism.noise.scale))
    chance = q**3 / (1 + q)
    times = len(found.released_rows.counts)
    assert bool(abs(times - each * chance) < 5 * math.sqrt(each * chance * (1 - chance))) is fits
