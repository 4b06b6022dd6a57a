"""Rows on which claims are decided, and the moments that their statistics follow from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.array_types import Floats, Truth
from populace.schema.codec.numeric_values import NumericValues, numeric_column_names
from populace.schema.codec.table_codec import TableCodec
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema
from populace.survey.claims.claim_syntax import (
    Assertion,
    Combination,
    Inequality,
    Quantity,
    Rank,
    Statistic,
    Variable,
)
from populace.survey.claims.claims import Claim, list_known_columns

# Of the covariances of what explains an outcome: beyond, floats tell no coefficient.
MAX_CONDITION_NUMBER = 1e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ClaimRows:
    """Rows in codes and in numbers, NaN where a row has none; each stands for `people` units."""

    schema: Schema
    codes: Mapping[str, npt.NDArray[Any]]
    numbers: Mapping[str, Floats]
    people: float = 1.0

    @classmethod
    def of(cls, table: pa.Table, *, schema: Schema, people: float = 1.0) -> ClaimRows:
        """Return the rows of a table that everybody may see, such as a synthetic one."""
        codec = TableCodec(schema)
        codes = codec.encode({name: table[name] for name in codec.input_columns})
        numbers = {
            name: NumericValues(name, schema=schema)(table[name], codes=codes)
            for name in numeric_column_names(schema)
        }
        return cls(schema=schema, codes=codes, numbers=numbers, people=people)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(next(iter(self.codes.values())))

    def holds(self, where: str | None) -> Truth:
        """Say which rows meet a condition: all of them where there is none."""
        if where is None:
            return np.ones(self.size, dtype=np.bool_)
        condition = self.schema.layout.condition(parse_condition(where), place="claim")
        return np.broadcast_to(condition(self.codes), (self.size,))

    def knows(self, column: str) -> Truth:
        """Say which rows have a value of a column."""
        if column in self.numbers:
            return np.asarray(~np.isnan(self.numbers[column]))
        view = self.schema.layout.view(column)
        own = view.codes[tuple(self.codes[name] for name in view.variables)]
        return np.asarray(own < view.scale.levels)

    def values(self, variable: Variable) -> Floats:
        """Return the numbers of a variable."""
        if variable.column is not None:
            return self.numbers[variable.column]
        return self.holds(variable.that).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """How many units count for a quantity, and the means and covariances of its variables among them."""

    count: float
    means: tuple[float, ...] = ()
    covariance: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, quantity: Quantity, rows: ClaimRows) -> Moments:
        """Return the moments of a quantity among rows; means are NaN where no row counts."""
        values = select_values(quantity, rows)
        count, size = values.shape[1], len(quantity.variables)
        if not count:
            return cls(count=0.0, means=(np.nan,) * size, covariance=((np.nan,) * size,) * size)
        means = values.mean(axis=1)
        moved = values - means[:, None]
        return cls(
            count=count * rows.people,
            means=tuple(means.tolist()),
            covariance=tuple(map(tuple, (moved @ moved.T / count).tolist())),
        )

    def shorten(self) -> Moments:
        """Return the same moments to nine digits: all that a plan needs, on any machine."""
        return Moments(
            count=_shorten(self.count),
            means=tuple(map(_shorten, self.means)),
            covariance=tuple(tuple(map(_shorten, row)) for row in self.covariance),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the moments as plain JSON: nothing stands for a mean of no rows."""
        return {
            "count": self.count,
            "means": [None if np.isnan(mean) else mean for mean in self.means],
            "covariance": [[None if np.isnan(each) else each for each in row] for row in self.covariance],
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Moments:
        """Return what `to_json` wrote."""
        return cls(
            count=_parse_float(saved["count"]),
            means=tuple(map(_parse_float, saved["means"])),
            covariance=tuple(tuple(map(_parse_float, row)) for row in saved["covariance"]),
        )

    @classmethod
    def from_totals(
        cls, totals: Sequence[float], *, centres: Sequence[float], products: Sequence[tuple[int, int]]
    ) -> Moments:
        """Return the moments behind sums over rows: of 1, of x − centre, and of products of two of these.

        Covariances whose products are not among the sums are not known: NaN.

        >>> Moments.from_totals([4.0, 8.0, 20.0], centres=[10.0], products=[(0, 0)])
        Moments(count=4.0, means=(12.0,), covariance=((1.0,),))
        """
        count, size = totals[0], len(centres)
        moved = np.array(totals[1 : 1 + size]) / count
        second = np.full((size, size), np.nan)
        for (i, j), total in zip(products, totals[1 + size :], strict=True):
            second[i, j] = second[j, i] = total / count - moved[i] * moved[j]
        return cls(
            count=float(count),
            means=tuple((np.array(centres) + moved).tolist()),
            covariance=tuple(map(tuple, second.tolist())),
        )

    def totals(self, *, centres: Sequence[float], products: Sequence[tuple[int, int]]) -> list[float]:
        """Return the sums that these moments come from: what `from_totals` takes."""
        moved = [mean - centre for mean, centre in zip(self.means, centres, strict=True)]
        second = [self.covariance[i][j] + moved[i] * moved[j] for i, j in products]
        return [self.count, *(self.count * each for each in (*moved, *second))]

    def value(self, statistic: Statistic) -> float:
        """Return a statistic; NaN where it has none.

        >>> Moments(count=9.0, means=(1.0, 2.0), covariance=((4.0, 1.0), (1.0, 1.0))).value(Statistic.CORRELATION)
        0.5
        """
        if statistic is Statistic.COUNT:
            return self.count
        if statistic is Statistic.TOTAL:
            return self.count * self.means[0] if self.count else 0.0
        if statistic.averaged:
            return self.means[0]
        spread = np.array(self.covariance)
        first = 1 if statistic is Statistic.COEFFICIENT else 0
        if not np.isfinite(spread[:, first:]).all() or not (np.diag(spread)[first:] > 0).all():
            return np.nan
        if statistic is Statistic.CORRELATION:
            return float(spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]))
        # One that follows from the others leaves no coefficient.
        if np.linalg.cond(spread[1:, 1:]) > MAX_CONDITION_NUMBER:
            return np.nan
        return float(np.linalg.solve(spread[1:, 1:], spread[1:, 0])[0])


