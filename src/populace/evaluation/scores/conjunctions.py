"""Higher-order conjunctions: shares of rows that meet conditions on a third of the columns at once.

Source: NIST's 2018 challenge. A condition names some columns, each with a set of values; ordered columns have a range.
With f the share of real rows that meet it and g that of synthetic rows, its error is ln max(g, 10⁻⁶) − ln f, and the
score is max(0, 1 + r / ln 10⁻³) for the root mean square error r, here from 0 to 1000. Every condition is met by at
least one real row, around which it is drawn, and names four columns or more. The seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Truth
from populace.core.marginals import Domain
from populace.evaluation.scores.marginal_distance import CodeArrays
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

Conjunction = Mapping[str, Truth]

CONJUNCTIONS, COLUMN_SHARE, VALUE_SHARE = 300, 1 / 3, 0.5
MIN_COLUMNS = 4
MIN_SHARE, WORST_ERROR = 1e-6, math.log(1e-3)


def draw_conjunctions(
    real: CodeArrays, domain: Domain, *, ordered: frozenset[str], count: int = CONJUNCTIONS, columns: int = 0
) -> list[Conjunction]:
    """Return conditions, each met by at least one real row: for each of its columns, which codes it admits.

    Without a number of columns each column takes part with a probability of a third, and at least four do.
    """
    rng = np.random.default_rng(0)
    names = list(domain)
    rows = len(next(iter(real.values())))
    found: list[Conjunction] = []
    for _ in range(count):
        row = int(rng.integers(rows))
        drawn = np.flatnonzero(rng.random(len(names)) < COLUMN_SHARE)
        least = min(columns or MIN_COLUMNS, len(names))
        if columns or len(drawn) < least:
            drawn = np.sort(rng.choice(len(names), size=least, replace=False))
        chosen = [names[place] for place in drawn]
        found.append(
            {
                name: _draw_codes(int(real[name][row]), domain[name], ordered=name in ordered, rng=rng)
                for name in chosen
            }
        )
    return found


def _draw_codes(code: int, size: int, *, ordered: bool, rng: np.random.Generator) -> Truth:
    """Return a set of codes that holds one: a range of ordered codes, or each other code with even chance."""
    if ordered:
        width = max(1, round(size * VALUE_SHARE))
        low = int(rng.integers(max(code - width + 1, 0), code + 1))
        places = np.arange(size)
        return (places >= low) & (places < low + width)
    admitted = rng.random(size) < VALUE_SHARE
    admitted[code] = True
    if size > 1 and admitted.all():
        # A condition that every row meets asks nothing.
        admitted[(code + 1 + int(rng.integers(size - 1))) % size] = False
    return admitted


def meets(codes: CodeArrays, conjunction: Conjunction) -> Truth:
    """Say which rows meet a condition.

    >>> meets({"a": np.array([0, 1, 1])}, {"a": np.array([False, True])}).tolist()
    [False, True, True]
    """
    rows = len(next(iter(codes.values())))
    held = np.ones(rows, dtype=np.bool_)
    for name, admitted in conjunction.items():
        held &= admitted[codes[name]]
    return held


def count_rows(codes: CodeArrays, conjunction: Conjunction) -> int:
    """Return how many rows meet a condition; each column only looks at the rows that the others left."""
    left: npt.NDArray[Any] | slice = slice(None)
    for name, admitted in conjunction.items():
        column = codes[name][left]
        inside = np.flatnonzero(admitted[column])
        left = inside if isinstance(left, slice) else left[inside]
    return len(next(iter(codes.values()))[left])


def score_conjunctions(real: CodeArrays, synthetic: CodeArrays, conjunctions: Sequence[Conjunction]) -> Score:
    """Return the score of some conditions, with an interval for all that could have been drawn."""
    rows, drawn = (len(next(iter(each.values()))) for each in (real, synthetic))
    errors = np.array(
        [
            math.log(max(count_rows(synthetic, each) / drawn, MIN_SHARE))
            - math.log(count_rows(real, each) / rows)
            for each in conjunctions
        ]
    )
    squares = errors**2
    mean = math.fsum(squares) / len(squares)
    margin = NORMAL_95 * float(squares.std(ddof=1)) / math.sqrt(len(squares))
    value, low, high = (_rescale(mean + shift) for shift in (0.0, margin, -margin))
    return Score(
        name="conjunctions",
        title="Higher-order conjunctions (NIST 2018)",
        value=value,
        interval=(low, high),
        interval_of="95 %, for all conditions that could have been drawn",
        direction=Direction.HIGHER,
        scale="0 (shares off by a factor of 1000) to 1000 (the same share of rows meets every condition)",
        blind_to="conditions that were not drawn; rare ones are dominated by the sampling of rows",
        note=f"{len(conjunctions)} conditions, drawn with a fixed seed",
    )


def _rescale(mean_square: float) -> float:
    return 1000 * max(0.0, 1 + math.sqrt(max(mean_square, 0.0)) / WORST_ERROR)
