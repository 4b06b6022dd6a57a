"""Weighted counts by bins: every tiny table against its definition, all its neighbours, and what must be refused."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.interval_arithmetic import bounds
from populace.privacy.sensitivity.poststratification import Binning, binning_score_sensitivity
from populace.private.survey.weighted_answers import answer, check, scores
from populace.schema.schema import Schema
from populace.survey.smooth_questions import BaseWeights, BinChoice, WeightedQuestion

SCHEMA = Schema.from_sizes({"AREA": 3, "AGE": 4, "POOR": 2})
# AGE 0–1 and 2–3, by AREA 0, 1, 2: six base bins, of which the last has nobody.
BY = Marginal(("AREA", "AGE"), (Grouping("AGE", (0, 0, 1, 1)),))
POPULATIONS = tuple(map(Fraction, (12, 20, 8, 5, 9, 0)))
JOINED = Binning(name="joined", bins=((3, 0), (1,), (5, 2, 4)))
WHOLE = Binning(name="whole", bins=(tuple(range(6)),))
ASKED = WeightedQuestion(
    by=BY, binning=JOINED, populations=POPULATIONS, where="POOR == 1 and AGE < 3", beta=Fraction(1, 4)
)
BASES = {"equal": BaseWeights(), "by column": BaseWeights(column="WEIGHT", unit=Fraction(1, 2), largest=6)}

# Rows that differ in every way that matters: area, age, poor, and a base weight (5 is above the largest, 3).
KINDS = [
    (0, 0, 1, 0.5),
    (0, 3, 0, 1.0),
    (1, 1, 1, 3.0),
    (1, 2, 1, 5.0),
    (2, 0, 0, math.nan),
    (2, 3, 1, 2.0),
    (0, 1, 1, 3.0),
]
TABLES = [table for size in range(4) for table in combinations_with_replacement(range(len(KINDS)), size)]


@dataclass(frozen=True)
class Read:
    codes: dict
    numbers: dict


def rows_of(table):
    kinds = np.array([KINDS[kind] for kind in table]).reshape(len(table), 4)
    codes = {name: kinds[:, place].astype(np.uint8) for place, name in enumerate(SCHEMA.domain)}
    return Read(codes, {"WEIGHT": kinds[:, 3]})


def base_weight(kind, base):
    """The weight of a kind of row; 0 where the design did not draw it."""
    told = KINDS[kind][3]
    if base.column is None:
        return 1
    return 0 if math.isnan(told) else min(6, round(2 * told))


def bin_of(kind):
    area, age, _, _ = KINDS[kind]
    cell = 2 * area + (age >= 2)
    return next(place for place, group in enumerate(JOINED.bins) if cell in group)


def by_hand(table, base):
    """The sum of weights of those who count, each the population times the own share of the bin's base weights."""
    found = Fraction(0)
    for kind in table:
        _, age, poor, _ = KINDS[kind]
        if poor and age < 3 and base_weight(kind, base):
            beside = sum(base_weight(other, base) for other in table if bin_of(other) == bin_of(kind))
            population = sum(POPULATIONS[cell] for cell in JOINED.bins[bin_of(kind)])
            found += population * base_weight(kind, base) / beside
    return found


def highest(table, base):
    """W₀ by its definition: who is there, and who could be added."""
    found = []
    for place, group in enumerate(JOINED.bins):
        there = [
            base_weight(kind, base) for kind in table if bin_of(kind) == place and base_weight(kind, base)
        ]
        population = sum(POPULATIONS[cell] for cell in group)
        largest = 1 if base.column is None else base.largest
        found += [population * weight / sum(there) for weight in there]
        found += [population * largest / Fraction(sum(there) + largest)]
    return max(found)


