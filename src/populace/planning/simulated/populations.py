"""Populations without private rows: invented from a schema alone, or read from a table that is public.

Nobody knows what the private columns look like. What noise does to a column depends on how evenly its rows lie over its
codes, and one number summarises that: its entropy, relative to the largest. In real tables this relative entropy lies
anywhere between 0 and 1, whatever the number of codes; tables as a whole tend to the one side or to the other.
So an invented column gets a relative entropy out of 0 … 1, and is invented several times over, each time with another.
Dependence has as wide a range: a column follows a latent trait that a third of all columns share, those that are about
as even as itself; some of its rows do not, so that most cells of a pair have some.
A schema says something of this: columns that somebody described are more even than columns of which only sizes are
known, and columns that all have as many codes are one question asked over and over.
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
from populace.schema.codec.rule_repair import RuleRepair
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema

Codes = Mapping[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationConfig:
    """How populations are invented. Powers apply to numbers drawn evenly from 0 … 1."""

    max_drawn_rows: int = 2**18  # of larger populations so many rows are drawn, and each stands for several
    entropy_power: float = 0.7  # the power that gives the relative entropy of columns
    entropy_base: float = 2.5  # evenness 1 divides that power by this
    dependence_power: float = 5.0  # the power that gives how little columns follow their trait
    dependence_base: float = 1.8  # dependence 1 divides that power by this
    two_codes_power: float = 0.5
    """Columns of two codes are more even: as if the rarer code had any share up to a half."""
    traits: int = 3  # latent traits, each followed by columns that are about as even
    trait_mixing: float = 0.25  # the standard deviation of chance in which trait a column follows
    common: float = 0.6  # the correlation of all traits with what they have in common
    common_slope: float = 0.2  # dependence 1 adds this to it
    stray: float = 0.3
    """Up to so many rows of a column do not follow its trait, so most cells of most pairs have some rows."""
    usual_columns: int = 15
    wide_slope: float = 0.5
    """A schema of bare sizes is less even the more columns above the usual it has: nobody left out constant ones."""
    described: float = 0.4
    """One with ranges, values or rules is more even: somebody asked for what differs between people."""
    one_question: float = 2.5
    """Columns that all have as many codes are one question asked over and over, and depend on each other."""
    usual_alike: float = 0.2  # the part of the pairs that have as many codes on both sides in usual tables
    # Parts of square roots: steps along a circle that spread numbers evenly over it, unrelated to each other.
    steps: tuple[float, ...] = (5**0.5 / 2 - 0.5, 2**0.5 - 1, 3**0.5 - 1, 7**0.5 - 2)
    halvings: int = 30
    max_steepness: float = 64.0  # how entropies are met: by so many halvings of the steepness of shares


POPULATION = PopulationConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of invented population, and its weight among all.

    `evenness` is 0 for usual tables, 1 for even and dependent columns and -1 for the opposite; `dependence` adds to it
    for dependence alone. `rotation` turns the circle on which columns find their entropy: populations of several
    rotations show each column in several kinds.
    """

    evenness: float = 0.0
    rotation: float = 0.0
    weight: float = 1.0
    dependence: float = 0.0


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
        raise DataError("the public table has no rows.", hint="simulate with a table that has some")
    drawn = max(1, min(rows, max(there, POPULATION.max_drawn_rows)))
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
    scenario: Scenario = Scenario(),
    known_shares: Mapping[str, Floats] = MappingProxyType({}),
) -> SimulatedPopulation:
    """Return an invented population of so many rows that keeps the rules of a schema.

    `known_shares` are public shares of codes, NaN where they are not known: rules may move them a little.
    """
    from scipy.special import ndtri

    drawn = max(1, min(rows, POPULATION.max_drawn_rows))
    columns = schema.variables
    count = len(columns)
    lengths = [column.size for column in columns.values()]
    config = POPULATION
    wide = float(np.log(max(count, config.usual_columns) / config.usual_columns))
    # A schema that says nothing of its columns but how many codes each has.
    bare = all(
        column == IntegerColumn(name=name, min=0, max=column.levels - 1, other="0")
        for name, column in schema.columns.items()
    )
    even = scenario.evenness + (-config.wide_slope * wide if bare else config.described)
    dependence = scenario.dependence + (scenario.evenness + config.one_question * _equal_size_share(lengths))

    def spread(step: int, start: float) -> Floats:
        return _low_discrepancy(lengths, step=config.steps[step], start=start)

    entropy = spread(0, scenario.rotation) ** (config.entropy_power * config.entropy_base**-even)
    bound = 1 - spread(1, rng.uniform()) ** (config.dependence_power * config.dependence_base**dependence)
    stray = config.stray * spread(3, rng.uniform()) ** 2
    tails = spread(2, rng.uniform()) < 0.5
    common = min(1.0, max(0.0, config.common + config.common_slope * dependence))
    for place, (name, column) in enumerate(columns.items()):
        if name in known_shares:
            filled = fill_shares(known_shares[name], column, order=np.zeros(column.size))
            entropy[place] = entropy_bits(filled) / max(float(np.log2(column.size)), 1.0)
    groups = (
        np.argsort(np.argsort(entropy + rng.normal(0, config.trait_mixing, count))) * config.traits // count
    )
    shared, traits = rng.normal(size=drawn), rng.normal(size=(config.traits, drawn))
    codes: dict[str, npt.NDArray[Any]] = {}
    for place, (name, column) in enumerate(columns.items()):
        shares = _draw_shares(column, entropy=float(entropy[place]), tail=bool(tails[place]), rng=rng)
        if name in known_shares:
            shares = fill_shares(known_shares[name], column, order=shares)
        trait = np.sqrt(1 - common**2) * traits[groups[place]] + common * shared
        own = rng.normal(size=drawn)
        follows = np.where(rng.random(drawn) < stray[place], 0.0, bound[place])
        score = follows * trait + np.sqrt(1 - follows**2) * own
        ends = ndtri(np.minimum(np.cumsum(shares)[:-1], 1.0))
        codes[name] = np.searchsorted(ends, score, side="right").astype(np.min_scalar_type(column.size - 1))
    if schema.rules.rules:
        codes = RuleRepair(schema.rulebook, variables=columns)(codes)
    return SimulatedPopulation(schema=schema, codes=codes, rows=rows, times=rows / drawn)


