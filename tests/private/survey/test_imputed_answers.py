"""Answers about filled rows: tiny tables against the definition, with all their neighbours, and what is refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.sensitivity.nn_imputation import DonorValue, TieBreak
from populace.private.survey import imputed_answers as imputed
from populace.private.survey import row_labels
from populace.private.survey.imputed_answers import ImputedRows, check
from populace.private.survey.row_labels import label_rows
from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.schema import Schema
from populace.survey.smooth_questions import Donors, ImputedQuestion, ImputedStatistic
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(6)

SCHEMA = Schema(
    columns={
        "PLACE": IntegerColumn(name="PLACE", min=0, max=2),
        "SEX": CategoricalColumn(name="SEX", values=("f", "m")),
        "Y": DecimalColumn(
            name="Y",
            edges=tuple(map(Fraction, (-8, 0, 8))),
            missing=("R",),
            outside="N",
            universe="SEX == 'f'",
        ),
    }
)
OUTSIDE = SCHEMA.columns["Y"].outside_code
MISSING = SCHEMA.columns["Y"].code("R")
RANGES = {"positive": (0, 4), "negative": (-4, -1), "both": (-3, 2), "tiny": (-3 / 2**40, 2 / 2**40)}


@dataclass(frozen=True)
class Table:
    """Rows (place, sex, y): y is None where it is missing, and "N" outside the universe."""

    codes: dict[str, np.ndarray]
    numbers: dict[str, np.ndarray]

    @classmethod
    def of(cls, rows):
        told = [number if isinstance(number, int | float) else math.nan for *_, number in rows]
        code = [OUTSIDE if y == "N" else MISSING if y is None else 0 for *_, y in rows]
        return cls(
            codes={
                "PLACE": np.array([row[0] for row in rows], dtype=np.uint8),
                "SEX": np.array([row[1] for row in rows], dtype=np.uint8),
                "Y": np.array(code, dtype=np.uint8),
            },
            numbers={"Y": np.array(told, dtype=np.float64)},
        )


def donors(k, *, low=-3, high=2, take=DonorValue.MEAN, ties=TieBreak.NEXT):
    return Donors(
        column="Y",
        match=Marginal(("PLACE",)),
        low=Fraction(low),
        high=Fraction(high),
        default=Fraction(low),
        k=k,
        take=DonorValue.COPY if k == 1 and take is DonorValue.MEAN else take,
        ties=ties,
    )


def answer(rows, question):
    return ImputedRows(rows=rows, donors=question.donors, schema=SCHEMA).answer(question)


def questions(filled):
    """All statistics, of all rows and of some, whose members are known or not."""
    line = (filled.low, (filled.low + filled.high) / 2)
    for statistic, where, between in product(ImputedStatistic, (None, "SEX == 'f'"), (None, line)):
        yield ImputedQuestion(
            statistic=statistic,
            donors=filled,
            where=where,
            between=between,
            size=Fraction(3),
            centre=Fraction(1, 3),
        )


def asked(filled, rows):
    """The answers and bounds of all questions."""
    told = ImputedRows(rows=Table.of(rows), donors=filled, schema=SCHEMA)
    return [(value, bounds(bound)[1]) for value, bound in map(told.answer, questions(filled))]


def drawn(rng, most, kinds):
    # Few kinds of rows: several hold the same.
    few = rng.sample(kinds, 6)
    return [rng.choice(few) for _ in range(rng.randint(0, most))]


def kinds(low, high):
    return [*product(range(3), range(2), (low, high, None)), (1, 1, "N"), (0, 0, high + 2)]


CASES = list(product((1, 2, 3), TieBreak, (DonorValue.MEAN, DonorValue.MAJORITY), RANGES))


@pytest.mark.parametrize(("k", "ties", "take", "name"), sample_cases(CASES, to=2))
def test_bounds_hold_for_all_neighbours(k, ties, take, name):
    """No answer moves by more than the bound at either table, and no bound more than doubles."""
    rng = random.Random(f"{k}{ties}{take}{name}")
    low, high = RANGES[name]
    filled = donors(k, low=low, high=high, take=take, ties=ties)
    for _ in range(4):
        rows = drawn(rng, 7, kinds(low, high))
        here = asked(filled, rows)
        for other in neighbours(rows, kinds(low, high)):
            for (value, bound), (moved, there) in zip(here, asked(filled, other), strict=True):
                assert abs(value - moved) <= min(bound, there), (rows, other)
                assert bound <= 2 * there, (rows, other)
                assert there <= 2 * bound, (rows, other)


def neighbours(rows, kinds):
    for gone in {row: number for number, row in enumerate(rows)}.values():
        yield rows[:gone] + rows[gone + 1 :]
    for row in kinds:
        yield [*rows, row]


def test_a_bound_without_imputed_rows_is_passed(monkeypatch):
    """The same search finds the fault if a bound leaves out what one donor changes."""
    filled, rows = donors(1, low=-3, high=2), [(0, 0, -3)] + [(0, 1, None)] * 4
    monkeypatch.setattr(ImputedRows, "max_changed", 0)
    worst = max(
        abs(value - there[0]) / here
        for other in neighbours(rows, kinds(-3, 2))
        for (value, here), there in zip(asked(filled, rows), asked(filled, other), strict=True)
    )
    assert worst > 1


def test_the_order_of_rows_does_not_matter():
    rng = random.Random(3)
    for _ in range(15):
        rows = drawn(rng, 9, kinds(-3, 2))
        filled = donors(rng.choice((1, 2, 3)), ties=rng.choice(list(TieBreak)))
        assert asked(filled, rows) == asked(filled, rng.sample(rows, len(rows)))


def test_labels_stay_when_a_row_leaves():
    """The others keep their order, whichever of several that hold the same has left."""
    rows = [(0, 0, 1)] * 5 + [(0, 1, None)] * 5 + [(2, 1, -1), (1, 1, "N")]
    for gone in range(len(rows)):
        left = rows[:gone] + rows[gone + 1 :]
        whole, less = in_order(rows), in_order(left)
        removed = next(number for number in range(len(whole)) if whole[:number] + whole[number + 1 :] == less)
        assert whole[removed] == rows[gone]


def in_order(rows):
    return [rows[number] for number in np.argsort(label_rows(Table.of(rows)))]


def test_labels_stay_under_every_key():
    """Whatever h is, all that was compared above holds; another key gives another order."""
    rows = [(0, 0, 1)] * 4 + [(0, 1, None)] * 4 + [(2, 1, -1)]
    orders = {tuple(label_rows(Table.of(rows), key=key).tolist()) for key in ("", "a", "b")}
    assert len(orders) == 3
    for key in ("a", "b"):
        for gone in range(len(rows)):
            whole, less = (
                [own[number] for number in np.argsort(label_rows(Table.of(own), key=key))]
                for own in (rows, rows[:gone] + rows[gone + 1 :])
            )
            assert less in [whole[:number] + whole[number + 1 :] for number in range(len(whole))]


def test_runs_take_donors_of_their_own():
    """A file of few kinds of rows: no run's luck is that of another, and on average donors are as they should be."""
    rows = [(0, 0, 1)] * 30 + [(0, 0, 2)] * 30 + [(0, 0, None)] * 40
    question = next(
        q for q in questions(donors(1)) if q.statistic is ImputedStatistic.SUM and q.where is None
    )
    found = [
        float(
            ImputedRows(rows=Table.of(rows), donors=question.donors, schema=SCHEMA, key=str(key)).answer(
                question
            )[0]
        )
        for key in range(40)
    ]
    filled = np.array(found) * float(question.size) - 90
    assert len(set(found)) > 5
    assert abs(filled.mean() - 60) < 5


