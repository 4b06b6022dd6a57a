"""Imputation from nearest rows: donors and L₁ against sorting all rows, on tiny tables with all their neighbours."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.privacy.sensitivity.nn_imputation import (
    DonorValue,
    MatchedRows,
    MatchingSpace,
    Membership,
    NearestNeighbours,
    TieBreak,
    frequency_bound,
    mean_bound,
    variance_bound,
)
from tests.helpers.sampled_cases import sample_cases

LINE = MatchingSpace(sizes=(3,), ordered=(True,))
MIXED = MatchingSpace(sizes=(3, 2), ordered=(True, False))
RULES = list(product((1, 2, 3), TieBreak))
VALUES = (-1, 0, 4)


def scheme(space, k, ties):
    return NearestNeighbours(space=space, k=k, ties=ties)


def changed(rule, here, *, there):
    """The incomplete rows, by place and label, of one side only or whose donors differ; sides are pairs of rows."""
    before, after = (donor_sets(rule, *side) for side in (here, there))
    return {row for row in before.keys() | after.keys() if before.get(row) != after.get(row)}


def donor_sets(rule, complete, incomplete):
    parts = complete.places, complete.labels, complete.values
    names = list(zip(*(each.tolist() for each in parts), strict=True))
    found = rule.donors(complete, incomplete=incomplete).tolist()
    rows = zip(incomplete.places.tolist(), incomplete.labels.tolist(), strict=True)
    return {
        row: frozenset(names[one] for one in donors if one >= 0)
        for row, donors in zip(rows, found, strict=True)
    }


def rows(records):
    columns = np.array([(*record, 0)[:3] for record in records], dtype=np.int64).reshape(-1, 3).T
    return MatchedRows(places=columns[0], labels=columns[1], values=columns[2])


# ----------------------------------------------------------------------------------------- by sorting all rows


def apart(space, one, other):
    points = [np.unravel_index(place, space.sizes) for place in (one, other)]
    return sum(
        (int(a) - int(b)) ** 2 if ordered else 2 * (a != b)
        for ordered, a, b in zip(space.ordered, *points, strict=True)
    )


def donor_set(rule, complete, row):
    """The first k complete rows (place, label, value) in a row's order."""

    def key(donor):
        place, label, value = donor
        turn = label <= row[1] if rule.ties is TieBreak.NEXT else False
        return apart(rule.space, place, row[0]), place, (turn, label), value

    return frozenset(sorted(complete, key=key)[: rule.k])


def changes(rule, here, there):
    """|c|, from the definition."""
    sides = [
        {row: donor_set(rule, complete, row) for row in incomplete} for complete, incomplete in (here, there)
    ]
    return sum(sides[0].get(row) != sides[1].get(row) for row in sides[0].keys() | sides[1].keys())


def labels_near(table):
    """A label below, above and between those that occur, and these themselves: data have even ones."""
    told = [record[1] for side in table for record in side] or [0]
    return range(min(told) - 1, max(told) + 2)


def neighbours(rule, table, values=(0,)):
    """All tables with one row less or more."""
    complete, incomplete = table
    for gone in range(len(complete)):
        yield complete[:gone] + complete[gone + 1 :], incomplete
    for gone in range(len(incomplete)):
        yield complete, incomplete[:gone] + incomplete[gone + 1 :]
    for place, label in product(range(rule.space.places), labels_near(table)):
        for value in values:
            if (place, label, value) not in complete:
                yield (*complete, (place, label, value)), incomplete
        if (place, label) not in incomplete:
            yield complete, (*incomplete, (place, label))


def brute_most_changed(rule, table):
    return max(changes(rule, table, other) for other in neighbours(rule, table))


def max_changed(rule, table):
    return rule.max_changed(rows(table[0]), incomplete=rows(table[1]))


def drawn_table(seed, space, *, most=4, values=(0,), labels=5):
    rng = random.Random(seed)
    slots = [(place, 2 * label) for place in range(space.places) for label in range(labels)]
    complete = tuple((*slot, rng.choice(values)) for slot in rng.sample(slots, rng.randint(0, most)))
    return complete, tuple(rng.sample(slots, rng.randint(0, most)))


SLOTS = [(place, label) for place in range(3) for label in (0, 2)]
# Every table of at most two complete and three incomplete rows at three places with two labels.
TINY = [
    (tuple((*slot, 0) for slot in complete), incomplete)
    for few, many in product(range(3), range(4))
    for complete in combinations(SLOTS, few)
    for incomplete in combinations(SLOTS, many)
]


