"""What a hierarchical release publishes of every unit: integer tables, unbiased estimates and margins of error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique
from populace.inference.factor import sum_onto
from populace.inference.hierarchy.hierarchy_margins import unit_margins
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.schema.geocodes import Geography


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedHierarchy:
    """The tables of every level, root first, beside the estimates from the same noisy measurements.

    `laplace` says that noise is double-exponential; with large noise of this kind intervals reach further.
    """

    measured: MeasuredHierarchy
    tables: tuple[Ints, ...]
    laplace: bool = False

    @classmethod
    def of(cls, measurements: Measurements, *, model: Model) -> PublishedHierarchy:
        """Return what was published: the tables of all levels that the model's rows add up to."""
        released = ReleasedHierarchy.of(measurements, model)
        return cls(
            measured=released.measured,
            tables=released.published,
            laplace=released.laplace,
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

    def published_counts(self, clique: Clique, *, level: int) -> Ints:
        """Return the published counts of a marginal of every unit of a level, its possible cells: (units, cells)."""
        summed = self.sum_tables(clique, level=level)
        found: Ints = summed.reshape(len(summed), -1)[:, self.measured.plan.possible_in(clique).ravel()]
        return found

    def sum_tables(self, clique: Clique, *, level: int) -> Ints:
        """Return the published counts of all cells of a marginal of every unit of a level: (units, *shape)."""
        return np.asarray(sum_onto(self.tables[level], ("", *self.columns), ("", *clique)))

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
        found = unit_margins(estimates, clique, level=level, laplace=self.laplace)
        return self._select(found, clique)

    def _select(self, values: Floats, clique: Clique) -> Floats:
        """Return the possible cells of a marginal: (units, cells)."""
        return np.asarray(values.reshape(len(values), -1)[:, self.measured.plan.possible_in(clique).ravel()])

    def label_units(self, level: int, units: Sequence[int]) -> list[str]:
        """Return the ids of units; where ids of a level repeat, with those of the units they lie in."""
        if level == 0:
            return [self.geography.spine.levels[0] for _ in units]
        own = self.geography.ids[level - 1]
        if len(set(own)) == len(own):
            return [own[unit] for unit in units]
        above = [self.geography.unit_ids(higher, of_level=level) for higher in range(1, level)]
        return [" ".join([*(ids[unit] for ids in above), own[unit]]) for unit in units]