def neighbours(table):
    yield from (tuple(sorted((*table, kind))) for kind in range(len(KINDS)))
    yield from ({table[:place] + table[place + 1 :] for place in range(len(table))})


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_every_tiny_table_and_its_neighbours(base):
    question = replace(ASKED, base=base)
    found = {}

    def told(table):
        if table not in found:
            value, bound = answer(rows_of(table), question, SCHEMA)
            found[table] = value, float(bounds(bound)[1])
        return found[table]

    closest = 0.0
    for table in TABLES[::2]:
        value, bound = told(table)
        assert value == by_hand(table, base)
        assert bound >= float(highest(table, base)) - 1e-9
        for other in neighbours(table):
            near, there = told(other)
            assert abs(value - near) <= min(highest(table, base), highest(other, base))
            assert math.exp(-1 / 4) - 1e-12 <= there / bound <= math.exp(1 / 4) + 1e-12
            closest = max(closest, float(abs(value - near)) / bound)
    assert closest > 0.5, "a bound that is never nearly reached is not the one that was meant"


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_the_bound_looks_at_all_tables_near(base):
    question = replace(ASKED, base=base)
    for table in [table for table in TABLES if len(table) == 3][::7]:
        away = {}
        for other in (t for size in range(5) for t in combinations_with_replacement(range(len(KINDS)), size)):
            one, two = Counter(table), Counter(other)
            steps = sum(((one - two) + (two - one)).values())
            away[steps] = max(away.get(steps, Fraction(0)), highest(other, base))
        expected = max(math.exp(-steps / 4) * float(weight) for steps, weight in away.items() if steps <= 4)
        _, bound = answer(rows_of(table), question, SCHEMA)
        assert float(bounds(bound)[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_scores_and_how_far_they_move(base):
    choice = BinChoice(by=BY, binnings=(JOINED, WHOLE), populations=POPULATIONS, base=base)
    most = binning_score_sensitivity(choice.binnings, populations=POPULATIONS)
    moved = Fraction(0)
    for table in TABLES[::3]:
        here = scores(rows_of(table), choice, SCHEMA)
        assert here[0] == 3 / highest(table, base)
        for other in neighbours(table):
            there = scores(rows_of(other), choice, SCHEMA)
            moved = max(moved, *(abs(a - b) for a, b in zip(here, there, strict=True)))
    assert most / 10 < moved <= most


def test_a_whole_population_is_met_where_every_bin_has_someone():
    table = (0, 1, 5)
    everyone = replace(ASKED, where=None)
    assert answer(rows_of(table), everyone, SCHEMA)[0] == sum(POPULATIONS)
    assert answer(rows_of((0,)), everyone, SCHEMA)[0] == 17, "empty bins add nothing"
    assert answer(rows_of(()), everyone, SCHEMA)[0] == 0


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"populations": POPULATIONS[:-1]}, UsageError),
        ({"populations": (*map(Fraction, (12, 0, 8, 5, 9, 0)),)}, UsageError),
        ({"populations": (*map(Fraction, (12, 20, 8, 5, 9, -1)),)}, UsageError),
        ({"binning": Binning(name="few", bins=((0, 1), (2,)))}, UsageError),
        ({"base": BaseWeights(largest=0)}, UsageError),
        ({"base": BaseWeights(largest=2**40)}, UsageError),
        ({"base": BaseWeights(unit=Fraction(0))}, UsageError),
        ({"beta": Fraction(0)}, UsageError),
        ({"where": "WEALTH > 3"}, SchemaError),
    ],
)
def test_refusals_need_no_rows(changed, error):
    check(ASKED, SCHEMA)
    with pytest.raises(error):
        check(replace(ASKED, **changed), SCHEMA)


def test_a_choice_of_nothing_is_refused():
    with pytest.raises(UsageError, match="no set of bins"):
        check(BinChoice(by=BY, binnings=(), populations=POPULATIONS), SCHEMA)


def test_base_weights_do_not_depend_on_other_rows():
    base = BASES["by column"]
    question = replace(ASKED, base=base, binning=WHOLE, where="AREA == 1")
    for one, two in product(range(len(KINDS)), repeat=2):
        value, _ = answer(rows_of((one, two)), question, SCHEMA)
        weights = [base_weight(kind, base) for kind in (one, two)]
        counted = sum(weight for weight, kind in zip(weights, (one, two), strict=True) if KINDS[kind][0] == 1)
        assert value == (sum(POPULATIONS) * Fraction(counted, sum(weights)) if sum(weights) else 0)