@pytest.mark.parametrize("part", sample_cases(range(24), to=2))
@pytest.mark.slow
def test_every_tiny_table(part):
    for rule in (scheme(LINE, *choice) for choice in RULES):
        for table in TINY[part::24]:
            assert max_changed(rule, table) == brute_most_changed(rule, table), (rule, table)


@pytest.mark.parametrize("seed", sample_cases(range(60), to=1))
@pytest.mark.parametrize("space", [LINE, MIXED], ids=["line", "mixed"])
def test_drawn_tables(space, seed):
    for choice in RULES:
        rule, table = scheme(space, *choice), drawn_table(seed, space, most=6)
        donors = rule.donors(rows(table[0]), incomplete=rows(table[1]))
        for row, found in zip(table[1], donors, strict=True):
            assert {table[0][one] for one in found if one >= 0} == donor_set(rule, table[0], row)
        assert max_changed(rule, table) == brute_most_changed(rule, table)


@pytest.mark.parametrize("seed", sample_cases(range(20), to=2))
@pytest.mark.slow
def test_changes_and_smoothness(seed):
    for choice in RULES:
        rule, table = scheme(LINE, *choice), drawn_table(seed, LINE, labels=2)
        here = max_changed(rule, table)
        for other in neighbours(rule, table):
            there = max_changed(rule, other)
            assert there <= 2 * here
            assert here <= 2 * there
            told = changed(rule, tuple(map(rows, table)), there=tuple(map(rows, other)))
            assert len(told) == changes(rule, table, other) <= min(here, there)


def test_chunks_change_nothing(monkeypatch):
    found = [max_changed(scheme(MIXED, *choice), drawn_table(5, MIXED, most=9)) for choice in RULES]
    monkeypatch.setattr("populace.privacy.sensitivity.nn_imputation._MAX_DISTANCE_CELLS", 2)
    again = [max_changed(scheme(MIXED, *choice), drawn_table(5, MIXED, most=9)) for choice in RULES]
    assert found == again


def test_order_of_the_file_changes_nothing():
    for choice in RULES:
        rule, (complete, incomplete) = scheme(MIXED, *choice), drawn_table(3, MIXED, most=12, values=VALUES)
        here = tuple(map(rows, (complete, incomplete)))
        there = tuple(map(rows, (complete[::-1], incomplete[::-1])))
        assert changed(rule, here, there=there) == set()
        assert max_changed(rule, (complete, incomplete)) == max_changed(
            rule, (complete[::-1], incomplete[::-1])
        )


# ----------------------------------------------------------------------------------------- traps


def test_a_row_added_beside_donors_never_changes_more_than_one_removed():
    for seed, ties in product(range(25), TieBreak):
        rule, table = scheme(LINE, 1, ties), drawn_table(seed, LINE, most=6)
        complete, incomplete = table
        removed = max(
            (
                changes(rule, table, (complete[:i] + complete[i + 1 :], incomplete))
                for i in range(len(complete))
            ),
            default=0,
        )
        for place, label in product({record[0] for record in complete}, labels_near(table)):
            if (place, label, 0) not in complete:
                assert changes(rule, table, ((*complete, (place, label, 0)), incomplete)) <= removed


def test_no_table_has_less_than_one():
    for choice in RULES:
        assert max_changed(scheme(LINE, *choice), ((), ())) == 1
        assert max_changed(scheme(LINE, *choice), (((0, 0, 0),), ())) == 1
    # Without donors a first one serves everybody.
    assert max_changed(scheme(LINE, 2, TieBreak.NEXT), ((), ((0, 0), (1, 4), (2, 2)))) == 3


# ----------------------------------------------------------------------------------------- values and bounds


def impute_values(donors, values, take):
    """The value of each incomplete row from its donors; without any, 0."""
    found = []
    for row in donors.tolist():
        taken = [int(values[one]) for one in row if one >= 0]
        if not taken:
            found.append(Fraction(0))
        elif take is DonorValue.MAJORITY:
            found.append(Fraction(min(taken, key=lambda value: (-taken.count(value), value))))
        else:
            found.append(Fraction(sum(taken), len(taken)))
    return found


def filled(rule, table, take):
    """All rows as (place, value), imputed ones included."""
    donors = rule.donors(rows(table[0]), incomplete=rows(table[1]))
    told = impute_values(donors, rows(table[0]).values, take)
    known = [(place, Fraction(value)) for place, _, value in table[0]]
    return known + [(place, value) for (place, _), value in zip(table[1], told, strict=True)]