def select_values(quantity: Quantity, rows: ClaimRows) -> Floats:
    """Return the numbers of the variables (variables × rows) of all rows that count."""
    counts = rows.holds(quantity.where)
    for name in list_known_columns(quantity):
        counts = counts & rows.knows(name)
    found = np.array([rows.values(variable)[counts] for variable in quantity.variables], dtype=np.float64)
    return found.reshape(len(quantity.variables), int(counts.sum()))


def evaluate_quantity(quantity: Quantity, rows: ClaimRows) -> float:
    """Return a statistic of rows; NaN where no row counts."""
    if quantity.statistic.bounded:
        return Moments.of(quantity, rows).value(quantity.statistic)
    values = select_values(quantity, rows)[0]
    if not len(values):
        return np.nan
    place = {Statistic.MEDIAN: 0.5, Statistic.MINIMUM: 0.0, Statistic.MAXIMUM: 1.0}
    return float(np.quantile(values, place[quantity.statistic]))


def evaluate_combination(combination: Combination, rows: ClaimRows) -> float:
    """Return a weighted sum of statistics of rows; NaN where one has none."""
    parts = (float(weight) * evaluate_quantity(each, rows) for weight, each in combination.terms)
    return float(sum(parts, start=float(combination.constant)))


def count_values(rank: Rank, rows: ClaimRows) -> npt.NDArray[np.int64]:
    """Return how often each value of a ranked column occurs among the rows that count."""
    scale = rows.schema.layout.view(rank.column).scale
    codes = rows.codes[rank.column][rows.holds(rank.where) & rows.knows(rank.column)]
    return np.bincount(codes, minlength=scale.levels)[: scale.levels]


def decide(says: Assertion, rows: ClaimRows) -> bool | None:
    """Say whether an inequality or a rank holds among rows; None where it has no answer there."""
    if isinstance(says, Rank):
        counts = count_values(says, rows)
        code = rows.schema.layout.view(says.column).scale.code(says.value)
        others = np.delete(counts, code or 0)
        own = counts[code or 0]
        if not counts.any():
            return None
        return bool(own > others.max() if says.largest else own < others.min())
    if isinstance(says, Inequality):
        excess = evaluate_combination(says.excess, rows)
        strict = says.operator.value in ("<", ">")
        return None if np.isnan(excess) else bool(excess > 0 or (excess == 0 and not strict))
    raise TypeError("an estimate is true or false only within a distance")


def decide_claim(claim: Claim, rows: ClaimRows, *, estimate: float | None = None) -> bool | None:
    """Say whether a claim holds among rows; `estimate` is what they are compared with where the claim names none."""
    if not isinstance(claim.says, Combination) or claim.within is None:
        return decide(claim.says, rows)
    near = float(claim.value) if claim.value is not None else estimate
    found = evaluate_combination(claim.says, rows)
    if near is None or np.isnan(near) or np.isnan(found):
        return None
    allowed = float(claim.within.size) * (abs(near) if claim.within.relative else 1.0)
    return bool(abs(found - near) <= allowed)


def _shorten(value: float) -> float:
    return float(f"{value:.9g}")


def _parse_float(value: object) -> float:
    if value is None:
        return np.nan
    if not isinstance(value, int | float) or isinstance(value, bool) or not np.isfinite(value):
        raise ValueError("not a number")
    return float(value)