def test_equal_rows_are_spread_among_others():
    """A hash of contents alone would put them side by side, and one donor would serve them all."""
    order = in_order([(0, 0, 1)] * 300 + [(0, 0, None)] * 100)
    used = Counter()
    for number, row in enumerate(order):
        if row[2] is None:
            following = next(place for place in range(1, 401) if order[(number + place) % 400][2] == 1)
            used[(number + following) % 400] += 1
    assert max(used.values()) < 12


def test_rows_of_one_hash_are_kept_apart(monkeypatch):
    """Labels follow from rows even if all rows had one hash."""
    monkeypatch.setattr(
        row_labels, "_mix", lambda *columns, start: np.zeros(len(columns[0]), dtype=np.uint64)
    )
    test_labels_stay_when_a_row_leaves()
    test_the_order_of_rows_does_not_matter()


def test_an_answer_by_hand():
    """Three donors at two places; the incomplete row at place 1 takes its own, the one at 2 the nearest."""
    rows = [(0, 0, 1.5), (1, 1, -2.25), (1, 0, None), (2, 0, None), (2, 1, "N"), (0, 0, 99.0)]
    filled = donors(1, low=-3, high=2)
    told = dict(
        zip(((q.statistic, q.where, q.between) for q in questions(filled)), asked(filled, rows), strict=True)
    )
    line = (Fraction(-3), Fraction(-1, 2))
    assert told[ImputedStatistic.SUM, None, None][0] == (Fraction(3, 2) - Fraction(9, 4) * 3 + 2) / 3
    assert told[ImputedStatistic.FREQUENCY, None, None][0] == 5
    assert told[ImputedStatistic.FREQUENCY, "SEX == 'f'", line][0] == 2
    # Both incomplete rows leave their donor when it leaves.
    assert told[ImputedStatistic.FREQUENCY, None, None][1] == 3
    assert 0 <= told[ImputedStatistic.SUM, None, None][1] - Fraction(3 + 2 * 5, 3) < Fraction(1, 2**70)


