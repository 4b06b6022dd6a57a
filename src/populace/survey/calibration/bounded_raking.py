"""Raking with limits: totals are met by factors within a range (Deville, Särndal and Sautory 1993, "truncated")."""

from __future__ import annotations

import numpy as np

from populace.core.array_types import Floats
from populace.inference.fit.raking import RakingTarget, margin_sums, max_raking_error
from populace.survey.calibration.ipf import TOTAL_TOLERANCE, TableTotals

_MAX_ROUNDS = 100
# Halvings of the range in which the factor of one sum lies.
_HALVINGS = 40
# Limits are doubled this often before totals are met without any.
_MAX_DOUBLINGS = 20


def rake_within_limits(table: Floats, *, totals: TableTotals, limit: float) -> Floats | None:
    """Return a table that meets totals, each cell within a factor `limit` of what it was, as far as totals allow.

    Where no cell comes to a limit this is raking. Else a cell's factor is that of raking held to the limits, which has
    the totals and is closest in relative entropy among all tables within them. Where no such table has the totals,
    limits are doubled until one has. None if no factors meet the totals at all.

    >>> totals = TableTotals.of([np.array([50.0, 50.0]), np.array([90.0, 10.0])])
    >>> before = np.array([[45.0, 5.0], [5.0, 45.0]])
    >>> (totals.rake(before) / before).round(2).tolist()
    [[1.11, 0.03], [8.03, 0.22]]
    >>> (rake_within_limits(before, totals=totals, limit=9.0) / before).round(2).tolist()
    [[1.1, 0.11], [8.11, 0.21]]
    """
    raked = totals.rake(table)
    if max_raking_error(raked, totals.targets) > TOTAL_TOLERANCE * totals.people:
        return None
    for doubling in range(_MAX_DOUBLINGS):
        bound = limit * 2.0**doubling
        if _is_within(raked, table, bound):
            return raked
        found = _rake_truncated(table, totals=totals, limit=bound)
        if found is not None:
            return found
    return raked


def _is_within(raked: Floats, table: Floats, limit: float) -> bool:
    return bool(((raked <= limit * table) & (raked * limit >= table))[table > 0].all())


def _rake_truncated(table: Floats, *, totals: TableTotals, limit: float) -> Floats | None:
    """Return table·clip(exp(Σ effects of its sums)), effect by effect until all sums hold; None if they never do."""
    logs = np.zeros(table.shape)
    for _ in range(_MAX_ROUNDS):
        for target in totals.targets:
            step = _solve_effects(table, logs, target, limit=limit)
            if step is None:
                return None
            logs = logs + step
        found = table * _truncate(logs, limit)
        if max_raking_error(found, totals.targets) <= TOTAL_TOLERANCE * totals.people:
            return found
    return None


def _solve_effects(table: Floats, logs: Floats, target: RakingTarget, *, limit: float) -> Floats | None:
    """Return what must be added to the logarithms of each sum's cells, by halving; None if a sum is out of reach."""
    axes, wanted = target
    held = margin_sums(table, axes)
    want = wanted.reshape(held.shape)
    slack = TOTAL_TOLERANCE * float(want.sum())
    if ((want > limit * held + slack) | (want < held / limit - slack)).any():
        return None
    low = np.full(held.shape, -np.log(limit) - float(logs.max()))
    high = np.full(held.shape, np.log(limit) - float(logs.min()))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = margin_sums(table * _truncate(logs + middle, limit), axes) < want
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    found: Floats = (low + high) / 2
    return found


def _truncate(logs: Floats, limit: float) -> Floats:
    bound = np.log(limit)
    found: Floats = np.exp(np.clip(logs, -bound, bound))
    return found
