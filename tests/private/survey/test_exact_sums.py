"""Sums in steps: what each row adds, how far a unit moves them, and the noise that is charged for it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import inf, nan

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import PopulaceError, UsageError
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.fixed_point import STEPS
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialCount,
)
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.private.survey.exact_sums import add_up, row_contributions, split_contributions
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.survey.sums import CellWeights, Indicator, MomentSplit, Sum, SumFactor

pytestmark = pytest.mark.sampled(3)

COLUMNS = """
[columns.SEX]
kind = "categorical"
values = ["1", "2"]
missing = ["9"]
[columns.AGE]
kind = "integer"
min = 0
max = 99
[columns.INC]
kind = "numeric"
min = -100
max = 1000
width = 100
missing = ["-999"]
universe = "AGE >= 15"
outside = "N"
"""
SCHEMA = Schema.parse(COLUMNS)
INC = SumFactor(column="INC", low=Fraction(-100), high=Fraction(500), centre=Fraction(100))
AGE = SumFactor(column="AGE", low=Fraction(0), high=Fraction(99))


def frame(rows):
    sexes, ages, incomes = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "SEX": pa.array(sexes, pa.string()),
            "AGE": pa.array(ages, pa.string()),
            "INC": pa.array(incomes, pa.string()),
        }
    )


def read(rows, schema=SCHEMA):
    return PrivateTable.of(frame(rows), schema=schema).survey_rows()


def asked(barrier, sums, noise):
    return barrier.sum_batches([(sums, noise)])


def workspace(tmp_path, table, *, schema=SCHEMA, epsilon="1000", delta="0"):
    """A barrier over a table with a ledger of its own, and a way to see what was booked."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    run = ledger.reserve(
        "sums",
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        unit=schema.unit,
        method="estimate",
        schema_digest=schema.digest,
        rehearsal=True,
    )
    barrier = Barrier(table, run=run, noise=ExactNoise(RehearsalEntropy(5)))
    return barrier, lambda: ledger.record(ledger.account("sums").runs[0]).spends


# ----------------------------------------------------------------------------------------- what each row adds

ROWS = [
    ("1", "20", "0"),
    ("2", "99", "1000"),
    ("9", "15", "-100"),
    ("1", "14", "300"),  # outside the universe of INC
    ("2", "40", "-999"),
    ("1", "40", "nan"),
    ("2", "40", "1e308"),
    ("1", "40", "-inf"),
    ("2", "x", "250.25"),
    ("1", "250", "33.3"),
]


def by_hand(sum_, sex, age, inc):
    """The same in rational numbers, from the declared rules."""
    ages = None if age == "x" else min(int(age), 99)
    numbers = {"AGE": ages, "INC": None}
    if ages is not None and ages >= 15 and inc not in ("-999", "nan"):
        numbers["INC"] = Fraction(min(max(float(inc), -100), 1000))
    found = Fraction(1)
    for factor in sum_.factors:
        if isinstance(factor, Indicator):
            found *= (Fraction(ages is not None and ages >= 30) - factor.centre) / factor.most
            continue
        if numbers[factor.column] is None:
            return Fraction(0)
        found *= (min(max(numbers[factor.column], factor.low), factor.high) - factor.centre) / factor.most
    if any(numbers.get(name) is None for name in sum_.known if name != "SEX"):
        return Fraction(0)
    if "SEX" in sum_.known and sex == "9":
        return Fraction(0)
    return found * STEPS


SUMS = [
    Sum(),
    Sum(factors=(INC,)),
    Sum(factors=(INC, INC)),
    Sum(factors=(INC, AGE), known=("SEX",)),
    Sum(known=("INC", "SEX")),
    Sum(factors=(Indicator(that="AGE >= 30", centre=Fraction(1, 5)),), known=("AGE",)),
    Sum(factors=(Indicator(that="AGE >= 30", centre=Fraction(3)), INC)),
]


@pytest.mark.parametrize("sum_", SUMS, ids=str)
def test_each_row_adds_its_own_number(sum_):
    steps = row_contributions(read(ROWS), sum_, schema=SCHEMA)
    assert steps.dtype == np.int64
    for row, found in zip(ROWS, steps.tolist(), strict=True):
        assert abs(found - by_hand(sum_, *row)) <= Fraction(1, 2) + Fraction(1, 1000)
        assert row_contributions(read([row]), sum_, schema=SCHEMA).tolist() == [found], (
            "a row's number is its own"
        )


