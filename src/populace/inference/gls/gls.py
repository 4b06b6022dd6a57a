"""Weighted least squares over all measurements at once, in closed form, with exact variances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain, Lookup
from populace.inference.factor import AxisMap, Table, centre
from populace.inference.fit.projection import project_to_simplex_weighted
from populace.inference.gls.column_estimates import ColumnEstimate, ColumnEvidence
from populace.inference.gls.observations import Observation, separable_part

# Where totals are public, nothing is left of some variances; a trace keeps projections defined.
_MIN_VARIANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Interaction:
    """One interaction: its estimated table (sums to 0 along every axis) and the weight of all evidence for it.

    The errors of the table have covariance (1 / weight) × the projector onto such tables.
    """

    table: Table
    weight: float


@dataclass(frozen=True, kw_only=True)
class GLSEstimate:
    """The least-squares estimate of every marginal that the measurements determine.

    A marginal of clique c is the sum over τ ⊆ c of the effect of τ divided by the cells of c∖τ: the total for
    τ = ∅, deviations of single columns, and interactions. Different effects have independent errors, except that
    single columns depend on the total through their `share`.
    """

    domain: Domain
    total: float
    total_variance: float
    columns: Mapping[str, ColumnEstimate]
    interactions: Mapping[Clique, Interaction]

    def covers(self, clique: Clique) -> bool:
        """Say whether the measurements determine a marginal."""
        return all(
            (part[0] in self.columns) if len(part) == 1 else (part in self.interactions)
            for part in _subsets(clique)
            if part
        )

    def marginal(self, clique: Clique) -> Table:
        """Return the unbiased estimate of a marginal; the clique's columns are in the domain's order."""
        self._check(clique)
        cells = self.domain.cells(clique)
        table = np.full(self.domain.shape(clique), self.total / cells)
        for name in clique:
            (given, share, _), size = self._grouped[name], self.domain[name]
            counts = given + (self.total - given.sum()) * share
            table += self._spread(counts - self.total / size, (name,), clique) * (size / cells)
        for part in _subsets(clique):
            if len(part) > 1:
                table += self._spread(self.interactions[part].table, part, clique) * (
                    self.domain.cells(part) / cells
                )
        return table

    def variance(self, clique: Clique) -> Table:
        """Return the exact variance of each cell of `marginal(clique)`.

        The total enters a cell with coefficient 1/n_c + Σ_a (share_a − 1/n_a) / n_{c∖a}; everything else is
        independent of it.
        """
        self._check(clique)
        cells = self.domain.cells(clique)
        table = np.zeros(self.domain.shape(clique))
        slope = np.full(table.shape, 1 / cells)
        for name in clique:
            (_, share, variance), size = self._grouped[name], self.domain[name]
            table += self._spread(variance, (name,), clique) * (size / cells) ** 2
            slope += self._spread(share - 1 / size, (name,), clique) * (size / cells)
        for part in _subsets(clique):
            if len(part) > 1:
                freedom = math.prod(1 - 1 / self.domain[name] for name in part)
                table += freedom / self.interactions[part].weight * (self.domain.cells(part) / cells) ** 2
        return table + self.total_variance * slope**2

    def nonnegative_column(self, name: str, *, total: float) -> Observation:
        """Return one column with counts of at least 0 and a given total, the uncertain ones moved most."""
        variance = np.maximum(self.variance((name,)), _MIN_VARIANCE)
        values = project_to_simplex_weighted(self.marginal((name,)), variance, total=total)
        return Observation((name,), values, variance)

    def sums(self, name: str, sets: Lookup) -> tuple[Table, Table] | None:
        """Return counts of sets of a column's own codes with their exact variances, or None if not determined."""
        column = self.columns.get(name)
        if column is None:
            return None
        return column.sums(sets, total=self.total, variance=self.total_variance)

    @cached_property
    def _grouped(self) -> dict[str, tuple[Table, Table, Table]]:
        return {name: column.by_group() for name, column in self.columns.items()}

    def _spread(self, table: Table, part: Clique, clique: Clique) -> Table:
        return AxisMap.of(part, inside=clique, domain=self.domain).spread(table)

    def _check(self, clique: Clique) -> None:
        if not self.covers(clique):
            raise UsageError(
                f"the measurements do not determine the marginal of {clique}.",
                hint="ask for a part of a measured marginal, or ask the model",
            )