def _draw_shares(column: Column, *, entropy: float, tail: bool, rng: np.random.Generator) -> Floats:
    """Return the shares of a column's codes: ordered ones rise to a peak and fall, others come in any order.

    They fall as exp(steepness · z) with the quantiles z of a normal distribution or, with a longer `tail`, a power of
    their rank; `entropy` is the part of the largest one.
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
        steps - steps[0], entropy=entropy ** (POPULATION.two_codes_power if count == 2 else 1.0)
    )[rank]
    return shares


def _shares_of_entropy(steps: Floats, *, entropy: float) -> Floats:
    """Return falling shares that have a part of the largest entropy.

    >>> _shares_of_entropy(np.array([0.0, -1.0]), entropy=1.0).round(3).tolist()
    [0.5, 0.5]
    """
    low, high = 0.0, POPULATION.max_steepness
    for _ in range(POPULATION.halvings):
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
    return max(0.0, same - POPULATION.usual_alike) / (1 - POPULATION.usual_alike)


def _low_discrepancy(lengths: Sequence[int], *, step: float, start: float) -> Floats:
    """Return a number between 0 and 1 for each column: evenly spread over all, and over those of about one length.

    >>> _low_discrepancy([2, 2, 90, 90], step=0.6, start=0.0).round(2).tolist()
    [0.5, 0.1, 0.7, 0.3]
    """
    ranks = np.argsort(np.argsort(lengths, kind="stable"), kind="stable")
    return np.asarray((0.5 + step * ranks + start) % 1)