@pytest.mark.parametrize("power", [-190, -40, -21, -1, 0, 7, 21, 60, 190])
def test_small_and_large_ranges_are_told_alike(power):
    """Numbers are put on a lattice of the range's own size: a sum is right to one part in a million of it."""
    size = 0.9 * 2.0**power
    filled = donors(1, low=0, high=size)
    question = ImputedQuestion(statistic=ImputedStatistic.SUM, donors=filled)
    check(question, SCHEMA)
    rows = [(0, 0, size * part) for part in (0.0, 0.111, 0.222, 0.75, 1.0, 7.0)] + [(0, 0, None)]
    value, _ = answer(Table.of(rows[:-1]), question)
    assert float(value) / size == pytest.approx(0.111 + 0.222 + 0.75 + 2, abs=5e-6)
    assert answer(Table.of(rows), question)[0] - value in [
        answer(Table.of([row]), question)[0] for row in rows[:-1]
    ]
    half = replace(
        question, statistic=ImputedStatistic.FREQUENCY, between=(Fraction(size / 2), Fraction(size))
    )
    assert answer(Table.of(rows[:-1]), half)[0] == 3


def test_the_lattice_of_ordinary_ranges():
    """Whole numbers and short binary fractions lie on it, and all numbers of it within the range."""
    units = {}
    for most in ("1e-6", "0.3", "1", "100", "1e6", "1e9"):
        grid = imputed._Grid.of(donors(1, low=0, high=Fraction(most)))
        assert 2**20 <= Fraction(most) / grid.unit <= 2**40
        assert 0 <= grid.high * grid.unit <= Fraction(most) < (grid.high + 1) * grid.unit
        units[most] = grid.unit
    assert [units[most] for most in ("1", "100", "1e6")] == [Fraction(1, 2**20)] * 3
    assert units["1e9"] == Fraction(1, 2**10)


def test_numbers_far_beyond_a_small_range_are_held_to_it():
    filled = donors(1, low=0, high=Fraction(1, 2**190))
    question = ImputedQuestion(statistic=ImputedStatistic.SUM, donors=filled)
    rows = [(0, 0, 1e308), (0, 0, -1e308)]
    assert answer(Table.of(rows), question)[0] == Fraction(1, 2**190)


def test_groups_and_categories():
    """Places may be grouped, and the values be codes of a category."""
    filled = replace(
        donors(1),
        column="SEX",
        match=Marginal(("PLACE",), (Grouping("PLACE", (0, 0, 1, 1)),)),
        low=Fraction(0),
        high=Fraction(1),
        default=Fraction(0),
        take=DonorValue.MAJORITY,
    )
    rows = [(0, 1, 1), (1, 2, 1), (2, 0, 1)]  # code 2: everything else
    question = ImputedQuestion(
        statistic=ImputedStatistic.FREQUENCY, donors=filled, between=(Fraction(1), Fraction(1))
    )
    check(question, SCHEMA)
    assert answer(Table.of(rows), question)[0] == 2


def test_empty_tables():
    assert [value for value, _ in asked(donors(2), [])] == [0] * 12


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"match": Marginal(("Y",))}, "never by the one that is filled"),
        ({"match": Marginal(())}, "at least one column"),
        ({"column": "Z"}, "whose values are public"),
        ({"low": Fraction(3)}, "lower end first"),
        ({"default": Fraction(7)}, "a default within"),
        ({"low": Fraction(0), "high": Fraction(1, 2**201), "default": Fraction(0)}, "smaller units"),
        ({"low": Fraction(0), "high": Fraction(0), "default": Fraction(0)}, "smaller units"),
        ({"k": 2, "take": DonorValue.COPY}, "take the mean or majority of up"),
    ],
)
def test_refused_donors(change, about):
    question = ImputedQuestion(statistic=ImputedStatistic.SUM, donors=replace(donors(1), **change))
    with pytest.raises(UsageError) as error:
        check(question, SCHEMA)
    assert about in error.value.hint


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"where": "Y >= 0"}, "as `between`"),
        ({"size": Fraction(0)}, "1 or more"),
        ({"statistic": ImputedStatistic.SQUARES, "size": Fraction(1)}, "2 or more"),
        ({"where": "AGE > 0"}, "single quotes"),
    ],
)
def test_refused_questions(change, about):
    question = replace(ImputedQuestion(statistic=ImputedStatistic.SUM, donors=donors(1)), **change)
    with pytest.raises((UsageError, SchemaError)) as error:
        check(question, SCHEMA)
    assert about in error.value.hint


def test_many_places_are_refused(monkeypatch):
    monkeypatch.setattr(imputed, "LIMITS", replace(imputed.LIMITS, max_matching_places=3))
    with pytest.raises(UsageError, match="4 places"):
        check(ImputedQuestion(statistic=ImputedStatistic.SUM, donors=donors(1)), SCHEMA)
