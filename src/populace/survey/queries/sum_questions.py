"""The questions behind queries, and what each may cost: fixed in advance, from public facts alone.

A query is one sum over rows, of weights that are shared out over cells: values, bins, or where a number lies in its
range. It is asked twice. Once for all rows (or by stratum, where base weights differ or rows are drawn directly): this
gives the estimate. Once more, for a smaller part of the budget, by psu, or as squares by
stratum where rows are drawn directly: this shows how much another sample would differ. A sum that several queries need
is asked once, for the shares of all of them. Quantiles of clustered samples are asked about by psu later, once it is
known where they lie: what that may cost is fixed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from populace.core.array_types import Floats, Truth
from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal
from populace.schema.conditions.condition_parser import parse_condition
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design
from populace.survey.queries.cells import Axis, DesignUnits
from populace.survey.queries.queries import Query, Statistic
from populace.survey.queries.variance_share import UNITS_SHARES
from populace.survey.sums import (
    CellWeights,
    HotDeck,
    Indicator,
    MomentSplit,
    Sum,
    SumFactor,
    multiply_weights,
)
from populace.survey.variance.quantiles import QuantileBins
from populace.survey.variance.statistics_of_totals import ValueAndGradient

# Of a query's budget, the part that shows how rows differ, where they are drawn and beside units.
ROWS_SHARE = Fraction(1, 4)
ROWS_BESIDE_UNITS_SHARE = Fraction(1, 8)
# The part for the sums of weights and of their squares, which all queries share.
WEIGHTS_SHARE = Fraction(1, 32)
# The number of rows is needed to two digits, sums to more.
ROW_COUNT_PART = Fraction(1, 8)
# Parts of the bin that holds a quantile are rounded to so many steps: two machines then ask the same.
BIN_PARTS = 64

# Statistics whose score is linear in the number of a row.
LINEAR = (Statistic.MEAN, Statistic.TOTAL)

Statistics = Callable[[Floats], ValueAndGradient]


@dataclass(frozen=True, kw_only=True, eq=False)
class SumQuestion:
    """A query as one sum: the cells that rows are shared out over, by groups, and how these become the statistic.

    Cells are the values or bins of a column (`values`), or those of `splits`, or a single one. `units_share` is what
    part of its budget shows how units of the design differ.
    """

    query: Query
    design: Design
    by: tuple[Axis, ...]
    values: Axis | None
    splits: tuple[MomentSplit, ...]
    factors: tuple[SumFactor, ...]
    statistic: Statistics
    units_share: Fraction = UNITS_SHARES[-2]
    adjusted: CellWeights | None = None
    """By what weights are multiplied in cells of other columns, where they are adjusted."""
    filled: HotDeck | None = None
    """How missing answers of one of its columns are filled before rows are added up, if they are."""

    @property
    def weighted(self) -> bool:
        """Whether it is about the population, so that another sample would give another number."""
        return self.query.statistic is not Statistic.FREQUENCY

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The columns that the cells of its sum are told apart by, beside units of the design."""
        return self.by if self.values is None else (*self.by, self.values)

    @cached_property
    def cells(self) -> DesignUnits:
        """The units by which the estimate is asked for."""
        if not self.weighted or self._unit_weights(1) is not None:
            return DesignUnits.all_rows()
        return DesignUnits.whole(self.design) if self.design.clustered else DesignUnits.strata(self.design)

    @cached_property
    def sum(self) -> Sum:
        """The sum that gives the estimate."""
        return self._sum(self.cells)

    @cached_property
    def psus(self) -> DesignUnits:
        """The psus by which the sampling error is asked for."""
        return DesignUnits.psus(self.design)

    @cached_property
    def psu_sum(self) -> Sum:
        """The same sum by psu."""
        return self._sum(self.psus)

    @property
    def asked_twice(self) -> bool:
        """Whether psus are asked about once it is known where quantiles lie: `sums_below_quantiles`."""
        clustered = self.design.clustered and self.design.replicates is None
        return clustered and self.query.statistic is Statistic.QUANTILE

    @cached_property
    def squares(self) -> Sum:
        """The sum of squares, of weights and of cells: what all products of two cells of a row follow from."""
        splits = tuple(split.squared for split in self.splits)
        return replace(self._sum(self.cells, power=2), splits=splits, factors=self._factors(2))

    def square_form(self, gradient: Floats) -> Floats:
        """Return by how much each cell of the squares counts in the squared scores of rows.

        A row's score is the sum of its parts of cells by their slopes. Parts of one number multiply to those of twice
        the degree: b_j·b_k = C(d, j)·C(d, k)/C(2d, j + k)·b_{j + k}. Of values and conditions a row has one alone.
        """
        if not self.splits:
            return gradient**2
        form = np.zeros([split.squared.degree + 1 for split in self.splits])
        slopes = gradient.reshape([split.degree + 1 for split in self.splits])
        for one, first in np.ndenumerate(slopes):
            for other, second in np.ndenumerate(slopes):
                place, times = [], first * second
                for split, j, k in zip(self.splits, one, other, strict=True):
                    if isinstance(split.of, Indicator):
                        times *= j == k
                        place.append(j)
                    else:
                        d = split.degree
                        times *= math.comb(d, j) * math.comb(d, k) / math.comb(2 * d, j + k)
                        place.append(j + k)
                form[tuple(place)] += times
        return form.ravel()

    def expected_form(self, gradient: Floats) -> Floats:
        """Return by how much each cell of the sum itself counts in the sum of weights times squared scores.

        It is exact for values and conditions, and for numbers whose score is linear. Others are rather too large: a
        square of a mean is never above the mean of squares.
        """
        if self.factors:
            # A total's numbers are multiplied already: their squares are at most that, times the largest.
            most = math.prod(max(abs(float(each.low)), abs(float(each.high))) for each in self.factors)
            return gradient**2 * most
        if self.query.statistic not in LINEAR or not self.splits or self.splits[0].degree < 2:
            return gradient**2
        (split,) = self.splits
        start, slope = gradient[0], gradient[-1] - gradient[0]
        found: Floats = (
            start**2 * split.moment(0) + 2 * start * slope * split.moment(1) + slope**2 * split.moment(2)
        )
        return found

    @cached_property
    def weight_squares(self) -> tuple[Sum, Sum] | None:
        """The sums of weights and of their squares over all rows, where weights differ and units were drawn."""
        weight, design = self.design.weight, self.design
        if weight is None or not self.weighted or not (design.clustered or design.replicates is not None):
            return None
        known = tuple(sorted(design.cells))
        each = Sum(known=known, factors=(weight,), weights=self._unit_weights(0))
        return each, replace(each, factors=(weight, weight))

    @property
    def divisor(self) -> Floats:
        """By how much each cell counts in what a ratio is divided by."""
        (x, y), (low, high) = self.splits, self.query.span(self.query.y or "", self.design.schema)
        return np.multiply.outer(x.moment(0), float(low) + float(high - low) * y.moment(1)).ravel()

    @cached_property
    def replicate_sums(self) -> tuple[Sum, ...]:
        """The sum with each replicate weight in the place of the weight."""
        replicates, whole = self.design.replicates, DesignUnits.whole(self.design)
        found = []
        for name in () if replicates is None else replicates.columns:
            high = columns.span(self.design.schema, name, place="[design] replicates")[1]
            weight = SumFactor(column=name, low=Fraction(0), high=high)
            found.append(self._sum(whole, weight=weight))
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
        return self.weighted and (self.design.effect_declared or not by_units)

    def shares(self) -> Iterator[tuple[Sum, Fraction]]:
        """Yield each sum with the part of the query's own budget that it takes."""
        units: list[Sum] = []
        rows: list[tuple[Sum, Fraction]] = []
        if self.weighted and self.design.replicates is not None:
            units = list(self.replicate_sums)
        elif self.weighted and self.design.clustered and not self.asked_twice:
            units = [self.psu_sum]
        if self.squared:
            squares = [(self.squares, Fraction(1))] if self.squares != self.sum else []
            rows = [*squares, (self.rows, ROW_COUNT_PART)]
        of_units = self.units_share if units else Fraction(0)
        of_rows = self.rows_share if rows else Fraction(0)
        of_weights = WEIGHTS_SHARE if self.weight_squares else Fraction(0)
        yield self.sum, 1 - of_units - of_rows - of_weights - self.second_share
        yield from ((each, of_weights / 2) for each in self.weight_squares or ())
        yield from ((each, of_units / len(units)) for each in units)
        whole = sum((part for _, part in rows), Fraction(0))
        yield from ((each, of_rows * part / whole) for each, part in rows)

    @property
    def rows_share(self) -> Fraction:
        """The part of the query's own budget for squares of rows."""
        by_units = self.design.clustered or self.design.replicates is not None
        return (ROWS_BESIDE_UNITS_SHARE if by_units else ROWS_SHARE) if self.squared else Fraction(0)

    @property
    def second_share(self) -> Fraction:
        """The part of the query's own budget for what is asked once quantiles are located."""
        return self.units_share if self.asked_twice else Fraction(0)

    def sums_below_quantiles(self, totals: Floats) -> tuple[Sum, ...]:
        """Return for each share the sums of rows below its quantile, less the share of all, by psu.

        By bin, a psu's rows are below with the noise of all bins. Below a value that is known by then, they are one
        number. `totals` are noisy counts of the sample, groups × bins.
        """
        schema, bins = self.design.schema, QuantileBins.of(self.query, self.design.schema)
        by, levels = DesignUnits.all_rows().by(self.axes), tuple(axis.levels for axis in self.axes)
        found = []
        for share in self.query.p:
            parts = np.array([_parts_below(bins, counts, float(share)) for counts in totals])
            values = np.full(by.shape(schema.domain), Fraction(0), dtype=object)
            held = [Fraction(each, BIN_PARTS) - share for each in parts.astype(np.int64).ravel().tolist()]
            values[tuple(map(slice, levels))] = np.array(held, dtype=object).reshape(levels)
            below = CellWeights(by=by, values=tuple(values.ravel().tolist()))
            asked = self._plain(self.psus, axes=self.by)
            found.append(self._adjust(replace(asked, weights=self._weigh_psus(below)), 1))
        return tuple(found)

    @property
    def weights_in_sums(self) -> bool:
        """Whether base weights of strata are in sums, and not multiplied with them afterwards."""
        return self._unit_weights(1) is not None

    def _weigh_psus(self, weights: CellWeights) -> CellWeights:
        """Return weights times what rows of each stratum and psu count for: 0 where they are not listed."""
        listed = self._unit_weights(1)
        if listed is None:
            return weights
        return multiply_weights(weights, listed, domain=self.design.schema.domain)

    def _factors(self, power: int, *, weight: SumFactor | None = None) -> tuple[SumFactor, ...]:
        own = weight or self.design.weight
        return (*(() if own is None or not self.weighted else (own,) * power), *self.factors * power)

    def _adjust(self, asked: Sum, power: int) -> Sum:
        """Return a sum whose weights are multiplied by those of the adjusted cells, or by their squares."""
        if self.adjusted is None:
            return asked
        values = tuple(each**power for each in self.adjusted.values)
        own, domain = replace(self.adjusted, values=values), self.design.schema.domain
        return replace(
            asked,
            weights=own if asked.weights is None else multiply_weights(own, asked.weights, domain=domain),
        )

    def _sum(self, cells: DesignUnits, *, power: int = 1, weight: SumFactor | None = None) -> Sum:
        return self._adjust(self._plain(cells, power=power, weight=weight), power)

    def _plain(
        self,
        cells: DesignUnits,
        *,
        power: int = 1,
        weight: SumFactor | None = None,
        axes: tuple[Axis, ...] | None = None,
    ) -> Sum:
        factors = self._factors(power, weight=weight)
        numbers = {split.of.column for split in self.splits if isinstance(split.of, SumFactor)}
        held = {factor.column for factor in factors}
        known = {*self.query.known, *self.design.cells} - held - numbers
        by = cells.by(self.axes if axes is None else axes)
        return Sum(
            by=by,
            where=self.query.where,
            factors=factors,
            splits=self.splits if axes is None else (),
            # Cells of special codes are left out anyway.
            known=tuple(sorted(known - set(by.clique))),
            # A weight of 0 or less is held to 0 where it is a factor.
            positive=tuple(name for name in self.design.weight_columns if name not in held),
            weights=None
            if cells.columns == self.design.cells
            else self._unit_weights(power if self.weighted else 0),
            filled=self.filled,
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
