"""The association of two ordered columns, kept when the noise of their table is taken away.

The cells of a large table are lost in noise, but what they say together about the order of two columns is not: the sum
that makes up a rank correlation has the noise of a few rows. Shrinking cells and cutting them at zero loses it. So a
table that was cleaned is tilted until it has the linear and quadratic associations that were measured: a log-linear
model with linear-by-linear terms (Agresti 2013, section 10.4), the cleaned table as its offset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from populace.inference.factor import Table, centre
from populace.inference.fit.raking import RakingTarget, margin_sums, rake

# Scores are polynomials of midranks up to this degree: trends, and turns of trends.
_DEGREE = 2
# Tables of fewer codes on a side keep their cells well enough.
_MIN_CODES = 4
# The logarithm by which a cell is scaled at most in one step, and in all.
_MAX_STEP, _MAX_TILT = 1.0, 6.0
_MAX_STEPS = 15
_RAKING_ROUNDS = 3
# A step is the last one when associations are met to this part of their standard deviation.
_CLOSE = 0.1

Order = npt.NDArray[np.int64]


def match_association(
    table: Table, values: Table, *, baseline: Table, deviation: float, orders: Sequence[Order]
) -> Table:
    """Return a cleaned pair, scaled to the single columns of the baseline, with the associations of noisy values.

    The noise of all cells has one deviation. `orders` has, for each column, its codes with a natural order, in that
    order; other codes have no score. What an association differs by counts as far as it stands out of its own noise
    (James and Stein 1961, positive part). Cells that are empty stay empty.

    >>> cleaned, noisy = np.full((5, 5), 40.0), 40.0 + 9 * np.outer(np.arange(-2, 3), np.arange(-2, 3))
    >>> orders = (np.arange(5), np.arange(5))
    >>> found = match_association(cleaned, noisy, baseline=cleaned, deviation=1.0, orders=orders)
    >>> found.round()[0].tolist(), found.sum(axis=0).round(3).tolist()
    ([73.0, 61.0, 40.0, 19.0, 7.0], [200.0, 200.0, 200.0, 200.0, 200.0])
    """
    total = float(baseline.sum())
    if total <= 0 or min(map(len, orders)) < _MIN_CODES:
        return table
    margins: list[RakingTarget] = [((axis,), margin_sums(baseline, (axis,))) for axis in range(2)]
    left, right = (
        _rank_polynomials(wanted.ravel() / total, order)
        for (_, wanted), order in zip(margins, orders, strict=True)
    )
    products = np.array([np.outer(row, column) for row in left for column in right])
    if not len(products):
        return table
    deviations = deviation * np.array([np.linalg.norm(centre(product)) for product in products]) / total
    measured = _means(products, baseline + centre(np.where(baseline > 0, values - baseline, 0.0)), total)
    table = rake(table, margins, rounds=_RAKING_ROUNDS)
    missed = measured - _means(products, table, total)
    shrinkage = np.divide(deviations**2, missed**2, out=np.ones_like(missed), where=missed != 0)
    wanted = _means(products, table, total) + missed * np.maximum(0.0, 1 - shrinkage)
    return _tilt(table, products, wanted=wanted, close=_CLOSE * deviations, margins=margins)


def _tilt(
    table: Table, products: Table, *, wanted: Table, close: Table, margins: Sequence[RakingTarget]
) -> Table:
    """Return the table times exp(Σ λ × products), raked to its margins, with the wanted means, by Newton's method.

    Where no such table is near, it goes as far as the largest tilt.
    """
    total = float(table.sum())
    tilt = np.zeros(len(products))
    for _ in range(_MAX_STEPS):
        missed = wanted - _means(products, table, total)
        if (np.abs(missed) <= close).all():
            break
        inside = np.array([_centre_within(product, table) for product in products]).reshape(len(products), -1)
        covariance = (inside * (table.ravel() / total)) @ inside.T
        step = np.linalg.lstsq(covariance, missed, rcond=1e-6)[0]
        step *= min(1.0, _MAX_STEP / max(float(np.abs(np.tensordot(step, products, 1)).max()), 1e-12))
        if np.abs(np.tensordot(tilt + step, products, 1)).max() > _MAX_TILT:
            break
        tilt += step
        table = rake(table * np.exp(np.tensordot(step, products, 1)), margins, rounds=_RAKING_ROUNDS)
    return table


def _rank_polynomials(shares: Table, order: Order) -> Table:
    """Return polynomials of the midranks of ordered codes, orthonormal over the rows that have one; others have 0."""
    weights = np.maximum(shares[order], 0.0)
    found = np.zeros((_DEGREE, len(shares)))
    if weights.sum() <= 0 or np.count_nonzero(weights) <= _DEGREE:
        return found[:0]
    weights = weights / weights.sum()
    ranks = np.cumsum(weights) - weights / 2
    basis = [np.ones(len(order))]
    for degree in range(1, _DEGREE + 1):
        power = (ranks - 0.5) ** degree
        for known in basis:
            power = power - float((power * known) @ weights) * known
        basis.append(power / np.sqrt(float(power**2 @ weights)))
        found[degree - 1, order] = basis[-1]
    return found


def _means(products: Table, table: Table, total: float) -> Table:
    return np.asarray(np.tensordot(products, table, 2) / total)


def _centre_within(product: Table, table: Table) -> Table:
    """Return a product less what the margins of a table explain of it, as nearly as three rounds get."""
    for _ in range(3):
        for axis in range(2):
            weight = table.sum(axis=axis, keepdims=True)
            mean = (product * table).sum(axis=axis, keepdims=True)
            product = product - np.divide(mean, weight, out=np.zeros(weight.shape), where=weight > 0)
    return product
