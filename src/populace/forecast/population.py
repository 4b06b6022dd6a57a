"""Populations without private rows: invented from a schema alone, or read from a table that is public.

Nobody knows what the private columns look like, but columns of surveys are alike in what matters to noise: some are
nearly even, some hold one code in almost every row, the longer the more so; many long ones have codes that never
occur; and columns of about the same length hang together in groups, the long ones most. An invented column draws
how uneven it is and how strongly it goes with others. The draws are spread evenly over all columns, so that means
over columns vary little from one invention to the next. Chosen on real tables: docs/decisions/plan.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.errors import DataError
from populace.marginals import Counts, Marginal, tabulate
from populace.private.read import check_header, open_source, read_codes
from populace.schema.columns import Column
from populace.schema.encoder import code_type
from populace.schema.repair import Repair
from populace.schema.schema import Schema

Codes = Mapping[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]

# Of larger populations so many rows are drawn, and each stands for several.
MOST_DRAWN = 2**18
# Shares of codes are exp(τ z) with normal z; τ is even between 0 and this times ln(codes) to a power. In tables of
# many columns there are more that say the same of nearly everybody.
UNEVEN, POWER, USUAL, MANY = 0.9, 1.2, 30, 0.1
# Of the codes that a column has beyond so many, up to half never occur.
MOST_EMPTY, LONG = 0.5, 12
# How many columns share a trait, how alike in length they are, and how much all groups have in common.
GROUP, MIXED, ALL_TOGETHER = 10, 0.7, 0.5
# How closely columns follow the trait of their group; those of many codes more closely.
LEAST_BOUND, MOST_BOUND, LONGER = 0.4, 0.99, 0.75


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Population:
    """Rows of codes, each of which stands for `times` rows of the whole; `read` came from a public table."""

    schema: Schema
    codes: Codes
    rows: int
    times: float
    read: int = 0

    def exact(self, marginal: Marginal) -> Counts:
        """Return how many rows of the whole fall into each cell of a marginal."""
        if not marginal.clique:
            return np.array(self.rows, dtype=np.int64)
        found = tabulate(marginal, codes=self.codes, domain=self.schema.domain)
        return found if self.times == 1 else np.rint(found * self.times).astype(np.int64)


def public(data: Any, *, schema: Schema, rows: int, rng: np.random.Generator) -> Population:
    """Return a table that its owner declares public, some of its rows left out or repeated to make so many."""
    source = open_source(data)
    check_header(source, schema)
    codes = read_codes(source, schema)
    there = len(next(iter(codes.values())))
    if not there:
        raise DataError("the public table has no rows.", hint="rehearse with a table that has some")
    drawn = max(1, min(rows, max(there, MOST_DRAWN)))
    if drawn != there:
        whole, more = divmod(drawn, there)
        chosen = np.concatenate([np.tile(np.arange(there), whole), rng.permutation(there)[:more]])
        codes = {name: column[chosen] for name, column in codes.items()}
    return Population(schema=schema, codes=codes, rows=rows, times=rows / drawn, read=there)


def invent(schema: Schema, *, rows: int, rng: np.random.Generator) -> Population:
    """Return an invented population of so many rows that keeps the rules of a schema."""
    from scipy.special import ndtri

    drawn = max(1, min(rows, MOST_DRAWN))
    columns = schema.variables
    lengths = np.log([max(2, column.size) for column in columns.values()])
    most = UNEVEN * (len(columns) / USUAL) ** MANY
    uneven = most * lengths**POWER * _spread(len(columns), rng)
    empty = MOST_EMPTY * _spread(len(columns), rng)
    bound = LEAST_BOUND + (MOST_BOUND - LEAST_BOUND) * _spread(len(columns), rng)
    bound **= 1 / (1 + LONGER * (lengths - np.log(2)))
    groups = np.argsort(np.argsort(lengths + rng.normal(0, MIXED, len(columns)))) // GROUP
    common, traits = rng.normal(size=drawn), rng.normal(size=(int(groups.max()) + 1, drawn))
    codes: dict[str, npt.NDArray[Any]] = {}
    for place, (name, column) in enumerate(columns.items()):
        shares = _shares(column, uneven=float(uneven[place]), empty=float(empty[place]), rng=rng)
        trait = np.sqrt(1 - ALL_TOGETHER**2) * traits[groups[place]] + ALL_TOGETHER * common
        own = rng.normal(size=drawn)
        score = bound[place] * trait + np.sqrt(1 - bound[place] ** 2) * own
        ends = ndtri(np.minimum(np.cumsum(shares)[:-1], 1.0))
        codes[name] = np.searchsorted(ends, score, side="right").astype(code_type(column.size))
    if schema.rules.rules:
        codes = Repair(schema.book, variables=columns)(codes)
    return Population(schema=schema, codes=codes, rows=rows, times=rows / drawn)


def _shares(column: Column, *, uneven: float, empty: float, rng: np.random.Generator) -> Floats:
    """Return the shares of a column's codes: ordered ones rise to a peak and fall, others come in any order."""
    from scipy.special import ndtri

    size, other = column.size, column.other_code
    # A code of its own for everything else is there for safety, and hardly ever met.
    codes = np.array([code for code in range(size) if code != other or code < column.levels])
    if len(codes) > LONG:
        codes = np.sort(rng.permutation(codes)[: LONG + round((1 - empty) * (len(codes) - LONG))])
    count = len(codes)
    falling = np.sort(ndtri((np.arange(count) + 0.5) / count))[::-1]
    if column.ordered:
        far = np.abs(np.arange(count) - rng.integers(count)) + rng.uniform(0, 2, count)
        rank = np.argsort(np.argsort(far))
    else:
        rank = rng.permutation(count)
    shares = np.zeros(size)
    shares[codes] = np.exp(uneven * (falling[rank] - falling[0]))
    return np.asarray(shares / shares.sum())


def _spread(count: int, rng: np.random.Generator) -> Floats:
    """Return numbers between 0 and 1, one in each of `count` equal parts, in any order."""
    return (rng.permutation(count) + rng.uniform(size=count)) / count
