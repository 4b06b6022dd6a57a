"""The questions behind queries, and what each may cost: fixed in advance, from public facts alone.

A query needs sums over rows: of weights, and of weights times products of numbers. They are asked twice. Once for all
rows (or by stratum, where base weights differ or rows are drawn directly): these give the estimate. Once more, for a
smaller part of the budget, by psu and as squares, or as squares by stratum where rows are drawn directly: these show
how much another sample would differ. A sum that several queries need is asked once, for the shares of all of them.
Quantiles of clustered samples are asked about by psu later, once it is known where they lie: what that may cost is
fixed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations_with_replacement

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.privacy.accounting.budget import Budget
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.schema import Schema
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design
from populace.survey.queries.cells import Axis, DesignUnits
from populace.survey.queries.queries import Queries, Query, Statistic
from populace.survey.sums import CellWeights, Sum, SumFactor
from populace.survey.survey_oracle import SumBatch
from populace.survey.variance import statistics_of_totals as functions
from populace.survey.variance.quantiles import QuantileBins
from populace.survey.variance.statistics_of_totals import ValueAndGradient

# Of a query's budget, the part that shows how units differ, of which rows beside them may take some, and how rows do
# where they are drawn.
UNITS_SHARE = Fraction(1, 2)
ROWS_BESIDE_UNITS_SHARE = Fraction(3, 20)
ROWS_SHARE = Fraction(1, 4)
# The number of rows is needed to two digits, sums to more.
ROW_COUNT_PART = Fraction(1, 8)
# Parts of the bin that holds a quantile are rounded to so many steps: two machines then ask the same.
BIN_PARTS = 64
# Squares of statistics with more terms than these are too many to be worth their noise beside psus.
MAX_SQUARED_TERMS = 2

Pair = tuple[int, int]
Statistics = Callable[[Floats], ValueAndGradient]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumTerm:
    """A number that is added up over rows beside the weight, where a condition holds, and its part of the budget."""

    factors: tuple[SumFactor, ...] = ()
    where: str | None = None
    part: Fraction = Fraction(1)

    def times(self, other: SumTerm) -> SumTerm:
        """Return the product of two terms."""
        factors = tuple(sorted((*self.factors, *other.factors), key=lambda factor: factor.column))
        return SumTerm(factors=factors, where=self.where or other.where, part=max(self.part, other.part))


@dataclass(frozen=True, kw_only=True, eq=False)
class SumQuestion:
    """A query as sums: its terms, by groups, and how the totals of the terms become the statistic.

    With `values`, the one term is told apart by the values of a column, and each value is a total of its own.
    """

    query: Query
    design: Design
    by: tuple[Axis, ...]
    values: Axis | None
    terms: tuple[SumTerm, ...]
    statistic: Statistics

    @property
    def weighted(self) -> bool:
        """Whether it is about the population, so that another sample would give another number."""
        return self.query.statistic is not Statistic.FREQUENCY

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the cells of its sums are told apart by, beside units of the design."""
        return self.by if self.values is None else (*self.by, self.values)

    @cached_property
    def cells(self) -> DesignUnits:
        """The units by which the estimate is asked for."""
        if not self.weighted or self._unit_weights(1) is not None:
            return DesignUnits.all_rows()
        return DesignUnits.whole(self.design) if self.design.clustered else DesignUnits.strata(self.design)

    @cached_property
    def sums(self) -> tuple[Sum, ...]:
        """The sums that give the estimate, one for each term."""
        return tuple(self._sum(term, self.cells) for term in self.terms)

    @cached_property
    def psus(self) -> DesignUnits:
        """The psus by which the sampling error is asked for."""
        return DesignUnits.psus(self.design)

    @cached_property
    def psu_sums(self) -> tuple[Sum, ...]:
        """The same sums by psu."""
        return tuple(self._sum(term, self.psus) for term in self.terms)

    @cached_property
    def psu_rows(self) -> Sum:
        """The sum of all rows by psu and group, whatever their value."""
        return self._sum(SumTerm(), self.psus, axes=self.by)

    @property
    def asked_twice(self) -> bool:
        """Whether psus are asked about once it is known where quantiles lie: `sums_below_quantiles`."""
        clustered = self.design.clustered and self.design.replicates is None
        return clustered and self.query.statistic is Statistic.QUANTILE

    @cached_property
    def products(self) -> Mapping[Pair, Sum]:
        """The sums of squares and products of two terms, by stratum; of values only the squares are not 0."""
        pairs = combinations_with_replacement(range(len(self.terms)), 2)
        return {
            (one, other): self._sum(self.terms[one].times(self.terms[other]), self.cells, power=2)
            for one, other in pairs
        }

    @cached_property
    def replicate_sums(self) -> tuple[tuple[Sum, ...], ...]:
        """The sums with each replicate weight in the place of the weight."""
        replicates, whole = self.design.replicates, DesignUnits.whole(self.design)
        found = []
        for name in () if replicates is None else replicates.columns:
            high = columns.span(self.design.schema, name, place="[design] replicates")[1]
            weight = SumFactor(column=name, low=Fraction(0), high=high)
            found.append(tuple(self._sum(term, whole, weight=weight) for term in self.terms))
        return tuple(found)

    @cached_property
    def rows(self) -> Sum:
        """The number of rows, by stratum where the estimate is asked so."""
        by = self.cells.by(())
        known = tuple(sorted(set(self.design.cells) - set(by.clique)))
        return Sum(by=by, known=known, weights=self._unit_weights(0), positive=self.design.weight_columns)

    @cached_property
    def possible(self) -> Truth:
        """Which groups rows that meet the condition can be in; all where that is too much to try out."""
        shape = tuple(axis.levels for axis in self.by)
        if self.query.where is None:
            return np.ones(shape, dtype=np.bool_)
        schema = self.design.schema
        condition = schema.layout.condition(parse_condition(self.query.where), place=self.query.place)
        names = [axis.column for axis in self.by]
        others = [name for name in condition.variables if name not in names]
        sizes = (*shape, *(schema.domain[name] for name in others))
        if math.prod(sizes) > LIMITS.max_query_sum_cells:
            return np.ones(shape, dtype=np.bool_)
        grid = np.meshgrid(*map(np.arange, sizes), indexing="ij", sparse=True)
        holds = np.broadcast_to(condition(dict(zip([*names, *others], grid, strict=True))), sizes)
        return np.asarray(holds.any(axis=tuple(range(len(shape), len(sizes)))))

    @property
    def squared(self) -> bool:
        """Whether squares are asked for: where rows are drawn directly, and beside units for a declared effect."""
        by_units = self.design.clustered or self.design.replicates is not None
        bounded = self.design.max_design_effect is not None and len(self.terms) <= MAX_SQUARED_TERMS
        return self.weighted and (bounded or not by_units)

    def shares(self) -> Iterator[tuple[Sum, Fraction]]:
        """Yield each sum with the part of the query's own budget that it takes."""
        parts, none = [term.part for term in self.terms], Fraction(0)
        units: list[tuple[Sum, Fraction]] = []
        rows: list[tuple[Sum, Fraction]] = []
        if self.weighted and self.design.replicates is not None:
            units = [each for sums in self.replicate_sums for each in zip(sums, parts, strict=True)]
        elif self.weighted and self.design.clustered and not self.asked_twice:
            units = list(zip(self.psu_sums, parts, strict=True))
        if self.squared:
            squares = {asked: Fraction(1) for asked in self.products.values() if asked not in self.sums}
            rows = [*squares.items(), (self.rows, ROW_COUNT_PART)]
        of_rows = (ROWS_BESIDE_UNITS_SHARE if units or self.asked_twice else ROWS_SHARE) if rows else none
        of_units = UNITS_SHARE - of_rows if units else none
        own = list(zip(self.sums, parts, strict=True))
        yield from _divide_share(own, of=1 - of_units - of_rows - self.second_share)
        yield from _divide_share(units, of=of_units)
        yield from _divide_share(rows, of=of_rows)

    @property
    def second_share(self) -> Fraction:
        """The part of the query's own budget for what is asked once quantiles are located."""
        if not self.asked_twice:
            return Fraction(0)
        return UNITS_SHARE - (ROWS_BESIDE_UNITS_SHARE if self.squared else 0)

    def sums_below_quantiles(self, totals: Floats) -> tuple[Sum, ...]:
        """Return, by psu and group, the sum of all rows, and for each share that of rows below its quantile.

        By bin, a psu's rows are below with the noise of all bins. Below a value that is known by then, they are one
        number. `totals` are noisy counts of the sample, groups × bins.
        """
        schema, bins = self.design.schema, QuantileBins.of(self.query, self.design.schema)
        by, levels = DesignUnits.all_rows().by(self.axes), tuple(axis.levels for axis in self.axes)
        found = [self.psu_rows]
        for share in self.query.p:
            parts = np.array([_parts_below(bins, counts, float(share)) for counts in totals])
            values = np.zeros(by.shape(schema.domain), dtype=np.int64)
            values[tuple(map(slice, levels))] = parts.reshape(levels)
            weights = CellWeights(
                by=by, values=tuple(Fraction(each, BIN_PARTS) for each in values.ravel().tolist())
            )
            found.append(replace(self.psu_rows, weights=weights))
        return tuple(found)

    def _sum(
        self,
        term: SumTerm,
        cells: DesignUnits,
        *,
        power: int = 1,
        weight: SumFactor | None = None,
        axes: tuple[Axis, ...] | None = None,
    ) -> Sum:
        own = weight or self.design.weight
        factors = (*(() if own is None or not self.weighted else (own,) * power), *term.factors)
        held = {factor.column for factor in factors}
        known = {*self.query.known, *self.design.cells} - held
        by = cells.by(self.axes if axes is None else axes)
        where = self.query.where or term.where
        if self.query.where and term.where:
            where = f"({self.query.where}) and ({term.where})"
        return Sum(
            by=by,
            where=where,
            factors=factors,
            # Cells of special codes are left out anyway.
            known=tuple(sorted(known - set(by.clique))),
            # A weight of 0 or less is held to 0 where it is a factor.
            positive=tuple(name for name in self.design.weight_columns if name not in held),
            weights=None
            if cells.columns == self.design.cells
            else self._unit_weights(power if self.weighted else 0),
        )

    def _unit_weights(self, power: int) -> CellWeights | None:
        """Return what rows of each stratum and psu count for, where not all alike: 0 where they are not listed."""
        design = self.design
        if not design.clustered:
            return None
        psus, sizes = DesignUnits.psus(design), tuple(design.schema.domain[name] for name in design.cells)
        listed = len(psus.weights) == math.prod(
            columns.scale(design.schema, name, place="[design]").levels for name in design.cells
        )
        if listed and len(set(design.stratum_base)) == 1:
            return None
        if math.prod(sizes) > LIMITS.max_design_cells:
            raise SchemaError(
                f"the design has {math.prod(sizes)} pairs of strata and psus; {LIMITS.max_design_cells} is the most.",
                hint="number psus within strata, 1, 2, 3 and so on",
            )
        values = np.full(sizes, Fraction(0), dtype=object)
        for *code, stratum in zip(*psus.codes, design.stratum, strict=True):
            values[tuple(code)] = design.stratum_base[stratum] ** power
        return CellWeights(by=Marginal(design.cells), values=tuple(values.ravel().tolist()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumPlan:
    """All questions of some queries, and the share of the budget that each distinct sum takes.

    `second_shares` has the share of what each question asks about quantiles once they are located.
    """

    questions: tuple[SumQuestion, ...]
    shares: Mapping[Sum, Fraction]
    second_shares: tuple[Fraction, ...] = ()

    @classmethod
    def of(cls, design: Design, queries: Queries, *, share: Fraction = Fraction(1)) -> SumPlan:
        """Return the plan of queries that are answered by sums, within a share of a budget."""
        questions = tuple(make_sum_question(query, design) for query in queries)
        shares: dict[Sum, Fraction] = {}
        for asked, part in zip(questions, queries.shares, strict=True):
            for each, own in asked.shares():
                shares[each] = shares.get(each, Fraction(0)) + share * part * own
        for each in shares:
            if (cells := math.prod(each.by.shape(design.schema.domain))) > LIMITS.max_query_sum_cells:
                raise SchemaError(
                    f"the {each} has {cells} cells; {LIMITS.max_query_sum_cells} is the most.",
                    hint="ask for fewer groups, or for columns with fewer values",
                )
        second_shares = tuple(
            share * part * asked.second_share for asked, part in zip(questions, queries.shares, strict=True)
        )
        return cls(questions=questions, shares=shares, second_shares=second_shares)

    def batches(self, budget: Budget) -> list[SumBatch]:
        """Return the sums with the noise that their shares pay for, those of equal shares together."""
        alike: dict[Fraction, list[Sum]] = {}
        for asked, share in self.shares.items():
            alike.setdefault(share, []).append(asked)
        return [(sums, budget.sum_noise(share * len(sums), sums=len(sums))) for share, sums in alike.items()]


def make_sum_question(query: Query, design: Design) -> SumQuestion:
    """Return a query as sums."""
    by = tuple(Axis.of(design.schema, name, place=query.place) for name in query.by)
    values = None
    if query.values:
        values = Axis.of(design.schema, query.column or "", place=query.place)
    elif query.statistic is Statistic.QUANTILE:
        values = QuantileBins.of(query, design.schema).axis
    if values is not None and values.column in (*query.by, *design.cells):
        raise SchemaError(
            f"{query.place}: rows are grouped by {values.column!r} twice.",
            hint="ask for groups by other columns than the one whose values are asked for, strata and psus included",
        )
    terms, statistic = _make_terms(query, design.schema)
    return SumQuestion(query=query, design=design, by=by, values=values, terms=terms, statistic=statistic)


def _make_terms(query: Query, schema: Schema) -> tuple[tuple[SumTerm, ...], Statistics]:
    """Return what is added up for a statistic, and what becomes of it."""
    kind, double = query.statistic, Fraction(2)
    if kind is Statistic.PROPORTION and query.that is not None:
        return (SumTerm(where=query.that, part=double), SumTerm()), functions.ratios
    if not query.numbers or kind is Statistic.QUANTILE:
        return (SumTerm(),), functions.shares if query.values else functions.totals
    # Less the middle of their range, numbers have the least noise.
    centred = kind not in (Statistic.RATIO, Statistic.TOTAL)
    numbers = []
    for column in query.numbers:
        low, high = query.span(column, schema)
        centre = (low + high) / 2 if centred else Fraction(0)
        numbers.append(SumFactor(column=column, low=low, high=high, centre=centre))
    if not centred:
        terms = tuple(SumTerm(factors=(each,)) for each in numbers)
        return terms, functions.ratios if kind is Statistic.RATIO else functions.totals
    if kind is Statistic.CORRELATION:
        # In the order of columns, as products are: so one sum of two columns has one name.
        one, other = sorted(numbers, key=lambda factor: factor.column)
        first = [SumTerm(), SumTerm(factors=(one,)), SumTerm(factors=(other,))]
        second = [SumTerm(factors=pair, part=double) for pair in ((one, one), (one, other), (other, other))]
        return (*first, *second), functions.correlations
    (x,) = numbers
    moments = (SumTerm(), SumTerm(factors=(x,), part=double))
    if kind is Statistic.VARIANCE:
        return (*moments, SumTerm(factors=(x, x), part=double)), functions.variances
    return moments, partial(functions.means, centre=float(x.centre))


def _parts_below(bins: QuantileBins, counts: Floats, share: float) -> Floats:
    """Return how many of its parts each bin has below a quantile; the lower half where noise leaves no rows.

    >>> _parts_below(QuantileBins(axis=Axis(column="A", levels=2), edges=(0.0, 1.0, 3.0)), np.array([1.0, 1.0]), 0.75)
    array([64., 32.])
    """
    size = len(counts)
    known = counts.sum() > 0
    parts = bins.below(counts, share) if known else (np.arange(size) < size / 2).astype(np.float64)
    below: Floats = np.rint(parts * BIN_PARTS)
    # Something lies below every quantile.
    below[0] = max(below[0], 1.0)
    return below


def _divide_share(parts: Sequence[tuple[Sum, Fraction]], *, of: Fraction) -> Iterator[tuple[Sum, Fraction]]:
    whole = sum((part for _, part in parts), Fraction(0))
    return ((asked, of * part / whole) for asked, part in parts)
