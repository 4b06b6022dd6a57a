"""Populations without private rows: invented from a schema alone, or read from a table that is public.

Nobody knows what the private columns look like. What noise does to a column depends on how evenly its rows lie over its
codes, and that is told by one number: the part of the largest entropy that the column has. In real tables this part
lies anywhere between 0 and 1, whatever the number of codes; tables as a whole lean to the one side or to the other.
So an invented column takes a part of entropy out of 0 … 1, and is invented several times over, each time with another.
How closely two columns go together has as wide a range: a column follows a trait that a third of all columns share,
those that are about as even as itself; some of its rows do not, so that most cells of a pair have some.
A schema says something of this: columns that somebody described are more even than columns of which only sizes are
told, and columns that all have as many codes are one question asked over and over.
Read off the columns of real tables, not off errors: docs/decisions/plan.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import DataError
from populace.core.marginals import Counts, Marginal, tabulate
from populace.planning.simulated.column_shares import entropy_bits, fill_shares
from populace.private.read.rows_to_codes import check_header, open_source, read_codes
from populace.schema.codec.encoder import code_dtype
from populace.schema.codec.rule_repair import RuleRepair
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema

Codes = Mapping[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]

# Of larger populations so many rows are drawn, and each stands for several.
MAX_DRAWN_ROWS = 2**18
# The part of the largest entropy that columns have, and how closely they follow their trait: evenly drawn numbers to
# these powers. Where a table leans by 1 to the side of even and closely tied columns, the powers are so much smaller.
ENTROPY, TIES, ENTROPY_LEANS, TIES_LEAN = 0.7, 5.0, 2.5, 1.8
# Columns of two codes are more even: as if the rarer code had any share up to a half.
TWO_CODES = 0.5
# Groups of columns that share a trait, by how even they are and so much of chance; how much all traits have in common.
GROUPS, MIXED, COMMON, COMMON_LEANS = 3, 0.25, 0.6, 0.2
# However closely a column follows its trait, up to so many rows do not: answers by mistake, or for their own reasons.
# So most cells of most pairs have some rows.
STRAY = 0.3
# A schema that tells sizes and nothing else leans to the other side the more columns it has: nobody has looked which of
# them say the same of everybody.
USUAL, WIDE = 15, 0.5
# One that tells more, a range, values or rules, comes from somebody who asked for what differs between people.
DESCRIBED = 0.4
# Columns that all have as many codes are one question asked over and over, and go together. Of usual tables not more
# than this part of the pairs have as many codes on both sides.
ONE_QUESTION, PARTLY = 2.5, 0.2
# Steps along a circle that spread numbers evenly over it, and have nothing to do with each other: parts of roots.
STEPS = (5**0.5 / 2 - 0.5, 2**0.5 - 1, 3**0.5 - 1, 7**0.5 - 2)
# Entropies are met to this part of the steepness that leads to them.
_HALVINGS, _STEEPEST = 30, 64.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedPopulation:
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


def read_public_population(
    data: Any, *, schema: Schema, rows: int, rng: np.random.Generator
) -> SimulatedPopulation:
    """Return a table that its owner declares public, some of its rows left out or repeated to make so many."""
    source = open_source(data)
    check_header(source, schema)
    codes = read_codes(source, schema)
    there = len(next(iter(codes.values())))
    if not there:
        raise DataError("the public table has no rows.", hint="rehearse with a table that has some")
    drawn = max(1, min(rows, max(there, MAX_DRAWN_ROWS)))
    if drawn != there:
        whole, more = divmod(drawn, there)
        chosen = np.concatenate([np.tile(np.arange(there), whole), rng.permutation(there)[:more]])
        codes = {name: column[chosen] for name, column in codes.items()}
    return SimulatedPopulation(schema=schema, codes=codes, rows=rows, times=rows / drawn, read=there)


def invent_population(
    schema: Schema,
    *,
    rows: int,
    rng: np.random.Generator,
    lean: float = 0.0,
    turn: float = 0.0,
    tied: float = 0.0,
    known: Mapping[str, Floats] = MappingProxyType({}),
) -> SimulatedPopulation:
    """Return an invented population of so many rows that keeps the rules of a schema.

    `lean` is 0 for usual tables, 1 for tables of even columns that go together and -1 for tables of the opposite kind.
    `turn` turns the circle on which columns find how even they are: populations of several turns show each column in
    several kinds. `tied` is as `lean`, for how closely columns go together alone. `known` are public shares of codes,
    NaN where nobody tells: rules may move them a little.
    """
    from scipy.special import ndtri

    drawn = max(1, min(rows, MAX_DRAWN_ROWS))
    columns = schema.variables
    count = len(columns)
    lengths = [column.size for column in columns.values()]
    even = lean + (-WIDE * float(np.log(max(count, USUAL) / USUAL)) if has_only_sizes(schema) else DESCRIBED)
    tied += lean + ONE_QUESTION * _equal_size_share(lengths)
    entropy = _low_discrepancy(lengths, step=STEPS[0], start=turn) ** (ENTROPY * ENTROPY_LEANS**-even)
    bound = 1 - _low_discrepancy(lengths, step=STEPS[1], start=rng.uniform()) ** (TIES * TIES_LEAN**tied)
    stray = STRAY * _low_discrepancy(lengths, step=STEPS[3], start=rng.uniform()) ** 2
    tails = _low_discrepancy(lengths, step=STEPS[2], start=rng.uniform()) < 0.5
    common = min(1.0, max(0.0, COMMON + COMMON_LEANS * tied))
    for place, (name, column) in enumerate(columns.items()):
        if name in known:
            told = fill_shares(known[name], column, order=np.zeros(column.size))
            entropy[place] = entropy_bits(told) / max(float(np.log2(column.size)), 1.0)
    groups = np.argsort(np.argsort(entropy + rng.normal(0, MIXED, count))) * GROUPS // count
    shared, traits = rng.normal(size=drawn), rng.normal(size=(GROUPS, drawn))
    codes: dict[str, npt.NDArray[Any]] = {}
    for place, (name, column) in enumerate(columns.items()):
        shares = _draw_shares(column, entropy=float(entropy[place]), tail=bool(tails[place]), rng=rng)
        if name in known:
            shares = fill_shares(known[name], column, order=shares)
        trait = np.sqrt(1 - common**2) * traits[groups[place]] + common * shared
        own = rng.normal(size=drawn)
        follows = np.where(rng.random(drawn) < stray[place], 0.0, bound[place])
        score = follows * trait + np.sqrt(1 - follows**2) * own
        ends = ndtri(np.minimum(np.cumsum(shares)[:-1], 1.0))
        codes[name] = np.searchsorted(ends, score, side="right").astype(code_dtype(column.size))
    if schema.rules.rules:
        codes = RuleRepair(schema.rulebook, variables=columns)(codes)
    return SimulatedPopulation(schema=schema, codes=codes, rows=rows, times=rows / drawn)


def has_only_sizes(schema: Schema) -> bool:
    """Say whether a schema tells nothing of its columns but how many codes each has."""
    return all(
        column == IntegerColumn(name=name, min=0, max=column.levels - 1, other="0")
        for name, column in schema.columns.items()
    )


def _draw_shares(column: Column, *, entropy: float, tail: bool, rng: np.random.Generator) -> Floats:
    """Return the shares of a column's codes: ordered ones rise to a peak and fall, others come in any order.

    They fall as exp(steepness · z) with the quantiles z of a normal law or, with a longer `tail`, with a power of their
    rank; `entropy` is the part of the largest one.
    """
    from scipy.special import ndtri

    size, other = column.size, column.other_code
    # A code of its own for everything else is there for safety, and hardly ever met.
    codes = np.array([code for code in range(size) if code != other or code < column.levels])
    count = len(codes)
    ranks = np.arange(count)
    steps = -np.log1p(ranks) if tail else ndtri((count - ranks - 0.5) / count)
    if column.ordered:
        far = np.abs(ranks - rng.integers(count)) + rng.uniform(0, 2, count)
        rank = np.argsort(np.argsort(far))
    else:
        rank = rng.permutation(count)
    shares = np.zeros(size)
    shares[codes] = _shares_of_entropy(
        steps - steps[0], entropy=entropy ** (TWO_CODES if count == 2 else 1.0)
    )[rank]
    return shares


def _shares_of_entropy(steps: Floats, *, entropy: float) -> Floats:
    """Return falling shares that have a part of the largest entropy.

    >>> _shares_of_entropy(np.array([0.0, -1.0]), entropy=1.0).round(3).tolist()
    [0.5, 0.5]
    """
    low, high = 0.0, _STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shares = np.exp(middle * steps)
        shares /= shares.sum()
        low, high = (middle, high) if entropy_bits(shares) > entropy * np.log2(len(steps)) else (low, middle)
    shares = np.exp(low * steps)
    return np.asarray(shares / shares.sum())


def _equal_size_share(lengths: Sequence[int]) -> float:
    """Return 1 where all columns have as many codes, and 0 where no more of them have than in usual tables.

    >>> _equal_size_share([2, 2, 2, 2]), _equal_size_share([2, 3, 4, 5])
    (1.0, 0.0)
    """
    _, counts = np.unique(lengths, return_counts=True)
    pairs = len(lengths) * (len(lengths) - 1)
    same = float((counts * (counts - 1)).sum()) / pairs if pairs else 0.0
    return max(0.0, same - PARTLY) / (1 - PARTLY)


def _low_discrepancy(lengths: Sequence[int], *, step: float, start: float) -> Floats:
    """Return a number between 0 and 1 for each column: evenly spread over all, and over those of about one length.

    >>> _low_discrepancy([2, 2, 90, 90], step=0.6, start=0.0).round(2).tolist()
    [0.5, 0.1, 0.7, 0.3]
    """
    ranks = np.argsort(np.argsort(lengths, kind="stable"), kind="stable")
    return np.asarray((0.5 + step * ranks + start) % 1)
