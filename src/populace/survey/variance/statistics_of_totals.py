"""Statistics as functions of weighted totals, with their gradients: all that linearisation needs.

Totals come as a table of groups × terms. A statistic gives a table of groups × numbers, and the derivative of each
number by each term of its own group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueAndGradient:
    """The numbers of a statistic (groups × numbers), and their gradient (groups × numbers × terms)."""

    values: Floats
    gradient: Floats


def totals(terms: Floats) -> ValueAndGradient:
    """Return each term as it is: totals, or weighted counts of values.

    >>> totals(np.array([[3.0, 4.0]])).values.tolist()
    [[3.0, 4.0]]
    """
    return ValueAndGradient(
        values=terms, gradient=np.broadcast_to(np.eye(terms.shape[1]), (*terms.shape, terms.shape[1]))
    )


def shares(terms: Floats) -> ValueAndGradient:
    """Return the share of each term in all of them.

    >>> shares(np.array([[3.0, 1.0]])).values.tolist()
    [[0.75, 0.25]]
    """
    whole = terms.sum(axis=1)[:, None]
    values = terms / whole
    gradient = (np.eye(terms.shape[1])[None] - values[:, :, None]) / whole[:, :, None]
    return ValueAndGradient(values=values, gradient=gradient)


def ratios(terms: Floats) -> ValueAndGradient:
    """Return the first of two terms divided by the second.

    >>> ratios(np.array([[3.0, 4.0]])).values.tolist()
    [[0.75]]
    """
    above, below = terms[:, 0], terms[:, 1]
    slopes = np.stack([1 / below, -above / below**2], axis=-1)
    return ValueAndGradient(values=(above / below)[:, None], gradient=slopes[:, None])


def means(terms: Floats, *, centre: float) -> ValueAndGradient:
    """Return the mean of a number from Σw and Σw(x − centre).

    >>> means(np.array([[2.0, 6.0]]), centre=10.0).values.tolist()
    [[13.0]]
    """
    weight, moved = terms[:, 0], terms[:, 1]
    mean = moved / weight
    return ValueAndGradient(
        values=(centre + mean)[:, None], gradient=np.stack([-mean / weight, 1 / weight], axis=-1)[:, None]
    )


def variances(terms: Floats) -> ValueAndGradient:
    """Return the variance from Σw, Σw(x − centre) and Σw(x − centre)².

    >>> variances(np.array([[4.0, 8.0, 20.0]])).values.tolist()
    [[1.0]]
    """
    weight = terms[:, 0]
    mean, square = terms[:, 1] / weight, terms[:, 2] / weight
    slopes = [(2 * mean**2 - square) / weight, -2 * mean / weight, 1 / weight]
    return ValueAndGradient(values=(square - mean**2)[:, None], gradient=np.stack(slopes, axis=-1)[:, None])


def correlations(terms: Floats) -> ValueAndGradient:
    """Return the correlation of two numbers from Σw·(1, x, y, x², xy, y²), both less their centres.

    Where noise leaves no variance, there is no correlation either: the number is not finite.

    >>> correlations(np.array([[2.0, 0.0, 0.0, 2.0, 1.0, 2.0]])).values.tolist()
    [[0.5]]
    """
    weight = terms[:, 0]
    x, y, xx, xy, yy = (terms[:, place] / weight for place in range(1, 6))
    both, first, second = xy - x * y, xx - x**2, yy - y**2
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(np.where((first > 0) & (second > 0), first * second, np.nan))
        value = both / size
        by_first, by_second = -value / (2 * first), -value / (2 * second)
    # By the moments x, y, x², xy and y² first; by the weight they all are divided by, last.
    slopes = [
        -y / size - 2 * x * by_first,
        -x / size - 2 * y * by_second,
        by_first,
        1 / size,
        by_second,
    ]
    by_weight = -sum(slope * each for slope, each in zip(slopes, (x, y, xx, xy, yy), strict=True))
    gradient = np.stack([by_weight, *slopes], axis=-1) / weight[:, None]
    return ValueAndGradient(values=value[:, None], gradient=gradient[:, None])
