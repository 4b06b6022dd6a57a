"""How sure the counts are: what all measurements together say about a marginal, with an interval for every cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Marginal
from populace.inference.constraints.support import Support
from populace.inference.factor import Table
from populace.inference.gls.blue_estimates import BlueEstimates, GroupingOrigin, cell_lookup
from populace.inference.gls.interval_half_width import CONFIDENCE_LEVEL, interval_half_width
from populace.inference.gls.observations import group_table
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, Measurements, describe_marginals
from populace.privacy.accounting.mechanisms import DiscreteLaplace, ExponentialCount
from populace.schema.conditions.rules import Allowed

# Public totals enter least squares as measurements with so small a part of the smallest variance.
_TOTALS_VARIANCE_PART = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountInterval:
    """The counts of one marginal: unbiased estimates, their standard errors, and how far their intervals reach.

    Counts may come out below 0, as noise does; cutting them there would make sums of them too large.
    """

    marginal: Marginal
    estimate: Table
    error: Table
    half_width: Table

    @property
    def low(self) -> Table:
        """The lower ends of the intervals."""
        return self.estimate - self.half_width

    @property
    def high(self) -> Table:
        """The upper ends of the intervals."""
        return self.estimate + self.half_width


class CountIntervals:
    """The marginals that measurements determine, with intervals that hold the true count with probability `level`.

    >>> from populace.core.marginals import Domain
    >>> flips = Measurement(Marginal(("coin",)), np.array([33, 13]), Fraction(25))
    >>> rows = Measurement(Marginal(()), np.array(40), Fraction(4))
    >>> found = CountIntervals([flips, rows], space=ModelSpace(domain=Domain({"coin": 2})))
    >>> found
    Intervals of number of rows, 1 column, each right with probability 0.95
    >>> coin = found.of("coin")
    >>> coin.estimate.round(1), coin.low.round(1), coin.high.round(1)
    (array([30.2, 10.2]), array([23.,  3.]), array([37.4, 17.4]))
    """

    def __init__(
        self,
        items: Sequence[Measurement],
        *,
        space: ModelSpace,
        laplace: bool = False,
        groups: GroupingOrigin = GroupingOrigin.CHOSEN,
        level: float = CONFIDENCE_LEVEL,
        bias: float = 0.0,
    ) -> None:
        if not items:
            raise UsageError("there are no measurements.", hint="measure at least one marginal")
        if not 0 < level < 1:
            raise UsageError(f"the level is {level}.", hint="give a number between 0 and 1, such as 0.95")
        self._items = tuple(items)
        self._space, self._domain = space, space.domain
        self._laplace = laplace
        self._level = level
        self._bias = bias
        certain = _TOTALS_VARIANCE_PART * min(item.variance for item in items)
        self._pool = BlueEstimates(
            items,
            domain=space.domain,
            certain=[Measurement(Marginal(total.clique), total.counts, certain) for total in space.totals],
            rows=space.rows,
            groups=groups,
        )

    def __repr__(self) -> str:
        return (
            f"Intervals of {describe_marginals(self.measured)}, each right with probability {self._level:g}"
        )

    @property
    def measured(self) -> tuple[Marginal, ...]:
        """What was measured, repeats once, in the order of measuring."""
        return tuple(dict.fromkeys(item.marginal for item in self._items))

    def __iter__(self) -> Iterator[CountInterval]:
        return (self.at(marginal) for marginal in self.measured)

    def of(self, *columns: str) -> CountInterval:
        """Return the counts over some columns, as finely as they are determined; no column asks for the rows.

        Codes that measurements of several columns merge stay merged, except in a column by itself.
        """
        unknown = [name for name in columns if name not in self._domain]
        if unknown:
            raise UsageError(f"there is no column {unknown[0]!r}.", hint="name columns of the schema")
        grouped = Marginal.with_groupings(columns, self._pool.groupings)
        # The same columns may have been asked in other groups beside others.
        own = (
            Marginal.with_groupings(columns, {each.column: each for each in marginal.groupings})
            for marginal in self.measured
            if set(columns) <= set(marginal.clique)
        )
        for marginal in dict.fromkeys((Marginal(columns), grouped, *own)):
            if (found := self._pool.estimate(marginal)) is not None:
                return self._interval(marginal, *found)
        raise UsageError(
            f"the measurements do not determine {' × '.join(columns)}.",
            hint="ask for columns that were measured together, or ask the model",
        )

    def at(self, marginal: Marginal) -> CountInterval:
        """Return the counts of a marginal in the very groups that it names."""
        found = self._pool.estimate(marginal)
        if found is None:
            raise UsageError(
                f"the measurements do not determine {marginal} in these groups.",
                hint="ask for what was measured",
            )
        return self._interval(marginal, *found)

    def columns(self) -> dict[str, list[Table]]:
        """Return what stands beside the counts of saved measurements: `estimate`, `low` and `high`, to a thousandth."""
        shown = {interval.marginal: interval for interval in self}
        same = [shown[item.marginal] for item in self._items]
        return {
            "estimate": [interval.estimate.round(3) for interval in same],
            "low": [interval.low.round(3) for interval in same],
            "high": [interval.high.round(3) for interval in same],
        }

    def _interval(self, marginal: Marginal, values: Table, variance: Table) -> CountInterval:
        known = self._public_counts(marginal)
        values, variance = (values, variance) if known is None else (known, np.zeros(known.shape))
        allowed = self._possible_cells(marginal)
        values, variance = np.where(allowed, values, 0.0), np.where(allowed, variance, 0.0)
        half_width = interval_half_width(
            variance, noise=self._noise(marginal.clique), laplace=self._laplace, level=self._level
        )
        if self._bias:
            half_width = np.where(
                variance > 0, half_width + self._bias * self._count_summed_cells(marginal), half_width
            )
        return CountInterval(
            marginal=marginal, estimate=values, error=np.sqrt(variance), half_width=half_width
        )

    def _count_summed_cells(self, marginal: Marginal) -> Table:
        """Return how many cells of the smallest measured table are summed in each cell; single ones count for none."""
        holding = (item for item in self._items if set(marginal.clique) <= set(item.marginal.clique))
        least = min(holding, key=lambda item: item.counts.size, default=None)
        if least is None:
            return np.zeros(marginal.shape(self._domain))
        others = [name for name in least.marginal.clique if name not in marginal.clique]
        cells = np.array(float(self._domain.cells(tuple(others))))
        for name in marginal.clique:
            codes = cell_lookup(marginal.grouping(name), self._domain[name])
            cells = np.multiply.outer(cells, np.bincount(codes))
        return np.where(cells > 1, cells, 0.0)

    def _public_counts(self, marginal: Marginal) -> Table | None:
        """Return the counts of a marginal if they are public."""
        for total in self._space.totals:
            if set(marginal.clique) <= set(total.clique):
                seen = {grouping.column: grouping for grouping in marginal.groupings}
                return group_table(total.counts, total.clique, onto=marginal.clique, groupings=seen)
        return None

    def _noise(self, clique: Clique) -> float:
        """Return the smallest variance of noise in a table that holds the clique."""
        # The tables of one of its columns are far fewer than all.
        among = min((self._of_column.get(name, ()) for name in clique), key=len, default=self._items)
        within = (item for item in among if set(clique) <= set(item.marginal.clique))
        return min((float(item.variance) for item in within), default=math.inf)

    @cached_property
    def _of_column(self) -> dict[str, list[Measurement]]:
        found: dict[str, list[Measurement]] = {}
        for item in self._items:
            for name in item.marginal.clique:
                found.setdefault(name, []).append(item)
        return found

    @cached_property
    def _possible(self) -> Support:
        return Support(self._space.rules)

    def _possible_cells(self, marginal: Marginal) -> Allowed:
        """Say of every cell whether the rules let a row be in it."""
        shape = marginal.shape(self._domain)
        constrained = [name for name in marginal.clique if name in self._possible]
        if not constrained:
            return np.broadcast_to(np.True_, shape)
        table = self._possible.table(constrained).astype(np.float64)
        for axis, name in enumerate(constrained):
            classes = self._space.rules.classes[name]
            cells = cell_lookup(marginal.grouping(name), self._domain[name])
            meets = np.zeros((int(cells.max()) + 1, classes.size))
            meets[cells, classes.lookup] = 1.0
            table = np.moveaxis(np.tensordot(meets, table, axes=(1, axis)), 0, axis)
        sizes = [
            size if name in constrained else 1 for name, size in zip(marginal.clique, shape, strict=True)
        ]
        return np.broadcast_to(table.reshape(sizes) > 0, shape)


def intervals(measurements: Measurements, *, level: float = CONFIDENCE_LEVEL) -> CountIntervals:
    """Return how sure the counts of one run are: the marginals that it determines, with intervals.

    All measurements are joined by weighted least squares, and the variances of its estimates are exact. Where the
    schema declares public totals, these are certain, and so are cells that a rule forbids; the rules are not used
    beyond that. Counts that were held within a range are too high near 0: intervals of their sums reach as much further
    as that may come to.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> found = pp.intervals(pp.measure(people, **asked)).of("smokes")
    >>> bool((found.low < found.high).all())
    True
    """
    schema, mechanisms = measurements.schema, measurements.mechanisms
    return CountIntervals(
        measurements.items,
        space=ModelSpace.of(schema),
        laplace=any(isinstance(mechanism, DiscreteLaplace | ExponentialCount) for mechanism in mechanisms),
        level=level,
        bias=max(
            (mechanism.bias for mechanism in mechanisms if isinstance(mechanism, ExponentialCount)),
            default=0.0,
        ),
    )
