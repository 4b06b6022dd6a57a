"""Exact counts in a folder: each was booked under a relation whose neighbours agree on it, or the folder is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from populace.core.errors import LedgerError, PopulaceError, ReleaseError
from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurement, Measurements
from populace.privacy.ledger.exact_totals import ExactTotals, PublishedTotals
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.release.verify.checks import check_budget
from populace.release.verify.verify_measurements import check_measurements_paid
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.transcripts import Workspace
from tests.helpers.geographies import OTHER_GEOGRAPHY, make_schema, make_table, reserve

SCHEMA = make_schema()


@pytest.fixture
def measurements() -> Measurements:
    run = reserve(Workspace(), SCHEMA)
    barrier = Barrier(make_table(SCHEMA), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    exact = [barrier.publish_totals(level) for level in SCHEMA.invariants]
    noise = run.record().budget.measure_noise(Fraction(1), marginals=2)
    noisy = barrier.measure([Marginal((GEOCODE, "sex")), Marginal(("sex",))], noise=noise)
    run.finish(returned=run.record().compute_unneeded())
    return Measurements(schema=SCHEMA, items=(*exact, *noisy), record=run.record())


def test_sound_measurements_pass(measurements):
    check_measurements_paid(measurements)
    check_budget(measurements.record)
    assert measurements.record.by_distribution


def finer(made: Measurements) -> Measurements:
    tract = Measurement(Marginal((GEOCODE,)), [1, 2, 1], Fraction(0))
    return replace(made, items=(*made.items, tract))


def under(unit: PrivacyUnit, made: Measurements) -> Measurements:
    return replace(made, record=replace(made.record, unit=unit))


FORGED = {
    "exact counts that were not booked": finer,
    "noise left out": lambda made: replace(
        made, items=(*made.items[:-1], replace(made.items[-1], variance=Fraction(0)))
    ),
    "not booked": lambda made: replace(
        made, record=replace(made.record, invariants=made.record.invariants[:1])
    ),
    "booked and not there": lambda made: replace(made, items=made.items[1:]),
    "add/remove in the record": lambda made: under(PrivacyUnit(name="person"), made),
    "replace-one in the record": lambda made: under(
        PrivacyUnit(name="person", neighbours=Neighbours.REPLACE_ONE), made
    ),
    "another level": lambda made: under(replace(SCHEMA.unit, within="tract"), made),
    "no totals declared": lambda made: replace(made, record=replace(made.record, exact=None)),
    "another partition": lambda made: replace(
        made, record=replace(made.record, exact=ExactTotals(("all", "county"), "0" * 64))
    ),
    "a finer level declared and booked": lambda made: replace(
        finer(made),
        record=replace(
            made.record,
            exact=ExactTotals(("all", "tract"), made.record.exact.partition),
            unit=replace(SCHEMA.unit, within="tract"),
            invariants=(*made.record.invariants, PublishedTotals("tract", "tract")),
        ),
    ),
    "a cheaper price": lambda made: replace(
        made,
        record=replace(
            made.record,
            spends=tuple(
                replace(each, spend=replace(each.spend, l1=1, l2_squared=1), price=each.price / 2)
                for each in made.record.spends
            ),
        ),
    ),
    "more given back": lambda made: replace(
        made, record=replace(made.record, returned=(Fraction(1, 2), Fraction(0)))
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_measurements_are_refused(forge, measurements):
    forged = forge(measurements)

    def verify() -> None:
        check_measurements_paid(forged)
        check_budget(forged.record)

    with pytest.raises(PopulaceError):
        verify()


def test_units_of_another_geography_are_seen(measurements):
    other = make_schema(geography=OTHER_GEOGRAPHY, invariants=("tract",))
    with pytest.raises((ReleaseError, LedgerError)):
        check_measurements_paid(replace(measurements, schema=other))


def test_saved_counts_without_noise_need_a_booking(tmp_path):
    """A folder of a plain schema whose noise was set to 0 is no folder of measurements."""
    plain = Schema.from_sizes({GEOCODE: 3, "sex": 2})
    run = reserve(Workspace(), plain)
    barrier = Barrier(make_table(plain), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    noise = run.record().budget.measure_noise(Fraction(1), marginals=1)
    (found,) = barrier.measure([Marginal(())], noise=noise)
    run.finish()
    bare = replace(found, variance=Fraction(0))
    with pytest.raises(ReleaseError, match="not booked"):
        check_measurements_paid(Measurements(schema=plain, items=(bare,), record=run.record()))
    Measurements(schema=plain, items=(found,), record=run.record()).save(tmp_path / "sound")
    Measurements.load(tmp_path / "sound")
    Measurements(schema=plain, items=(bare,), record=run.record()).save(tmp_path / "bare")
    with pytest.raises(ReleaseError):
        Measurements.load(tmp_path / "bare")
