"""What is learnt about values inside bins: classes of round values, the law that is drawn, and where it travels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from populace.api.generate import release_from
from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import NotBooked, SchemaError, UsageError
from populace.measurements.measurements import Measurements
from populace.methods.fit_measurements import fit
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.verify.verify import verify
from populace.schema.codec.decoder import decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.within_bin_draws import draw_values
from populace.schema.columns.date_columns import DateColumn
from populace.schema.columns.heaping_classes import DayClasses, StepClasses, heaping_steps
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity
from populace.schema.schema import Schema

AGE = IntegerColumn(name="AGE", min=0, max=99, starts=(0, 20, 21, 60))


# ------------------------------------------------------------------------------------------ classes of values


@pytest.mark.parametrize(
    "ladder",
    [
        StepClasses((1,)),
        StepClasses((1, 5, 10, 50)),
        StepClasses((1, 20, 100)),
        StepClasses((1, 60, 300)),
        DayClasses(-400, 800),
    ],
)
def test_classes_share_out_every_stretch(ladder):
    """Against a list of all values: how many there are of each class, and which one stands at each place."""
    rng = np.random.default_rng(1)
    for first, stop in np.sort(rng.integers(-399, 799, (40, 2)), axis=1):
        every = np.arange(first, stop)
        kinds = ladder.classes(every)
        (held,) = ladder.sizes(np.array([first]), np.array([stop]))
        assert held.tolist() == np.bincount(kinds, minlength=ladder.size).tolist()
        for kind in np.flatnonzero(held):
            places = np.arange(held[kind])
            same = np.full(len(places), kind)
            assert (
                ladder.values(same, np.full(len(places), first), places).tolist()
                == every[kinds == kind].tolist()
            )


def test_days_have_classes_of_the_calendar():
    days = DayClasses(0, 400)
    told = {
        "1970-01-01": 4,
        "1971-01-01": 4,
        "1970-02-01": 3,
        "1970-05-15": 2,
        "1970-05-16": 1,
        "1970-05-18": 0,
    }
    numbers = np.array([(np.datetime64(text) - np.datetime64("1970-01-01")).astype(int) for text in told])
    assert days.classes(numbers).tolist() == list(told.values())


@given(st.sampled_from([1, 2, 5, 10, 20, 500]), st.integers(1, 10**12))
def test_every_step_divides_the_next(finest, furthest):
    steps = heaping_steps(finest=finest, furthest=furthest)
    assert steps[0] == 1
    assert all(b % a == 0 and b > a for a, b in pairwise(steps))


# ------------------------------------------------------------------------------------------ the law


def law(**changes) -> BinDensity:
    told = {
        "starts": (0, 10, 20, 21, 60, 80),
        "weights": (30, 10, 5, 20, 0, 8),
        "steps": (1, 5, 10),
        "class_weights": ((20, 0, 20), (0, 0, 5), (10, 10, 0), (0, 0, 8)),
    }
    return BinDensity(**(told | changes))


def test_values_follow_stretches_and_classes():
    """Counts are as near to the law as whole rows can be, and a bin's values are its own."""
    column = replace(AGE, density=law())
    levels = np.repeat([0, 1, 2, 3], [4000, 100, 3000, 500])
    drawn = draw_values(column, levels, rng=np.random.default_rng(1))
    assert encode_values(column, pa.array(drawn)).tolist() == levels.tolist()
    first = drawn[levels == 0]
    assert abs((first < 10).sum() - 3000) <= 1
    # 0 and 10 are the only tens of the first bin: each holds what its stretch and its class allow.
    assert abs((first % 10 == 0).sum() - 2000) <= 30
    assert not ((first % 5 == 0) & (first % 10 != 0)).any()
    assert set(drawn[levels == 1].tolist()) == {20}
    third = drawn[levels == 2]
    assert abs((third % 10 == 5).sum() - 1500) <= 30
    assert not (third % 10 == 0).any()
    assert set(drawn[levels == 3].tolist()) == {80, 90}


