"""What a hierarchical release publishes of every unit: integer tables, unbiased estimates and margins of error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.marginals import Clique
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.hierarchy_margins import margin_of_error
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.schema.geocodes import GEOCODE, Geography


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedHierarchy:
    """The tables of every level, root first, beside the estimates from the same noisy measurements.

    `laplace` says that noise is double-exponential; with large noise of this kind intervals reach further.
    """

    measured: MeasuredHierarchy
    tables: tuple[Ints, ...]
    laplace: bool = False

    @classmethod
    def of(
        cls, measurements: Measurements, *, model: Model, tables: Sequence[Ints] | None = None
    ) -> PublishedHierarchy:
        """Return what was published: the tables of all levels, or by default those that the model's rows add up to."""
        measured = MeasuredHierarchy.of(measurements.schema, measurements.items)
        return cls(
            measured=measured,
            tables=add_up_levels(count_smallest_units(model), measured=measured)
            if tables is None
            else tuple(tables),
            laplace=any(
                isinstance(charged.spend.mechanism, DiscreteLaplace) for charged in measurements.record.spends
            ),
        )

    @property
    def geography(self) -> Geography:
        """The levels and the ids of their units."""
        return self.measured.geography

    @property
    def levels(self) -> range:
        """The numbers of the levels, the root is 0."""
        return range(self.measured.plan.spine.depth)

    @property
    def columns(self) -> Clique:
        """The columns of a unit's cells."""
        return self.measured.plan.columns

    @property
    def smallest(self) -> int:
        """The number of the level of the smallest units."""
        return self.levels[-1]

    def cliques(self) -> list[Clique]:
        """Return what precision is shown of: the total, each column, other measured tables, and all columns."""
        plan = self.measured.plan
        asked = {query.marginal.clique for level in plan.levels for query in level.queries}
        more = sorted(clique for clique in asked if 1 < len(clique) < len(self.columns))
        return list(dict.fromkeys([(), *((name,) for name in self.columns), *more, self.columns]))

    def possible(self, clique: Clique) -> Truth:
        """Return which cells of a marginal a record can be in."""
        plan = self.measured.plan
        cells = np.ones(plan.shape, dtype=np.bool_) if plan.possible is None else plan.possible
        return np.asarray(sum_onto(cells.astype(np.float64), plan.columns, clique) > 0)

    def published_counts(self, clique: Clique, *, level: int) -> Ints:
        """Return the published counts of a marginal of every unit of a level, its possible cells: (units, cells)."""
        summed = sum_onto(self.tables[level], ("", *self.columns), ("", *clique))
        found: Ints = summed.reshape(len(summed), -1)[:, self.possible(clique).ravel()]
        return found

    def unbiased_counts(self, clique: Clique, *, level: int) -> Floats:
        """Return the unbiased estimates of the same cells."""
        return self._select(self.measured.estimates.marginal(clique, level=level), clique)

    def variance(self, clique: Clique, *, level: int) -> Floats:
        """Return the exact variances of the unbiased estimates; what rounding leaves of an exact total is 0."""
        found = self._select(self.measured.estimates.variance(clique, level=level), clique)
        return np.where(found > 1e-9, found, 0.0)

    def margin(self, clique: Clique, *, level: int) -> Floats:
        """Return the 95 % margins of error of the unbiased estimates."""
        estimates = self.measured.estimates
        found = margin_of_error(estimates, clique, level=level, laplace=self.laplace)
        return self._select(found, clique)

    def _select(self, values: Floats, clique: Clique) -> Floats:
        """Return the possible cells of a marginal: (units, cells)."""
        return np.asarray(values.reshape(len(values), -1)[:, self.possible(clique).ravel()])

    def label_units(self, level: int, units: Sequence[int]) -> list[str]:
        """Return the ids of units; where ids of a level repeat, with those of the units they lie in."""
        if level == 0:
            return [self.geography.spine.levels[0] for _ in units]
        own = self.geography.ids[level - 1]
        if len(set(own)) == len(own):
            return [own[unit] for unit in units]
        above = [self.geography.unit_ids(higher, of_level=level) for higher in range(1, level)]
        return [" ".join([*(ids[unit] for ids in above), own[unit]]) for unit in units]


def count_smallest_units(model: Model) -> Ints:
    """Return the counts that a model's rows have: (units, *shape of the cells)."""
    cells = tuple(name for name in model.domain if name != GEOCODE)
    clique = (GEOCODE, *cells)
    if clique not in model.potentials:
        return np.zeros(model.domain.shape(clique), dtype=np.int64)
    found: Ints = np.rint(np.exp(model.potentials[clique])).astype(np.int64)
    return found


def add_up_levels(counts: Ints, *, measured: MeasuredHierarchy) -> tuple[Ints, ...]:
    """Return the tables of all levels, root first, of which those of the smallest units are given."""
    spine = measured.plan.spine
    found = [counts]
    for level in range(spine.depth - 1, 0, -1):
        found.append(np.asarray(spine.sum_children(found[-1], level=level), dtype=np.int64))
    return tuple(found[::-1])
