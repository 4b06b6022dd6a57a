"""Exact totals leave the barrier only where all neighbours agree on them, and are booked before a row is read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np
import pytest

from populace.core.errors import InternalError, LedgerError, UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.ledger.exact_totals import PublishedTotals
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.schema.geocodes import GEOCODE
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.transcripts import Workspace
from tests.helpers.geographies import GEOGRAPHY, ROWS, make_schema, make_table, reserve

EXACT = make_schema()
COUNTIES = [0, 0, 1]
RECORDS = list(product(range(3), range(2)))


class Silent(ExactNoise):
    """Refuses to draw."""

    __slots__ = ()

    def add(self, exact, *, mechanism):
        raise AssertionError("noise was drawn")


def door(schema, *, rows=ROWS, ledger=None, noise=None, **more) -> tuple[Barrier, object]:
    run = reserve(ledger or Workspace(), schema, **more)
    return Barrier(make_table(schema, rows), run=run, noise=noise or ExactNoise(RehearsalEntropy(1))), run


def test_totals_are_exact_booked_and_free():
    barrier, run = door(EXACT, noise=Silent(RehearsalEntropy(1)))
    whole, counties = barrier.publish_totals("all"), barrier.publish_totals("county")
    assert (whole.marginal, whole.counts.tolist(), whole.variance) == (Marginal(()), 4, 0)
    assert counties.marginal == Marginal((GEOCODE,), (GEOGRAPHY.grouping(1),))
    assert (counties.counts.tolist(), counties.variance) == ([3, 1], 0)
    record = run.record()
    assert record.invariants == (
        PublishedTotals("all", "total of the whole table"),
        PublishedTotals("county", "total of every county"),
    )
    assert (record.used, record.spends) == (0, ())
    assert record.left.cap == record.cap
    record.check()


def test_the_smallest_units_can_be_exact():
    schema = make_schema(invariants=("tract",))
    barrier, _ = door(schema)
    assert barrier.publish_totals("tract").counts.tolist() == [1, 2, 1]


def test_every_time_is_booked():
    barrier, run = door(EXACT)
    for times in (1, 2, 3):
        barrier.publish_totals("county")
        assert len(run.record().invariants) == times


class Reads(MemoryEngine):
    """Keeps what a newly opened ledger has on disk when rows are counted; dies if it is told to."""

    seen: ClassVar[list[int]] = []
    path = None
    crash = False

    def counts(self, marginals):
        ledger = Ledger.existing(Reads.path)
        Reads.seen.append(sum(len(run.invariants) for run in ledger.runs("counted")))
        if Reads.crash:
            raise ValueError("the machine dies in county B")
        return super().counts(marginals)


@pytest.mark.parametrize("crash", [False, True])
def test_totals_are_on_disk_before_rows_are_read(crash, tmp_path):
    Reads.seen, Reads.path, Reads.crash = [], tmp_path / "ledger.db", crash
    run = reserve(Reads.path, EXACT)
    barrier = Barrier(make_table(EXACT, engine=Reads), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    if crash:
        with pytest.raises(InternalError) as failure:
            barrier.publish_totals("county")
        assert "county" not in str(failure.value)
    else:
        barrier.publish_totals("county")
    assert Reads.seen == [1]
    again = Ledger.existing(Reads.path)
    assert [each.level for each in again.record(run.id).invariants] == ["county"]
    assert again.account("counted").left_epsilon == 0, "the whole reservation stays taken"


@pytest.mark.parametrize(
    ("schema", "level"),
    [
        (make_schema(invariants=()), "all"),
        (make_schema(invariants=()), "county"),
        (EXACT, "tract"),
        (EXACT, "nation"),
        (make_schema(invariants=("county",)), "all"),
        (
            make_schema(
                invariants=("all",), unit=PrivacyUnit(name="person", neighbours=Neighbours.REPLACE_ONE)
            ),
            "all",
        ),
    ],
    ids=["none", "none by county", "finer", "unknown", "not declared", "replace-one"],
)
def test_other_totals_are_refused_before_anything_is_booked_or_read(schema, level):
    class Untouched(MemoryEngine):
        def counts(self, marginals):
            raise AssertionError("rows were read")

    declared = {"exact": None} if schema.unit.within is None else {}
    run = reserve(Workspace(), schema, **declared)
    barrier = Barrier(make_table(schema, engine=Untouched), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    with pytest.raises(UsageError, match="cannot be published"):
        barrier.publish_totals(level)
    assert run.record().invariants == ()


def test_a_barrier_with_another_schema_than_the_run_is_stopped_by_the_ledger():
    """The books hold the totals that were declared before the run, whatever the barrier's schema says."""
    run = reserve(Workspace(), EXACT)
    finer = make_schema(invariants=("all", "county", "tract"))
    barrier = Barrier(make_table(finer), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    with pytest.raises(LedgerError, match="declared all, county"):
        barrier.publish_totals("tract")


# ------------------------------------------------------------------------------ all neighbours of all tiny tables


def county_of(record) -> int:
    return COUNTIES[record[0]]


def tables(most=2):
    for count in range(most + 1):
        yield from product(RECORDS, repeat=count)


def neighbours(rows, *, within):
    """Every table in which one record was replaced; `within`: by one of the same county."""
    for place, other in product(range(len(rows)), RECORDS):
        if not within or county_of(other) == county_of(rows[place]):
            yield (*rows[:place], other, *rows[place + 1 :])


MARGINALS = (
    Marginal(("sex",)),
    Marginal((GEOCODE,)),
    Marginal((GEOCODE, "sex")),
    Marginal((GEOCODE, "sex"), (GEOGRAPHY.grouping(1),)),
    Marginal((GEOCODE,), (GEOGRAPHY.grouping(1),)),
    Marginal(()),
)


def counted(rows):
    return make_table(EXACT, rows).engine().counts(MARGINALS)


def furthest(*, within) -> tuple[int, int, bool]:
    """How far marginals move in L1 and in squared L2, and whether exact totals ever do."""
    l1 = l2_squared = 0
    apart = False
    for rows in tables():
        here = counted(rows)
        for other in neighbours(rows, within=within):
            there = counted(other)
            for one, two in zip(here, there, strict=True):
                moved = np.abs(one - two)
                l1, l2_squared = max(l1, int(moved.sum())), max(l2_squared, int((moved**2).sum()))
            apart |= any((one != two).any() for one, two in zip(here[-2:], there[-2:], strict=True))
    return l1, l2_squared, apart


def test_neighbours_agree_on_exact_totals_and_marginals_move_exactly_as_far_as_declared():
    """√2 and 2 are reached by neighbours within a county: with less, two of them would be underpriced."""
    unit = EXACT.unit
    assert furthest(within=True) == (unit.marginal_l1, unit.marginal_l2_squared, False) == (2, 2, False)


def test_neighbours_of_replace_one_are_told_apart_by_exact_totals():
    """The check can fail: without the relation an exact total tells two neighbours apart, without any noise."""
    assert furthest(within=False) == (2, 2, True)


def test_measurements_are_priced_for_a_replacement():
    barrier, run = door(EXACT, epsilon="10")
    barrier.measure(MARGINALS[:3], noise=DiscreteGaussian(Fraction(100)))
    (spend,) = (charged.spend for charged in run.record().spends)
    assert (spend.answers, spend.l1, spend.l2_squared) == (3, 2, 2)
    cheap = replace(spend, l1=1, l2_squared=1)
    with pytest.raises(LedgerError, match="less than one person can move"):
        run.charge(cheap)