def estimate_gls(
    observations: Sequence[Observation],
    *,
    domain: Domain,
    total: float | None = None,
    own: Mapping[str, ColumnEvidence] | None = None,
) -> GLSEstimate:
    """Combine observations by weighted least squares; `total` overrides the estimated number of rows.

    With equal noise variance σ² in the cells of clique c, its component on τ ⊆ c (sum out the rest, then subtract
    the mean along every axis of τ) has covariance σ²·n_{c∖τ} times a projector, and different components are
    independent: least squares is one weighted mean per effect (weights 1 / (σ²·n_{c∖τ})).
    A column's own tables may have other variances in every cell (codes summed into groups), which mixes the column's
    effect with the total. Given the total T, `Column.solve` joins them with the effect (mean e, weight ω) that other
    tables have; with its h and Q the column holds 1/1ᵀQ⁻¹1 − ω/n of information on T, centred so that the score at
    T is T·(1/1ᵀQ⁻¹1 − ω/n) − 1ᵀh/1ᵀQ⁻¹1. `own` is evidence on
    columns in place of observations of them alone. Of several columns with unequal variances the sum alone is used.
    """
    sums: dict[Clique, tuple[Table, float]] = {}
    single: dict[str, list[Observation]] = {}
    for observation in map(separable_part, observations):
        if len(observation.clique) == 1:
            single.setdefault(observation.clique[0], []).append(observation)
            continue
        variance = float(observation.variance.flat[0])
        for part, table, spread in _split_effects(observation.values, observation.clique, domain):
            weight = 1 / (variance * spread)
            earlier, weights = sums.get(part, (np.zeros(table.shape), 0.0))
            sums[part] = (earlier + weight * table, weights + weight)
    scores, information = sums.pop((), (np.zeros(()), 0.0))
    score = float(scores)
    alone = {name: ColumnEvidence.of_cells(same) for name, same in single.items()} | dict(own or {})
    columns: dict[str, ColumnEstimate] = {}
    # Sorted: sums of floating-point numbers depend on their order.
    for name in sorted({part[0] for part in sums if len(part) == 1} | set(alone)):
        size = domain[name]
        effect, weight = sums.get((name,), (np.zeros(size), 0.0))
        evidence = alone.get(name) or ColumnEvidence.of_tables((), size=size, grouping=None)
        if not weight and not evidence.precision.any():
            continue
        column = columns[name] = ColumnEstimate.solve(evidence, weight=weight, effect=effect)
        score += float(column.given.sum()) / column.whole
        information += 1 / column.whole - weight / size
    if information <= 0:
        raise UsageError("nothing was measured.", hint="measure at least one marginal")
    return GLSEstimate(
        domain=domain,
        total=score / information if total is None else total,
        total_variance=1 / information if total is None else 0.0,
        columns=columns,
        interactions={
            part: Interaction(table / weight, weight)
            for part, (table, weight) in sums.items()
            if len(part) > 1
        },
    )


def _split_effects(values: Table, clique: Clique, domain: Domain) -> Iterator[tuple[Clique, Table, float]]:
    """Yield the component of a table on every part of its clique, with the number of cells summed into each cell."""
    for part in _subsets(clique):
        axes = tuple(axis for axis, name in enumerate(clique) if name not in part)
        table = np.asarray(values.sum(axis=axes) if axes else values)
        yield part, centre(table), domain.cells(clique) / domain.cells(part)


def _subsets(clique: Clique) -> Iterator[Clique]:
    for size in range(len(clique) + 1):
        yield from combinations(clique, size)