def test_rows_of_a_bin_are_spread_evenly_and_at_random():
    """Sorted, every row comes from its own part of the law; unsorted, neighbours have nothing in common."""
    column = replace(AGE, density=law(class_weights=((1, 0, 0),) * 4, steps=(1, 5, 10)))
    levels = np.full(2000, 2)
    one, other = (draw_values(column, levels, rng=np.random.default_rng(seed)) for seed in (1, 2))
    assert abs(int((one < 40).sum()) - int((other < 40).sum())) <= 1
    assert one.tolist() != other.tolist()
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.1


@given(
    st.lists(st.integers(0, 5), min_size=4, max_size=4), st.lists(st.integers(0, 5), min_size=12, max_size=12)
)
def test_any_weights_give_values_of_the_bins(weights, rounds):
    column = replace(
        AGE,
        density=BinDensity(
            starts=(0, 20, 21, 60),
            weights=tuple(weights),
            steps=(1, 5, 10),
            class_weights=tuple(tuple(rounds[3 * k : 3 * k + 3]) for k in range(4)),
        ),
    )
    levels = np.tile(np.arange(4), 25)
    drawn = draw_values(column, levels, rng=np.random.default_rng(0))
    assert encode_values(column, pa.array(drawn)).tolist() == levels.tolist()


def test_decimals_and_ends_stay_what_they_are():
    column = DecimalColumn(
        name="x",
        edges=(Fraction(0), Fraction(1), Fraction(3)),
        bottom=Fraction(0),
        top=Fraction(3),
        decimals=1,
    )
    unit = Fraction(1, 10)
    assert column.starts_in_units(unit).tolist() == [0, 1, 10, 30, 31]
    column = replace(
        column,
        density=BinDensity(
            starts=(0, 1, 10, 20, 30),
            weights=(1, 1, 0, 1, 1),
            steps=(1, 5),
            class_weights=((1, 1),) * 4,
            unit=unit,
        ),
    )
    levels = np.repeat(np.arange(4), 50)
    values = decode_codes(column, levels, rng=np.random.default_rng(1)).to_pylist()
    assert encode_values(column, pa.array(values)).tolist() == levels.tolist()
    assert set(values[:50]) == {0.0}
    assert set(values[150:]) == {3.0}
    assert min(values[100:150]) >= 2.0
    assert all(round(10 * value) / 10 == value for value in values)


FAULTS = {
    "a bin without start": {"starts": (0, 10, 21, 60, 80, 90)},
    "starts that fall": {"starts": (0, 20, 10, 21, 60, 80)},
    "beyond the range": {"starts": (0, 10, 20, 21, 60, 100)},
    "too few weights": {"weights": (1, 2)},
    "weights below 0": {"weights": (30, 10, 5, 20, 0, -8)},
    "steps that do not divide": {"steps": (1, 5, 12)},
    "a bin without classes": {"class_weights": ((1, 1, 1),) * 3},
    "a class too many": {"class_weights": ((1, 1, 1, 1),) * 4},
}


@pytest.mark.parametrize("changes", FAULTS.values(), ids=FAULTS)
def test_a_law_that_does_not_fit_is_refused(changes):
    with pytest.raises(SchemaError, match="does not fit"):
        replace(AGE, density=law(**changes))


# ------------------------------------------------------------------------------------------ schemas

TEXT = """
[columns.pay]
kind = "integer"
edges = [0, 1, 1000, 2500, 6000]
inside = "learn"

[columns.height]
kind = "numeric"
min = 0
max = 2.5
width = 0.5
decimals = 2
inside = "learn"

[columns.born]
kind = "date"
min = "1950-01-01"
max = "2009-12-31"
width = "10 years"
inside = "learn"

[columns.seen]
kind = "datetime"
min = "2020-01-01"
max = "2020-12-31"
width = "month"
inside = "learn"

[columns.at]
kind = "time"
min = "00:00:00"
max = "23:59:59"
width = "6 hours"
format = "%H:%M"
inside = "learn"
"""

SEEN = TEXT[TEXT.index("[columns.seen]") : TEXT.index("[columns.at]")]
# Seconds of a year have a long grid.
SHORT = TEXT.replace(SEEN, "")


