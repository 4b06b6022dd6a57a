"""Measurements carried onto the domain of a model: numbers with the variance of their noise, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from populace.errors import UsageError
from populace.infer.tables import Table
from populace.marginals import Clique, Domain, Grouping
from populace.measurements import Measurement


@dataclass(frozen=True)
class Observation:
    """Unbiased noisy counts of one clique, its columns in the domain's order, with independent noise in each cell."""

    clique: Clique
    values: Table
    variance: Table

    @cached_property
    def uniform(self) -> float | None:
        """The variance if it is the same in every cell, else None."""
        first = float(self.variance.flat[0])
        return first if bool(np.all(self.variance == first)) else None


def shared_groupings(
    measurements: Iterable[Measurement], *, also: Iterable[Grouping] = ()
) -> dict[str, Grouping]:
    """Return how each column is grouped, and refuse measurements that group a column in two ways."""
    found: dict[str, Grouping] = {grouping.column: grouping for grouping in also}
    for measurement in measurements:
        for grouping in measurement.marginal.groupings:
            if found.setdefault(grouping.column, grouping) != grouping:
                raise UsageError(
                    f"column {grouping.column!r} is grouped in two different ways.",
                    hint="use one grouping per column in all measurements of a run",
                )
    return found


def observe(
    measurements: Sequence[Measurement], *, domain: Domain, groupings: Mapping[str, Grouping]
) -> tuple[Observation, ...]:
    """Carry measurements onto the grouped domain and merge those of one clique, sorted by clique.

    A cell into which m finer cells are summed has m times their variance. Repeated measurements are averaged cell by
    cell with weights 1 / variance. The result does not depend on the order of the measurements.
    """
    place = {column: i for i, column in enumerate(domain)}
    carried = [_carry(m, domain=domain, groupings=groupings, place=place) for m in measurements]
    carried.sort(
        key=lambda o: (len(o.clique), [place[c] for c in o.clique], o.variance.flat[0], o.values.tobytes())
    )
    return tuple(average(list(same)) for _, same in groupby(carried, key=lambda o: o.clique))


def _carry(
    measurement: Measurement, *, domain: Domain, groupings: Mapping[str, Grouping], place: Mapping[str, int]
) -> Observation:
    marginal = measurement.marginal
    if not set(marginal.clique) <= set(domain):
        raise UsageError(
            f"{marginal} names a column that is not in the domain.", hint="measure columns of the schema"
        )
    if measurement.variance <= 0 or measurement.counts.shape != marginal.shape(domain):
        raise UsageError(
            f"the measurement of {marginal} has shape {measurement.counts.shape} and variance {measurement.variance}.",
            hint=f"its shape must be {marginal.shape(domain)} and its variance above 0",
        )
    clique = tuple(sorted(marginal.clique, key=place.__getitem__))
    order = [marginal.clique.index(column) for column in clique]
    values = measurement.counts.astype(np.float64).transpose(order)
    variance = np.full(values.shape, float(measurement.variance))
    for axis, column in enumerate(clique):
        if column in groupings and marginal.grouping(column) is None:
            values = sum_groups(values, groupings[column], axis=axis)
            variance = sum_groups(variance, groupings[column], axis=axis)
    return Observation(clique, values, variance)


def sum_groups(table: Table, grouping: Grouping, *, axis: int) -> Table:
    """Sum the codes of each group along one axis."""
    summed = np.zeros((grouping.size, *np.delete(table.shape, axis)))
    np.add.at(summed, grouping.lookup, np.moveaxis(table, axis, 0))
    return np.moveaxis(summed, 0, axis)


def average(same: Sequence[Observation]) -> Observation:
    """Merge observations of one clique, cell by cell, with weights 1 / variance."""
    if len(same) == 1:
        return same[0]
    precision = np.sum([1 / o.variance for o in same], axis=0)
    values = np.sum([o.values / o.variance for o in same], axis=0) / precision
    return Observation(same[0].clique, values, 1 / precision)