def test_conditions_and_weights_decide_row_by_row():
    rows = read([("1", "20", "0"), ("2", "30", "0"), ("9", "40", "0")])
    some = row_contributions(rows, Sum(where="AGE >= 30"), schema=SCHEMA)
    assert some.tolist() == [0, STEPS, STEPS]
    weights = CellWeights(by=Marginal(("SEX",)), values=(Fraction(3), Fraction(1), Fraction(0), Fraction(0)))
    assert row_contributions(rows, Sum(weights=weights), schema=SCHEMA).tolist() == [
        STEPS,
        round(STEPS / 3),
        0,
    ]
    assert Sum(weights=weights).most == 3


def test_cells_hold_exact_sums_in_any_order():
    grouping = Grouping("AGE", (0,) * 40 + (1,) * 61)
    sum_ = Sum(by=Marginal(("AGE", "SEX"), (grouping,)), factors=(INC,))
    rows = [*ROWS, *ROWS[:4]]
    found = add_up(read(rows), sum_, schema=SCHEMA)
    assert found.shape == (2, 4)
    steps = row_contributions(read(rows), sum_, schema=SCHEMA)
    sexes = [{"1": 0, "2": 1, "9": 2}[row[0]] for row in rows]
    ages = [int(row[1] == "x" or int(row[1]) >= 40) for row in rows]
    expected = np.zeros((2, 4), dtype=np.int64)
    for step, sex, age in zip(steps, sexes, ages, strict=True):
        expected[age, sex] += step
    assert (found == expected).all()
    assert (add_up(read(rows[::-1]), sum_, schema=SCHEMA) == expected).all()
    assert add_up(read([]), sum_, schema=SCHEMA).sum() == 0


def test_no_float_leaves_the_range():
    """Whatever numbers a row has, it adds between −STEPS and STEPS."""
    odd = np.array([inf, -inf, nan, 1e308, -1e308, 5e-324, 1000.0000001, 0.1])
    rows = SurveyRows(codes={"SEX": np.zeros(8, np.uint8)}, numbers={"INC": odd, "AGE": odd[::-1].copy()})
    for factors in [(INC,), (INC,) * 9, (INC, AGE)]:
        steps = row_contributions(rows, Sum(factors=factors), schema=SCHEMA)
        assert np.abs(steps).max() <= STEPS
        assert steps[2] == 0


# ----------------------------------------------------------------------------------------- how far a unit moves them

POSSIBLE = [("1", "20", "-100"), ("1", "20", "500"), ("2", "20", "500"), ("2", "20", "-999")]


CENTRED = SumFactor(column="INC", low=Fraction(-100), high=Fraction(500), centre=Fraction(200))
HALVED = Indicator(that="INC >= 500", centre=Fraction(1, 2))


def unit_moves(rows, neighbours, factor):
    """The greatest L1 and squared L2 over all tables of one more unit, and all that it may be replaced by."""
    sum_ = Sum(by=Marginal(("SEX",)), factors=(factor,))
    rest = [("2", "20", "100")]
    units = [unit for count in range(rows + 1) for unit in combinations_with_replacement(POSSIBLE, count)]
    tables = {unit: add_up(read([*rest, *unit]), sum_, schema=SCHEMA) for unit in units}
    pairs = product(units, units) if neighbours is Neighbours.REPLACE_ONE else ((unit, ()) for unit in units)
    moves = [np.abs(tables[one] - tables[other]) for one, other in pairs]
    return max(int(move.sum()) for move in moves), max(int((move**2).sum()) for move in moves)


@pytest.mark.parametrize("factor", [CENTRED, HALVED], ids=["number", "condition"])
@pytest.mark.parametrize(
    ("rows", "neighbours"),
    [
        (1, Neighbours.ADD_REMOVE),
        (1, Neighbours.REPLACE_ONE),
        (3, Neighbours.ADD_REMOVE),
        (3, Neighbours.REPLACE_ONE),
    ],
)
def test_a_unit_moves_a_sum_as_far_as_is_charged(tmp_path, rows, neighbours, factor):
    unit = PrivacyUnit(rows=rows, id="who" if rows > 1 else None, neighbours=neighbours)
    schema = Schema(columns=SCHEMA.columns, unit=unit)
    table = PrivateTable(unread, schema=schema, read_survey_rows=lambda: read([("1", "20", "0")]))
    barrier, spends = workspace(tmp_path, table, schema=schema)
    asked(barrier, [Sum(factors=(INC,))], DiscreteLaplace(Fraction(STEPS)))
    (booked,) = spends()
    l1, l2_squared = unit_moves(rows, neighbours, factor)
    # Reached: a row of one sign leaves the cell that one of the other sign enters.
    assert (l1, l2_squared) == (booked.spend.l1, booked.spend.l2_squared)
    assert booked.price == rows * (2 if neighbours is Neighbours.REPLACE_ONE else 1)