SIZE, CENTRE, LOW, HIGH = Fraction(5), Fraction(3), Fraction(-1), Fraction(4)
MEAN = {"low": LOW, "high": HIGH, "size": SIZE}
# An answer on all rows, imputed ones included, and its bound from L₁.
ANSWERS = {
    "frequency": (lambda told: sum(value > 0 for _, value in told), frequency_bound),
    "sum within places": (
        lambda told: sum(value for place, value in told if place > 0) / SIZE,
        lambda most: mean_bound(most, **MEAN, membership=Membership.KNOWN),
    ),
    "sum of the positive": (
        lambda told: sum(value for _, value in told if value > 0) / SIZE,
        lambda most: mean_bound(most, **MEAN, membership=Membership.IMPUTED),
    ),
    "squares": (
        lambda told: sum((value - CENTRE) ** 2 for _, value in told) / (SIZE - 1),
        lambda most: variance_bound(most, low=LOW, high=HIGH, centre=CENTRE, size=SIZE),
    ),
    "squares of the negative": (
        lambda told: sum((value - CENTRE) ** 2 for _, value in told if value < 0) / (SIZE - 1),
        lambda most: variance_bound(most, low=LOW, high=HIGH, centre=CENTRE, size=SIZE),
    ),
}


@pytest.mark.parametrize("seed", sample_cases(range(24), to=3))
def test_bounds_are_smooth_and_above_local_sensitivity(seed):
    cases = [(1, DonorValue.COPY), (2, DonorValue.MEAN), (3, DonorValue.MAJORITY)]
    (k, take), ties = cases[seed % 3], list(TieBreak)[seed % 2]
    rule = scheme(LINE, k, ties)
    table = drawn_table(seed, LINE, values=VALUES, labels=2)
    here, most = filled(rule, table, take), max_changed(rule, table)
    for other in neighbours(rule, table, values=VALUES):
        there, others_most = filled(rule, other, take), max_changed(rule, other)
        for answer, bound in ANSWERS.values():
            moved = abs(answer(here) - answer(there))
            assert moved <= bound(most)
            assert moved <= bound(others_most)
            assert Fraction(1, 2) <= bound(most) / bound(others_most) <= 2


def test_bounds_are_reached():
    # One donor for three rows: when it leaves, all of them fall to the default.
    rule = scheme(LINE, 1, TieBreak.LOWEST)
    table = (((0, 0, 4),), ((0, 2), (1, 2), (2, 2)))
    without = ((), table[1])
    here, there = (filled(rule, each, DonorValue.COPY) for each in (table, without))
    counted, bound = ANSWERS["frequency"]
    assert abs(counted(here) - counted(there)) == bound(max_changed(rule, table)) == 4
    # A sum moves by 4 for each, of the 4 + 3·5 that values from −1 to 4 allow.
    summed, bound = ANSWERS["sum of the positive"]
    assert abs(summed(here) - summed(there)) == bound(max_changed(rule, table)) * Fraction(16, 19)


def test_bounds_of_the_source():
    at = {"low": Fraction(2), "high": Fraction(10), "size": Fraction(4)}
    assert mean_bound(3, **at, membership=Membership.KNOWN) == Fraction(10 + 3 * 8, 4)
    assert mean_bound(3, **at, membership=Membership.IMPUTED) == Fraction(10 * 4, 4)
    assert variance_bound(3, **at, centre=Fraction(3)) == Fraction(49 * 4, 3)
    assert mean_bound(
        2, low=Fraction(-6), high=Fraction(3), size=Fraction(1), membership=Membership.IMPUTED
    ) == Fraction(6 + 2 * 9)


def test_refusals():
    with pytest.raises(UsageError, match="matching column"):
        MatchingSpace(sizes=(3, 0), ordered=(True, True))
    with pytest.raises(UsageError, match="0 neighbours"):
        scheme(LINE, 0, TieBreak.LOWEST)
    ends = {"low": Fraction(0), "high": Fraction(1)}
    with pytest.raises(UsageError, match="mean over"):
        mean_bound(1, **ends, size=Fraction(1, 2), membership=Membership.KNOWN)
    with pytest.raises(UsageError, match="variance over"):
        variance_bound(1, **ends, centre=Fraction(0), size=Fraction(3, 2))
    with pytest.raises(UsageError, match="no range"):
        mean_bound(1, low=Fraction(1), high=Fraction(0), size=Fraction(1), membership=Membership.KNOWN)
