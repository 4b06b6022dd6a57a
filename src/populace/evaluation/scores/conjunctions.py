"""Higher-order conjunctions: shares of rows that meet conditions on several columns at once.

Source: NIST's 2018 challenge, match 3, as its competitors' pack scores it. A condition is drawn around a real row and
names some columns: each takes part with a probability of 0.1. A column without order admits the row's value and others,
drawn until one comes twice; one with an order admits values up to a distance that is uniform over its range. With f the
share of real rows that meet the condition and g that of synthetic rows, its error is ln max(g, 10⁻⁶) − ln f, and the
score is max(0, 1 + r / ln 10⁻³) for the root mean square error r, here from 0 to 1000. Two things are ours, because the
challenge had 98 columns: a condition names four columns or more, and no column admits every value. The seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Truth
from populace.core.marginals import Domain
from populace.evaluation.scores.marginal_distance import CodeArrays, Weights
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

Conjunction = Mapping[str, Truth]

CONJUNCTIONS, COLUMN_SHARE = 300, 0.1
MIN_COLUMNS = 4
MIN_SHARE, WORST_ERROR = 1e-6, math.log(1e-3)


def draw_conjunctions(
    real: CodeArrays,
    domain: Domain,
    *,
    ordered: Mapping[str, int],
    count: int = CONJUNCTIONS,
    columns: int = 0,
) -> list[Conjunction]:
    """Return conditions, each met by at least one real row: for each of its columns, which codes it admits.

    `ordered` says of columns whose codes have an order how many do: those behind them are special codes. Without a
    number of columns each column takes part with a probability of a tenth, and at least four do.
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
                name: _draw_codes(int(real[name][row]), domain[name], values=ordered.get(name), rng=rng)
                for name in chosen
            }
        )
    return found


def _draw_codes(code: int, size: int, *, values: int | None, rng: np.random.Generator) -> Truth:
    """Return a set of codes that holds one: a range around an ordered code, or codes drawn until one comes twice."""
    places = np.arange(size)
    if values is not None:
        distance = 0.0 if code >= values else float(rng.uniform(0, values - 1))
        inside: Truth = (np.abs(places - code) <= distance) & ((places < values) | (places == code))
        return inside
    admitted: Truth = places == code
    while not admitted[drawn := int(rng.integers(size))]:
        admitted[drawn] = True
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


def share_of_rows(codes: CodeArrays, conjunction: Conjunction, *, weights: Floats | None = None) -> float:
    """Return the share of rows that meet a condition; each column only looks at the rows that the others left.

    >>> share_of_rows({"a": np.array([0, 1, 1, 1])}, {"a": np.array([False, True])})
    0.75
    """
    rows = len(next(iter(codes.values())))
    left: npt.NDArray[Any] | slice = slice(None)
    for name, admitted in conjunction.items():
        column = codes[name][left]
        inside = np.flatnonzero(admitted[column])
        left = inside if isinstance(left, slice) else left[inside]
    if weights is None:
        return (rows if isinstance(left, slice) else len(left)) / rows
    return float(weights[left].sum() / weights.sum())


def score_conjunctions(
    real: CodeArrays,
    synthetic: CodeArrays,
    conjunctions: Sequence[Conjunction],
    *,
    weights: Weights | None = None,
) -> Score:
    """Return the score of some conditions, with an interval for all that could have been drawn.

    Real rows of some weight have to meet each of them.
    """
    held = (None, None) if weights is None else (weights.real, weights.synthetic)
    shares = [
        [
            share_of_rows(codes, each, weights=some)
            for codes, some in zip((real, synthetic), held, strict=True)
        ]
        for each in conjunctions
    ]
    errors = np.array([math.log(max(g, MIN_SHARE)) - math.log(f) for f, g in shares])
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
