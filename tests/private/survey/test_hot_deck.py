"""Sums over filled rows: no neighbour moves them further than a sum over rows as they are, whatever is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.privacy.sensitivity.donor_limit import sensitivity_factor
from populace.private.survey import exact_sums as sums
from populace.private.survey import hot_deck
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.survey.sums import STEPS, CellWeights, HotDeck, Indicator, MomentSplit, Sum, SumFactor
from tests.helpers.planted_faults import seeded

SCHEMA = Schema.parse("""
[columns.PLACE]
kind = "integer"
min = 0
max = 1
[columns.X]
kind = "integer"
min = 0
max = 2
missing = ["-9"]
[columns.W]
kind = "numeric"
min = 0
max = 4
width = 1
""")
MISSING = SCHEMA.columns["X"].code("-9")
# The last weight is far above the public most: it is held to 4 before anything is multiplied with it.
KINDS = [(0, x, w) for x in (0, 2, None) for w in (4.0, 1e9)]
WEIGHT = SumFactor(column="W", low=Fraction(0), high=Fraction(4))
NUMBER = SumFactor(column="X", low=Fraction(0), high=Fraction(2))
SIGNED = CellWeights(by=Marginal(("X",)), values=tuple(map(Fraction, (-1, 1, 1, 0))))
ASKED = {
    "count": {"where": "X >= 1"},
    "weighted count": {"where": "X >= 1", "factors": (WEIGHT,)},
    "weighted total": {"factors": (WEIGHT, NUMBER)},
    "distance": {"factors": (SumFactor(column="X", low=Fraction(0), high=Fraction(2), centre=Fraction(1)),)},
    "distance from a share": {"factors": (Indicator(that="X >= 1", centre=Fraction(1, 2)),), "known": ("X",)},
    "groups": {"by": Marginal(("X",)), "factors": (WEIGHT,)},
    "mean": {"splits": (MomentSplit(of=NUMBER),), "factors": (WEIGHT,)},
    "share": {"splits": (MomentSplit(of=Indicator(that="X >= 1")),), "known": ("X",)},
    "below a quantile": {"weights": SIGNED, "known": ("X",)},
}


def read(table) -> SurveyRows:
    """Rows of (place, x, weight)."""
    return SurveyRows(
        codes={
            "PLACE": np.array([row[0] for row in table], dtype=np.uint8),
            "X": np.array([MISSING if row[1] is None else row[1] for row in table], dtype=np.uint8),
            "W": np.zeros(len(table), dtype=np.uint8),
        },
        numbers={
            "X": np.array([math.nan if row[1] is None else row[1] for row in table], dtype=np.float64),
            "W": np.array([row[2] for row in table], dtype=np.float64),
        },
    )


def greatest_move(asked: Sum, *, keys=("", "a", "b", "c")) -> float:
    """The greatest L1 distance between tables of six rows, with enough to fill, and all their neighbours."""
    most = 0
    for own, key in product(combinations_with_replacement(KINDS[::2], 3), keys):
        table = [*[(0, None, 4.0)] * 3, *own]
        before = sums.add_up(read(table), asked, schema=SCHEMA, key=key)
        for row in KINDS[1::2]:
            after = sums.add_up(read([*table, row]), asked, schema=SCHEMA, key=key)
            most = max(most, int(np.abs(after - before).sum()))
    return most / STEPS


def make_sum(name: str, max_uses: int) -> Sum:
    return Sum(filled=HotDeck(column="X", match=Marginal(("PLACE",)), max_uses=max_uses), **ASKED[name])


def check_reach(name: str, max_uses: int) -> None:
    """The price of one row is never exceeded, and what the proof allows does occur but for the row itself."""
    found = greatest_move(make_sum(name, max_uses))
    assert found <= 1
    assert found > 0.6


@pytest.mark.parametrize("max_uses", [1, 2])
@pytest.mark.parametrize("name", ASKED)
def test_no_neighbour_moves_a_sum_over_filled_rows_further_than_is_paid_for(name, max_uses):
    check_reach(name, max_uses)


@pytest.mark.parametrize(
    ("name", "held", "old", "new"),
    [
        # An imputed membership priced as a fixed one: as if filling changed the row itself alone.
        ("count", Sum.row_steps.fget, "if self.filled is None", "if True"),
        ("count", sensitivity_factor, "1 + moved * max_uses", "1 + moved"),
        ("groups", sensitivity_factor, "1 + moved * max_uses", "1 + max_uses"),
        # Groups that follow from filled values priced as if rows stayed in theirs.
        ("groups", Sum._moved.fget, "column not in self.by.clique", "True"),
        ("distance", Sum._moved.fget, "one_sign and", ""),
        ("distance from a share", Sum._moved.fget, "(-f.centre, 1 - f.centre)", "(0, 1)"),
        ("mean", Sum._moved.fget, "not self.splits and", ""),
    ],
)
def test_a_price_that_is_too_low_is_seen(name, held, old, new):
    with seeded(held, old, new), pytest.raises(AssertionError):
        check_reach(name, 2)


def check_truncation() -> None:
    """A weight is held to its most before it is multiplied: a row of half the number adds half, whatever it weighs."""
    rows = read([(0, 1, 4.0), (0, 1, 1e9)])
    most = make_sum("weighted total", 1).row_steps
    found = sums.row_contributions(rows, make_sum("weighted total", 1), schema=SCHEMA)
    assert found.tolist() == [most // 2] * 2


def test_weights_are_truncated_before_use():
    check_truncation()


def test_weights_truncated_after_use_are_seen():
    late = ("held = np.clip(numbers, float(factor.low), float(factor.high))", "held = numbers")
    with seeded(sums.row_contributions, *late), pytest.raises(AssertionError):
        check_truncation()


def test_filled_rows_hold_what_their_donors_do():
    table = [(0, 2, 1.0), (0, None, 2.0), (1, None, 3.0)]
    deck = HotDeck(column="X", match=Marginal(("PLACE",)), max_uses=1)
    filled = hot_deck.fill_rows(read(table), deck, schema=SCHEMA, key="")
    assert filled.codes["X"].tolist() == [2, 2, MISSING]
    assert filled.numbers["X"][:2].tolist() == [2.0, 2.0]
    assert math.isnan(filled.numbers["X"][2])
    assert filled.numbers["W"].tolist() == [1.0, 2.0, 3.0]


def test_questions_of_a_run_share_what_was_filled():
    rows = read([(0, 2, 1.0), (0, 1, 1.0), *[(0, None, 2.0)] * 4])
    for name, key in product(ASKED, ("one", "other")):
        sums.add_up(rows, make_sum(name, 2), schema=SCHEMA, key=key)
    assert len(rows.kept) == 2


@pytest.mark.parametrize(
    ("other", "place", "filled"),
    [({"max_uses": 4}, 0, [4, 1]), ({"match": Marginal(("W",))}, 1, [1, 0])],
    ids=["uses", "places"],
)
def test_what_was_filled_is_shared_by_questions_of_one_deck_alone(other, place, filled):
    """Rows filled four times from one donor, added up at the price of one use, would move too far."""
    rows = read([(0, 2, 1.0), *[(place, None, 2.0)] * 4])
    deck = HotDeck(column="X", match=Marginal(("PLACE",)), max_uses=1)
    held = [
        hot_deck.fill_rows(rows, each, schema=SCHEMA, key="").numbers["X"][1:]
        for each in (replace(deck, **other), deck)
    ]
    assert [int((~np.isnan(each)).sum()) for each in held] == filled


@pytest.mark.parametrize(
    "deck",
    [
        {"match": Marginal(())},
        {"match": Marginal(("X",))},
        {"max_uses": 0},
        {"max_uses": 101},
        {"column": "Z"},
    ],
)
def test_what_cannot_be_filled_is_refused(deck):
    asked = Sum(filled=HotDeck(**{"column": "X", "match": Marginal(("PLACE",)), "max_uses": 2, **deck}))
    with pytest.raises(UsageError):
        sums.check_sums([asked], schema=SCHEMA)


@pytest.mark.parametrize("part", ["X // 2", "X % 2"])
def test_cells_by_a_part_of_the_filled_column_are_refused(part):
    """A filled row moves from one such cell to another, and the price of a sum sees the name of the column alone."""
    schema = Schema.parse(SCHEMA.to_toml().replace("max = 2", "max = 3\nsplit = 2", 1))
    deck = HotDeck(column="X", match=Marginal(("PLACE",)), max_uses=1)
    sums.check_sums([Sum(by=Marginal(("PLACE",)), filled=deck), Sum(by=Marginal((part,)))], schema=schema)
    for by in (Marginal((part,)), Marginal(("PLACE", part))):
        with pytest.raises(UsageError, match="a part of it"):
            sums.check_sums([Sum(by=by, filled=deck)], schema=schema)