def rows(count: int = 8000) -> pa.Table:
    rng = np.random.default_rng(3)
    pay = np.where(rng.random(count) < 0.7, rng.integers(0, 60, count) * 100, rng.integers(0, 6001, count))
    pay[rng.random(count) < 0.2] = 0
    years = rng.integers(0, 60, count)
    first = (np.datetime64("1950") + years).astype("datetime64[D]")
    born = np.where(rng.random(count) < 0.4, first, first + rng.integers(0, 365, count))
    seconds = rng.integers(0, 24, count) * 3600 + (rng.random(count) < 0.3) * rng.integers(0, 3600, count)
    seen = np.datetime64("2020-01-01T00:00:00") + rng.integers(0, 300, count) * 86400 + seconds
    return pa.table(
        {
            "pay": pay,
            "height": np.rint(np.clip(rng.normal(1.7, 0.1, count), 0, 2.5) * 20) / 20,
            "born": pa.array(born.astype("datetime64[D]")),
            "seen": pa.array(seen.astype("datetime64[s]")),
            "at": [f"{s // 3600:02}:{s % 3600 // 60:02}" for s in seconds.tolist()],
        }
    )


@pytest.fixture(
    scope="module", params=[SHORT, pytest.param(TEXT, marks=pytest.mark.slow)], ids=["short", "long"]
)
def found(request) -> Measurements:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        return measure(
            rows(),
            schema=Schema.parse(request.param),
            epsilon=20,
            delta="1e-6",
            method="independent",
            ledger=Path(place) / "l.db",
            dataset="d",
            noise=ExactNoise(RehearsalEntropy(1)),
        )


def test_what_lies_inside_declared_bins_is_learnt_and_travels(found, tmp_path):
    draft = Schema.parse(TEXT if "seen" in found.schema.columns else SHORT)
    assert draft.columns_to_learn == tuple(draft.columns)
    assert draft.unknown == found.schema.columns_to_learn == ()
    assert found.schema.declared == draft
    assert found.schema.columns["pay"].starts == draft.columns["pay"].starts
    assert Schema.parse(found.schema.to_toml(), released=True) == found.schema
    found.save(tmp_path)
    again = Measurements.load(tmp_path)
    assert again.schema == found.schema
    told = [release_from(each, fit(each), seed=3).table for each in (found, again)]
    assert told[0].equals(told[1])


def test_heaps_in_numbers_dates_and_times_are_kept(found):
    real = rows()
    made = release_from(found, fit(found), rows=8000, seed=1).table

    def share(table, name, holds) -> float:
        return float(np.mean([holds(value) for value in table[name].to_pylist() if value is not None]))

    shares = {
        "pay": lambda v: v % 100 == 0,
        "height": lambda v: round(v * 100) % 5 == 0,
        "born": lambda v: (v.month, v.day) == (1, 1),
        "seen": lambda v: (v.minute, v.second) == (0, 0),
        "at": lambda v: str(v).endswith(":00"),
    }
    for name in found.schema.columns:
        holds = shares[name]
        before, after = share(real, name, holds), share(made, name, holds)
        assert before > 0.3
        assert abs(before - after) < 0.03, name
    assert abs(share(real, "pay", lambda v: v == 0) - share(made, "pay", lambda v: v == 0)) < 0.02


def test_a_release_with_laws_inside_bins_verifies_and_tells_them(found, tmp_path):
    with pytest.warns(NotBooked):
        release_from(found, fit(found), seed=1).save(tmp_path / "out")
    failed = [check.name for check in verify(tmp_path / "out").checks if not check.passed]
    assert failed == ["real noise"], "a rehearsal, and nothing else is wrong"
    assert "learn bins of 'pay'" in (tmp_path / "out" / "statement.md").read_text(encoding="utf-8")
    assert '"inside"' in (tmp_path / "out" / "codebook.json").read_text(encoding="utf-8")


def test_a_law_is_neither_declared_nor_used_twice(found, tmp_path):
    with pytest.raises(SchemaError, match="inside can only be 'learn'"):
        Schema.parse(found.schema.to_toml())
    with pytest.raises(UsageError, match="learnt by another run"):
        measure(rows(10), schema=found.schema, epsilon=1, delta="1e-6", ledger=tmp_path / "l.db")
    assert not (tmp_path / "l.db").exists()


