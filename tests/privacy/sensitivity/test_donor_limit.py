"""Donors of limited use: the same as walking the circle, and no row changes more others than is proved."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.privacy.sensitivity import donor_limit
from populace.privacy.sensitivity.donor_limit import assign_donors, sensitivity_factor
from populace.privacy.sensitivity.nn_imputation import MatchedRows
from tests.helpers.planted_faults import seeded

LABELS, PLACES = 9, 2


def rows(pairs) -> MatchedRows:
    """Rows of (place, label)."""
    places, labels = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
    return MatchedRows(places=places, labels=labels, values=labels)


def donors_of(table, max_uses):
    """The donor of every incomplete row; a table maps (place, label) to whether the row is complete."""
    sides = [[row for row, complete in table.items() if complete is side] for side in (True, False)]
    found = donor_limit.assign_donors(rows(sides[0]), incomplete=rows(sides[1]), max_uses=max_uses)
    return {
        row: None if donor < 0 else sides[0][donor]
        for row, donor in zip(sides[1], found.tolist(), strict=True)
    }


def walk(table, max_uses):
    """The same, step by step around the circle of each place."""
    found = {}
    for (place, label), complete in table.items():
        if complete:
            continue
        ahead = [(place, (label + step) % LABELS) for step in range(1, LABELS)]
        present = [row for row in ahead if row in table]
        rank = next((rank for rank, row in enumerate(present, 1) if table[row]), LABELS)
        found[place, label] = present[rank - 1] if rank <= max_uses else None
    return found


def draw_tables(count, *, seed):
    rng = np.random.default_rng(seed)
    every = [(place, label) for place in range(PLACES) for label in range(LABELS)]
    for _ in range(count):
        kinds = rng.choice([None, True, False, False], len(every))
        yield {row: bool(kind) for row, kind in zip(every, kinds, strict=True) if kind is not None}, every


@pytest.mark.parametrize("max_uses", [1, 2, 3])
def test_donors_are_those_of_walking_the_circle(max_uses):
    for table, _ in draw_tables(150, seed=1):
        assert donors_of(table, max_uses) == walk(table, max_uses)


def check_changes(max_uses) -> None:
    """Every row that can come, to tables of two places: as many others change as is proved, and no more."""
    most = {True: 0, False: 0}
    for table, every in draw_tables(120, seed=2):
        before = donors_of(table, max_uses)
        for row in set(every) - set(table):
            for complete in (True, False):
                after = donors_of({**table, row: complete}, max_uses)
                changed = sum(after[other] != donor for other, donor in before.items())
                most[complete] = max(most[complete], changed)
    assert most == {True: max_uses, False: 1}


@pytest.mark.parametrize("max_uses", [1, 2, 3])
def test_no_row_changes_more_others_than_is_proved(max_uses):
    check_changes(max_uses)


@pytest.mark.parametrize(
    ("old", "new"), [("rank <= max_uses", "rank <= max_uses + 1"), ("rank <= max_uses", "rank > 0")]
)
def test_a_limit_that_is_not_kept_is_seen(old, new):
    with seeded(assign_donors, old, new), pytest.raises(AssertionError):
        check_changes(2)


def test_without_donors_or_recipients_nothing_is_served():
    assert donors_of({(0, 1): False, (1, 2): True}, 3) == {(0, 1): None}
    assert donors_of({(0, 1): True}, 3) == {}


@pytest.mark.parametrize(("max_uses", "moved"), [(0, 1), (1, 0), (1, 3)])
def test_a_limit_of_nothing_is_refused(max_uses, moved):
    with pytest.raises(UsageError):
        sensitivity_factor(max_uses, moved=moved)
