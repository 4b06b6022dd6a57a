"""Attacks on a released table with a control: rows of the same population that the release was not made from.

An attack succeeds on control rows by chance and by statistics alone. Only what it does better on the real rows is
disclosure about them. Success rates have intervals of Clopper and Pearson; attacks show what one attacker found, never
what all cannot find. That is bounded by ε and δ alone: the power of the best membership test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.errors import DataError
from populace.evaluation.binomial_interval import clopper_pearson
from populace.evaluation.disclosure.anonymity import MAX_CELLS
from populace.evaluation.disclosure.text_tables import TextTable
from populace.release.statement.membership_power import FALSE_POSITIVE_RATE

# Rows that are attacked of each table, drawn with a fixed seed: comparing all with all would take long.
MAX_TARGETS = 2000
# Control rows below which a false-positive rate of 5 % cannot be set.
MIN_CONTROL_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """How often something happened among so many trials."""

    successes: int
    trials: int

    def to_json(self) -> dict[str, Any]:
        """Return the rate with its interval."""
        low, high = clopper_pearson(self.successes, self.trials) if self.trials else (0.0, 1.0)
        rate = self.successes / self.trials if self.trials else None
        return {"successes": self.successes, "trials": self.trials, "rate": rate, "low": low, "high": high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack: what it does, and its success on real and on control rows."""

    name: str
    what: str
    real: Success
    control: Success

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON; `evident` where the intervals do not overlap."""
        real, control = self.real.to_json(), self.control.to_json()
        return {
            "name": self.name,
            "what": self.what,
            "real": real,
            "control": control,
            "evident": real["low"] > control["high"],
        }


def run_attacks(
    released: TextTable,
    *,
    real: TextTable,
    control: TextTable,
    quasi: Sequence[str],
    sensitive: Sequence[str],
) -> list[Attack]:
    """Return all attacks, on as many control rows as real ones where there are so many."""
    if control.rows < MIN_CONTROL_ROWS:
        raise DataError(
            f"the control has {control.rows} rows; attacks need {MIN_CONTROL_ROWS}.", hint="give more of them"
        )
    rng = np.random.default_rng(0)
    size = min(real.rows, control.rows)
    first, second = (_draw(table, size, rng=rng) for table in (real, control))
    both = [*quasi, *sensitive]
    return [
        _match_uniquely(released, first, second, quasi=quasi, sensitive=sensitive),
        _single_out(released, first, second, quasi=quasi),
        *(
            _test_membership(name, what, score(released, first, second, both, rng=rng))
            for name, what, score in (
                (
                    "membership by closest row",
                    "calls a row a member where a released row agrees with it in more columns than any does with 95 % "
                    "of control rows",
                    _score_closest,
                ),
                (
                    "membership by pairs of values",
                    "calls a row a member where its pairs of values are more frequent in the release than in other "
                    "control rows, by a likelihood ratio",
                    _score_pairs,
                ),
            )
        ),
    ]


def _draw(table: TextTable, rows: int, *, rng: np.random.Generator) -> TextTable:
    kept = rng.permutation(table.rows)[:rows]
    return TextTable(
        name=table.name, codes={name: codes[kept] for name, codes in table.codes.items()}, texts=table.texts
    )


def _match_uniquely(
    released: TextTable,
    real: TextTable,
    control: TextTable,
    *,
    quasi: Sequence[str],
    sensitive: Sequence[str],
) -> Attack:
    """Rows that one released row alone agrees with in all quasi-identifiers; with sensitive values right, if any."""
    keys, places, counts = np.unique(released.matrix(quasi), axis=0, return_index=True, return_counts=True)
    alone = {
        tuple(key): int(place) for key, place in zip(keys[counts == 1], places[counts == 1], strict=True)
    }
    known = released.matrix(sensitive)

    def attack(table: TextTable) -> Success:
        found = [alone.get(tuple(key)) for key in table.matrix(quasi)]
        own = table.matrix(sensitive)
        right = sum(
            place is not None and bool((known[place] == own[row]).all()) for row, place in enumerate(found)
        )
        return Success(successes=right, trials=table.rows)

    more = " and has its sensitive values" if sensitive else ""
    return Attack(
        name="unique matches",
        what=f"one released row alone agrees with a row in all quasi-identifiers{more}",
        real=attack(real),
        control=attack(control),
    )


def _single_out(released: TextTable, real: TextTable, control: TextTable, *, quasi: Sequence[str]) -> Attack:
    """Predicates made of released rows that are unique: each wins where exactly one row of a table meets it."""
    keys, counts = np.unique(released.matrix(quasi), axis=0, return_counts=True)
    guesses = {tuple(key) for key in keys[counts == 1]}

    def attack(table: TextTable) -> Success:
        found, times = np.unique(table.matrix(quasi), axis=0, return_counts=True)
        single = {tuple(key) for key in found[times == 1]}
        return Success(successes=len(single & guesses), trials=len(guesses))

    return Attack(
        name="singling out",
        what="a combination of quasi-identifiers that is unique in the release is unique in the table",
        real=attack(real),
        control=attack(control),
    )


Scores = tuple[Floats, Floats, Floats]


def _test_membership(name: str, what: str, scores: Scores) -> Attack:
    """A test whose threshold lets 5 % of one half of the control pass: its power, and its rate on the other half."""
    real, calibration, control = scores
    threshold = np.quantile(calibration, 1 - FALSE_POSITIVE_RATE, method="higher")
    passed = [Success(successes=int((held > threshold).sum()), trials=len(held)) for held in (real, control)]
    return Attack(name=name, what=what, real=passed[0], control=passed[1])


def _score_closest(
    released: TextTable,
    real: TextTable,
    control: TextTable,
    names: Sequence[str],
    *,
    rng: np.random.Generator,
) -> Scores:
    """In how many columns the released row that is most alike agrees with a row; ties are broken at random."""
    rows = released.matrix(names)
    if len(rows) > MAX_TARGETS * 10:
        rows = rows[rng.permutation(len(rows))[: MAX_TARGETS * 10]]

    def score(targets: Ints) -> Floats:
        best = np.array([int((rows == target).sum(axis=1).max()) for target in targets], dtype=np.float64)
        return best + rng.random(len(best)) / 2

    return _score_parts(score, real, control, names)


def _score_pairs(
    released: TextTable,
    real: TextTable,
    control: TextTable,
    names: Sequence[str],
    *,
    rng: np.random.Generator,
) -> Scores:
    """The mean log ratio of a row's pairs of values, in the release and in the first half of the control."""
    sets: list[tuple[str, ...]] = [*((name,) for name in names), *combinations(names, 2)]
    reference = control.matrix(names)[: control.rows // 2]
    columns = {name: place for place, name in enumerate(names)}
    tables = []
    for some in sets:
        places = [columns[name] for name in some]
        sizes = [len(released.texts[name]) for name in some]
        if math.prod(sizes) > MAX_CELLS:
            continue
        shares = []
        for rows in (released.matrix(names), reference):
            cells = np.ravel_multi_index(tuple(rows[:, places].T), sizes)
            counts = np.bincount(cells, minlength=int(np.prod(sizes)))
            shares.append((counts + 0.5) / (len(rows) + 0.5 * len(counts)))
        tables.append((places, sizes, np.log(shares[0]) - np.log(shares[1])))

    def score(targets: Ints) -> Floats:
        total = np.zeros(len(targets))
        for places, sizes, ratio in tables:
            total += ratio[np.ravel_multi_index(tuple(targets[:, places].T), sizes)]
        return total + 1e-9 * rng.random(len(total))

    return _score_parts(score, real, control, names, used=control.rows // 2)


def _score_parts(
    score: Callable[[Ints], Floats],
    real: TextTable,
    control: TextTable,
    names: Sequence[str],
    *,
    used: int = 0,
) -> Scores:
    """Return the scores of real rows, of control rows that set the threshold, and of others that test it.

    The first `used` control rows are those that the score itself rests on.
    """
    free = control.matrix(names)[used:]
    half = len(free) // 2
    parts = (real.matrix(names)[:MAX_TARGETS], free[:half][:MAX_TARGETS], free[half:][:MAX_TARGETS])
    first, second, third = (score(part) for part in parts)
    return first, second, third
