"""Measurements carried onto the domain of a model: numbers with the variance of their noise, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Grouping
from populace.inference.factor import Table, sum_codes, sum_onto
from populace.inference.gls.coarse_tables import common_refinement
from populace.measurements.measurements import Measurement


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


def common_groupings(
    measurements: Iterable[Measurement],
    *,
    also: Iterable[Grouping] = (),
    classes: Mapping[str, Grouping] | None = None,
) -> dict[str, Grouping]:
    """Return how the model groups each column: as finely as measurements of several columns that group it do.

    A column measured by itself may be grouped in any number of ways besides: such tables are combined code by code.
    Codes of different `classes`, which rules tell apart, share a group only in tables.
    """
    fixed: dict[str, Grouping] = {grouping.column: grouping for grouping in also}
    several: dict[str, list[Grouping]] = {}
    alone: dict[str, set[Grouping]] = {}
    for measurement in measurements:
        for grouping in measurement.marginal.groupings:
            if len(measurement.marginal.clique) == 1:
                alone.setdefault(grouping.column, set()).add(grouping)
            else:
                several.setdefault(grouping.column, []).append(grouping)
    keys = classes or {}
    single = {name: variants.pop() for name, variants in alone.items() if len(variants) == 1}
    found = {n: variant for n, variant in single.items() if n not in keys or refines(variant, keys[n])}
    for name, variants in several.items():
        variant = common_refinement(variants)
        found[name] = (
            variant
            if name not in keys or refines(variant, keys[name])
            else common_refinement([variant, keys[name]])
        )
        if fixed.get(name, found[name]) != found[name]:
            raise UsageError(
                f"column {name!r} is grouped in two different ways.",
                hint="use one grouping per column in all measurements of several columns",
            )
    return found | fixed


def refines(grouping: Grouping, classes: Grouping) -> bool:
    """Say whether codes that share a group always share a class."""
    return all((classes.lookup[codes] == classes.lookup[codes[0]]).all() for codes in grouping.members)


def observe(
    measurements: Sequence[Measurement], *, domain: Domain, groupings: Mapping[str, Grouping]
) -> tuple[Observation, ...]:
    """Carry measurements onto the grouped domain and merge those of one clique, sorted by clique.

    A cell into which m finer cells are summed has m times their variance. Repeated measurements are averaged cell by
    cell with weights 1 / variance; tables of one column in other groupings than the model's join them by least
    squares over its codes. The result does not depend on the order of the measurements.
    """
    place = {column: i for i, column in enumerate(domain)}
    # Columns that are measured alone in a grouping which is not the model's.
    alone = [m.marginal for m in measurements if len(m.marginal.clique) == 1 and m.marginal.groupings]
    mixed = sorted({each.clique for each in alone if each.groupings[0] != groupings.get(each.clique[0])})
    carried = [
        _carry_to_groups(m, domain=domain, groupings=groupings, place=place)
        for m in measurements
        if m.marginal.clique not in mixed
    ]
    for clique in mixed:
        same = [m for m in measurements if m.marginal.clique == clique]
        carried.append(_combine_groupings(same, size=domain[clique[0]], grouping=groupings.get(clique[0])))
    carried.sort(
        key=lambda o: (len(o.clique), [place[c] for c in o.clique], o.variance.flat[0], o.values.tobytes())
    )
    return tuple(average_observations(list(same)) for _, same in groupby(carried, key=lambda o: o.clique))


def _carry_to_groups(
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
    left = {n: groupings[n] for n in clique if n in groupings and marginal.grouping(n) is None}
    variance = np.full(measurement.counts.shape, float(measurement.variance))
    values, variance = (
        group_table(table, marginal.clique, onto=clique, groupings=left)
        for table in (measurement.counts, variance)
    )
    return Observation(clique, values, variance)


def _combine_groupings(same: Sequence[Measurement], *, size: int, grouping: Grouping | None) -> Observation:
    """Return the least-squares counts of one column from tables of it in several groupings, in the model's groups.

    Solves (Σ AᵀA / variance) x = Σ Aᵀy / variance over the codes, where A sums codes into a table's groups, and keeps
    the diagonal of the inverse as variance: the cells' errors are then a little dependent.
    """
    precision = np.zeros((size, size))
    weighted = np.zeros(size)
    for item in sorted(same, key=lambda m: (float(m.variance), m.counts.tobytes())):
        variants = item.marginal.groupings
        lookup = variants[0].lookup if variants else np.arange(size)
        precision += (lookup[:, None] == lookup[None, :]) / float(item.variance)
        weighted += item.counts[lookup] / float(item.variance)
    # What no table tells apart is shared evenly, with next to no weight.
    precision += np.eye(size) * 1e-9 * precision.diagonal().max()
    covariance: Table = np.linalg.inv(precision).astype(np.float64)
    values = covariance @ weighted
    if grouping is None:
        return Observation(same[0].marginal.clique, values, covariance.diagonal().copy())
    values = sum_codes(values, grouping.lookup, size=grouping.size, axis=0)
    sums = (np.arange(grouping.size)[:, None] == grouping.lookup[None, :]).astype(np.float64)
    variance: Table = np.einsum("gi,ij,gj->g", sums, covariance, sums)
    return Observation(same[0].marginal.clique, values, variance)


def group_table(
    table: npt.NDArray[Any], clique: Clique, *, onto: Clique, groupings: Mapping[str, Grouping]
) -> Table:
    """Return a table over a clique by some of its columns, in their order, codes summed into groups where it has any.

    >>> ages = {"age": Grouping("age", (0, 1, 0))}
    >>> group_table(np.array([[1, 2, 3], [4, 5, 6]]), ("sex", "age"), onto=("age",), groupings=ages)
    array([14.,  7.])
    """
    found = sum_onto(table.astype(np.float64), clique, onto)
    for axis, name in enumerate(onto):
        if name in groupings:
            found = sum_codes(found, groupings[name].lookup, size=groupings[name].size, axis=axis)
    return found


def average_observations(same: Sequence[Observation]) -> Observation:
    """Merge observations of one clique, cell by cell, with weights 1 / variance."""
    if len(same) == 1:
        return same[0]
    precision = np.sum([1 / o.variance for o in same], axis=0)
    values = np.sum([o.values / o.variance for o in same], axis=0) / precision
    return Observation(same[0].clique, values, 1 / precision)


def separable_part(observation: Observation, *, widest: int | None = None) -> Observation:
    """Return what closed-form least squares can use of an observation: all of it, or its sum.

    Several columns together with unequal variances do not separate into effects, and many columns into too many.
    """
    columns = len(observation.clique)
    separate = columns < 2 or observation.uniform is not None
    if separate and (widest is None or columns <= widest):
        return observation
    return Observation((), np.asarray(observation.values.sum()), np.asarray(observation.variance.sum()))
