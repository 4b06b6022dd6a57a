"""Rows of any schema, drawn from a documented model: made-up people of a few kinds.

The model needs nothing but the schema, so it can stand in for data that may not be had. There are K kinds of people
(profiles) with shares ∝ 1, 1/2, … 1/K. Every variable has a common law over its codes, Zipf's law in a random order
(in their own order, around a random centre, for ordered columns), and each kind has a law of its own of the same form.
A cell is drawn from the law of the row's kind with probability `PULL`, else from the common law: given the kind,
columns are independent, so every dependence comes from the kinds and grows with `PULL`. Special codes (missing, other)
have a fixed small share. Rules of the schema are enforced afterwards, as for real rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from populace.schema.columns.column import Column
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

# The kinds of people, and how much of a cell's law is its kind's.
PROFILES, PULL = 6, 0.7
SPECIAL_SHARE = 0.04
# Zipf's exponents: the common law is flatter than the law of one kind.
COMMON_EXPONENT, CLASS_EXPONENT = 0.7, 1.6


def simulate_rows(schema: Schema, *, rows: int, rng: np.random.Generator) -> pa.Table:
    """Return rows of the model as values: what a file of this schema could hold.

    >>> schema = Schema.from_sizes({"a": 3, "b": 4})
    >>> simulate_rows(schema, rows=5, rng=np.random.default_rng(1)).shape
    (5, 2)
    """
    from populace.schema.codec.table_codec import TableCodec

    kinds = rng.choice(PROFILES, size=rows, p=_zipf(PROFILES, exponent=1.0))
    drawn = {}
    for name, column in schema.variables.items():
        common = zipf_distribution(column, exponent=COMMON_EXPONENT, rng=rng)
        own = np.stack([zipf_distribution(column, exponent=CLASS_EXPONENT, rng=rng) for _ in range(PROFILES)])
        drawn[name] = _draw((1 - PULL) * common + PULL * own, kinds, rng=rng)
    codec = TableCodec(schema)
    return codec.decode(codec.enforce(drawn), rng=rng)


def zipf_distribution(column: Column, *, exponent: float, rng: np.random.Generator) -> Shares:
    """Return shares of a column's codes: Zipf's law over its domain, and little for the special codes.

    >>> shares = zipf_distribution(Schema.from_sizes({"a": 3}).columns["a"], exponent=1.0, rng=np.random.default_rng(1))
    >>> bool(np.isclose(shares.sum(), 1))
    True
    """
    shares = np.zeros(column.size)
    if column.levels:
        if column.ordered:
            # Distance from a random centre: neighbours have like shares.
            rank = np.argsort(np.argsort(np.abs(np.arange(column.levels) - rng.integers(column.levels))))
        else:
            rank = rng.permutation(column.levels)
        shares[: column.levels] = _zipf(column.levels, exponent=exponent)[rank]
    specials = column.size - column.levels
    if specials:
        shares *= 1 - SPECIAL_SHARE
        shares[column.levels :] = (SPECIAL_SHARE if column.levels else 1.0) / specials
    return shares


def _zipf(size: int, *, exponent: float) -> Shares:
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def _draw(distributions: Shares, kinds: Codes, *, rng: np.random.Generator) -> Codes:
    """Return one code for every row, from the law of its kind."""
    codes = np.empty(len(kinds), dtype=np.int64)
    points = rng.random(len(kinds))
    for kind, shares in enumerate(distributions):
        here = kinds == kind
        bounds = np.cumsum(shares)
        codes[here] = np.searchsorted(bounds / bounds[-1], points[here], side="right")
    return np.asarray(np.minimum(codes, distributions.shape[1] - 1))