REFUSED = {
    "no bins": ('kind = "integer"\nmin = 0\nmax = 9', "no bins whose values are drawn"),
    "split": ('kind = "integer"\nmin = 0\nmax = 99\nsplit = 10', "no bins whose values are drawn"),
    "values": ('kind = "categorical"\nvalues = ["a"]', "unknown key 'inside'"),
    "months": (
        'kind = "date"\nmin = "2000-01-01"\nmax = "2009-12-31"\nwidth = "year"\nformat = "%Y-%m"',
        "does not include the day",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_columns_without_anything_inside_are_refused(text, message):
    with pytest.raises(SchemaError, match=message):
        Schema.parse(f'[columns.x]\n{text}\ninside = "learn"')


def test_neither_a_word_nor_a_law_of_ones_own_is_taken():
    for given_law in ('"even"', "{ starts = [0] }", "3"):
        with pytest.raises(SchemaError, match="inside can only be 'learn'"):
            Schema.parse(f'[columns.x]\nkind = "integer"\nedges = [0, 5, 9]\ninside = {given_law}')


@pytest.mark.parametrize("text", [SHORT, pytest.param(TEXT, marks=pytest.mark.slow)], ids=["short", "long"])
def test_empty_tables_and_single_days_can_be_learnt_about(text, tmp_path):
    release = synthesize(
        rows(8000).slice(0, 0),
        schema=Schema.parse(text),
        epsilon=1,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "l.db",
        dataset="d",
        rows=50,
    )
    assert release.table.num_rows == 50
    one = DateColumn(name="x", min=5, max=6, starts=(5,), density=BinDensity())
    assert one.needs_learning


MOMENTS = """
[columns.born]
kind = "date"
min = "1900-01-01"
max = "2025-12-31"
bins = "learn"
missing = ["9999-01-01"]

[columns.seen]
kind = "datetime"
min = "2019-01-01"
max = "2021-12-31"
bins = "learn"

[columns.at]
kind = "time"
min = "00:00:00"
max = "23:59:59"
bins = "learn"
format = "%H:%M"
"""


@pytest.mark.parametrize(
    "names",
    [("born", "at"), pytest.param(("born", "seen", "at"), marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_bins_of_dates_and_times_are_learnt(names, tmp_path):
    """Where the rows are, with first days of years and full hours kept; they begin with years or months."""
    whole, real = Schema.parse(MOMENTS), rows()
    draft = replace(whole, columns={name: whole.columns[name] for name in names})
    assert draft.unknown == names
    assert Schema.parse(draft.to_toml()) == draft
    release = synthesize(
        real.select(names),
        schema=draft,
        epsilon=20,
        delta="1e-6",
        method="independent",
        ledger=tmp_path / "l.db",
        dataset="d",
        seed=1,
    )
    known = release.measurements.schema
    assert known.declared == draft
    assert Schema.parse(known.to_toml(), released=True) == known
    born = known.columns["born"]
    assert isinstance(born, DateColumn)
    assert 8 <= born.levels <= 32
    inner = [born.iso_text(start) for start in born.starts[1:]]
    assert sum(text.endswith("-01") for text in inner) > len(inner) / 2
    made = release.table
    heaps = {
        "born": lambda v: (v.month, v.day) == (1, 1),
        "seen": lambda v: (v.minute, v.second) == (0, 0),
        "at": lambda v: str(v).endswith(":00"),
    }
    for name in names:
        holds = heaps[name]
        before, after = (
            np.mean([holds(v) for v in table[name].to_pylist() if v is not None]) for table in (real, made)
        )
        assert abs(before - after) < 0.05, name
    release.save(tmp_path / "out")
    assert [check.name for check in verify(tmp_path / "out").checks if not check.passed] == []


def test_bins_of_months_cannot_be_learnt():
    text = (
        '[columns.x]\nkind = "date"\nmin = "2000-01-01"\nmax = "2009-12-31"\nbins = "learn"\nformat = "%Y-%m"'
    )
    with pytest.raises(SchemaError, match="does not include the day"):
        Schema.parse(text)