SPLITS = [
    (MomentSplit(of=CENTRED),),
    (MomentSplit(of=CENTRED, degree=2), MomentSplit(of=Indicator(that="SEX == '1'"))),
    (MomentSplit(of=AGE, degree=4), MomentSplit(of=CENTRED, degree=2)),
]
SIGNED = CellWeights(by=Marginal(("SEX",)), values=(Fraction(-2), Fraction(1), Fraction(0), Fraction(0)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("splits", SPLITS, ids=str)
@pytest.mark.parametrize("weights", [None, SIGNED], ids=["plain", "signed"])
def test_a_split_row_moves_its_cells_no_further_than_a_whole_one(splits, weights):
    """All neighbours of tiny tables: parts have one sign and add up to what the row adds, in every table."""
    split, whole = (
        Sum(by=Marginal(("SEX",)), splits=own, weights=weights, known=("INC", "AGE")) for own in (splits, ())
    )
    for row in [*ROWS, *POSSIBLE]:
        parts = np.array([each[0] for each in split_contributions(read([row]), split, schema=SCHEMA)])
        (added,) = row_contributions(read([row]), whole, schema=SCHEMA).tolist()
        assert parts.sum() == added
        assert np.abs(parts).sum() == abs(added) <= STEPS
    for table in combinations_with_replacement(POSSIBLE, 2):
        before = add_up(read(list(table)), split, schema=SCHEMA)
        for row in POSSIBLE:
            move = add_up(read([*table, row]), split, schema=SCHEMA) - before
            assert np.abs(move).sum() <= STEPS
            assert int((move.astype(object) ** 2).sum()) <= STEPS**2


def test_cells_of_a_split_hold_the_moments():
    rows = read([("1", "20", "-40"), ("2", "30", "350"), ("2", "50", "500")])
    split = MomentSplit(of=INC, degree=2)
    cells = add_up(rows, Sum(splits=(split,)), schema=SCHEMA) / STEPS
    places = np.array([0.1, 0.75, 1.0])
    for power in range(3):
        assert cells @ split.moment(power) == pytest.approx((places**power).sum(), abs=1e-6)


def test_rows_without_the_number_of_a_split_do_not_count():
    sum_ = Sum(splits=(MomentSplit(of=INC),))
    assert add_up(read([("2", "40", "-999"), ("1", "14", "300")]), sum_, schema=SCHEMA).tolist() == [0, 0]


def test_only_the_rows_that_a_unit_keeps_are_added_up():
    schema = Schema(columns=SCHEMA.columns, unit=PrivacyUnit(name="person", rows=2, id="who"))
    held = frame(ROWS[:2] * 3).append_column("who", pa.array(["a", "a", "a", "b", "", "b"]))
    rows = PrivateTable.of(held, schema=schema).survey_rows()
    assert row_contributions(rows, Sum(), schema=schema).tolist() == [STEPS] * 4
    assert rows.numbers["AGE"].tolist() == [20.0, 99.0, 99.0, 99.0]


# ----------------------------------------------------------------------------------------- noise and price

WIDE = Schema.parse("[columns.PLACE]\nkind = 'integer'\nmin = 0\nmax = 1199\nother = '0'\n" + COLUMNS)


def noise_fits(values, variance):
    """Whether 1,200 values have this variance: 14 standard errors for Gaussian noise, 6 for Laplace noise."""
    return 0.6 < values.var() / float(variance) < 1.6


@pytest.mark.parametrize(
    "mechanism", [DiscreteGaussian(Fraction(STEPS**2)), DiscreteLaplace(Fraction(STEPS, 3))], ids=str
)
def test_sums_carry_the_noise_that_was_charged(tmp_path, mechanism):
    whole = frame(ROWS).append_column("PLACE", pa.array(["7"] * len(ROWS)))
    delta = "1e-6" if isinstance(mechanism, DiscreteGaussian) else "0"
    barrier, spends = workspace(tmp_path, PrivateTable.of(whole, schema=WIDE), schema=WIDE, delta=delta)
    places = Marginal(("PLACE",))
    sums = [Sum(by=places), Sum(by=places, splits=(MomentSplit(of=INC),))]
    found = asked(barrier, sums, mechanism)
    for sum_, answer in zip(sums, found, strict=True):
        noise = (
            answer - add_up(PrivateTable.of(whole, schema=WIDE).survey_rows(), sum_, schema=WIDE)
        ).astype(float)
        assert noise_fits(noise, mechanism.variance)
        assert not noise_fits(noise / 2, mechanism.variance)
        assert not noise_fits(noise * 2, mechanism.variance)
    (booked,) = spends()
    currency = Currency.PURE if delta == "0" else Currency.GDP
    assert booked.price == price(booked.spend, currency=currency)
    expected = 2 * STEPS / mechanism.scale if currency is Currency.PURE else 2
    assert float(booked.price) == pytest.approx(float(expected), rel=1e-6)


BAD = [
    [],
    [Sum(by=Marginal(("NONE",)))],
    [Sum(factors=(SumFactor(column="SEX", low=Fraction(0), high=Fraction(1)),))],
    [Sum(factors=(SumFactor(column="INC", low=Fraction(0), high=Fraction(10**90)),))],
    [Sum(known=("NONE",))],
    [Sum(where="NONE == 1")],
    [Sum(where="AGE >=")],
    [Sum(factors=(Indicator(that="NONE == 1"),))],
    [Sum(splits=(MomentSplit(of=Indicator(that="NONE == 1")),))],
    [Sum(splits=(MomentSplit(of=SumFactor(column="SEX", low=Fraction(0), high=Fraction(1))),))],
    [Sum(factors=(Indicator(that="AGE >= 30", centre=Fraction(10**90)),))],
    [Sum(weights=CellWeights(by=Marginal(("SEX",)), values=(Fraction(1),)))],
    [Sum(), Sum(by=Marginal(("SEX",), (Grouping("SEX", (0, 1)),)))],
]


def unread():
    pytest.fail("rows were read")


@pytest.mark.parametrize("sums", BAD, ids=lambda sums: str(sums[-1]) if sums else "none")
def test_bad_sums_are_refused_unread_and_unpaid(tmp_path, sums):
    table = PrivateTable(unread, schema=SCHEMA, read_survey_rows=unread)
    barrier, spends = workspace(tmp_path, table)
    with pytest.raises(PopulaceError):
        barrier.sum_batches(
            [([Sum()], DiscreteLaplace(Fraction(STEPS))), (sums, DiscreteLaplace(Fraction(STEPS)))]
        )
    assert spends() == ()


@pytest.mark.parametrize(
    "mechanism",
    [
        ExponentialCount(Fraction(2), 100),
        Exponential(Fraction(1)),
        DiscreteLaplace(Fraction(2**41)),
        DiscreteGaussian(Fraction(2**90)),
    ],
    ids=str,
)
def test_noise_that_does_not_go_with_sums_is_refused(tmp_path, mechanism):
    barrier, spends = workspace(tmp_path, PrivateTable(unread, schema=SCHEMA, read_survey_rows=unread))
    with pytest.raises(UsageError):
        asked(barrier, [Sum()], mechanism)
    with pytest.raises(UsageError):
        barrier.sum_batches([])
    assert spends() == ()


@pytest.mark.parametrize("centre", [-50, -1, 0, 1, 2, 50])
def test_a_row_moves_a_sum_by_its_bound_wherever_it_is_centred(centre) -> None:
    rows = SurveyRows(
        codes={"a": np.zeros(5, np.uint8)}, numbers={"a": np.array([-1.0, 0.0, 2.0, 1e9, -1e9])}
    )
    factor = SumFactor(column="a", low=Fraction(-1), high=Fraction(2), centre=Fraction(centre))
    assert factor.most == max(abs(-1 - centre), abs(2 - centre))
    found = row_contributions(rows, Sum(factors=(factor,)), schema=Schema.from_sizes({"a": 2}))
    assert np.abs(found).max() == STEPS


def test_rows_of_a_survey_are_one_for_each_id_where_nothing_else_is_declared() -> None:
    schema = Schema.parse(
        '[table]\nunit = "person"\nid = "who"\n[columns.a]\nkind = "integer"\nmin = 0\nmax = 9\n'
    )
    rows = pa.table({"a": [1, 2, 3, 4], "who": ["x", "x", "y", None]})
    found = PrivateTable.of(rows, schema=schema).survey_rows()
    assert (schema.unit.rows, found.numbers["a"].tolist(), len(found.codes["a"])) == (1, [1.0, 3.0], 2)
