"""Weighted least squares over all measurements at once, in closed form, with exact variances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from populace.errors import UsageError
from populace.infer.observations import Observation
from populace.infer.tables import Table
from populace.marginals import Clique, Domain


@dataclass(frozen=True, slots=True)
class Effect:
    """One interaction: its estimated table (sums to 0 along every axis) and the weight of all evidence for it.

    The errors of the table have covariance (1 / weight) × the projector onto such tables.
    """

    table: Table
    weight: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column's counts given the total T: `given + (T − given.sum()) · share`, with their variance given T.

    `share` sums to 1. A column measured with equal variances has equal shares; where variances differ, a wrong total
    moves the uncertain cells most.
    """

    given: Table
    share: Table
    variance: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The least-squares estimate of every marginal that the measurements determine.

    A marginal of clique c is the sum over τ ⊆ c of the effect of τ divided by the cells of c∖τ: the total for
    τ = ∅, deviations of single columns, and interactions. Different effects have independent errors, except that
    single columns depend on the total through their `share`.
    """

    domain: Domain
    total: float
    total_variance: float
    columns: Mapping[str, Column]
    interactions: Mapping[Clique, Effect]

    def covers(self, clique: Clique) -> bool:
        """Say whether the measurements determine a marginal."""
        return all(
            (part[0] in self.columns) if len(part) == 1 else (part in self.interactions)
            for part in _parts(clique)
            if part
        )

    def marginal(self, clique: Clique) -> Table:
        """Return the unbiased estimate of a marginal; the clique's columns are in the domain's order."""
        self._check(clique)
        cells = self.domain.cells(clique)
        table = np.full(self.domain.shape(clique), self.total / cells)
        for axis, name in enumerate(clique):
            column, size = self.columns[name], self.domain[name]
            counts = column.given + (self.total - column.given.sum()) * column.share
            table += _along(counts - self.total / size, axis=axis, rank=len(clique)) * (size / cells)
        for part in _parts(clique):
            if len(part) > 1:
                table += _inside(self.interactions[part].table, part, clique) * (
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
        for axis, name in enumerate(clique):
            column, size = self.columns[name], self.domain[name]
            table += _along(column.variance, axis=axis, rank=len(clique)) * (size / cells) ** 2
            slope += _along(column.share - 1 / size, axis=axis, rank=len(clique)) * (size / cells)
        for part in _parts(clique):
            if len(part) > 1:
                freedom = math.prod(1 - 1 / self.domain[name] for name in part)
                table += freedom / self.interactions[part].weight * (self.domain.cells(part) / cells) ** 2
        return table + self.total_variance * slope**2

    def _check(self, clique: Clique) -> None:
        if not self.covers(clique):
            raise UsageError(
                f"the measurements do not determine the marginal of {clique}.",
                hint="ask for a part of a measured marginal, or ask the model",
            )


def estimate(observations: Sequence[Observation], *, domain: Domain, total: float | None = None) -> Effects:
    """Combine observations by weighted least squares; `total` overrides the estimated number of rows.

    With equal noise variance σ² in the cells of clique c, its component on τ ⊆ c (sum out the rest, then subtract
    the mean along every axis of τ) has covariance σ²·n_{c∖τ} times a projector, and different components are
    independent: least squares is one weighted mean per effect (weights 1 / (σ²·n_{c∖τ})).
    A single column whose cells have different variances (codes summed into groups) mixes its own effect with the
    total. For column a let ω and e be weight and mean of its effect elsewhere, p and z precision and value of these
    cells, and q = ω + p. Given T, least squares gives h + (T − Σh)·k with h = (ωe + pz)/q and k = q⁻¹ / Σq⁻¹, with
    covariance diag(q⁻¹) − kkᵀ·Σq⁻¹, and the column holds 1/Σq⁻¹ − ω/n of information on T, centred so that the
    score at T is T·(1/Σq⁻¹ − ω/n) − Σh/Σq⁻¹.
    """
    sums: dict[Clique, tuple[Table, float]] = {}
    uneven: dict[str, tuple[Table, Table]] = {}
    for observation in observations:
        if observation.uniform is not None:
            for part, table, spread in _components(observation.values, observation.clique, domain):
                weight = 1 / (observation.uniform * spread)
                earlier, weights = sums.get(part, (np.zeros(table.shape), 0.0))
                sums[part] = (earlier + weight * table, weights + weight)
        elif len(observation.clique) == 1:
            precision = 1 / observation.variance
            value, known = uneven.get(
                observation.clique[0], (np.zeros(precision.shape), np.zeros(precision.shape))
            )
            uneven[observation.clique[0]] = (value + precision * observation.values, known + precision)
        else:
            raise UsageError(
                f"the cells of {observation.clique} have different variances.",
                hint="measure several columns together on their groups",
            )
    scores, information = sums.pop((), (np.zeros(()), 0.0))
    score = float(scores)
    columns: dict[str, Column] = {}
    for name in {part[0] for part in sums if len(part) == 1} | set(uneven):
        size = domain[name]
        effect, weight = sums.get((name,), (np.zeros(size), 0.0))
        if name not in uneven:
            even = np.full(size, 1 / size)
            columns[name] = Column(effect / weight, even, np.full(size, (1 - 1 / size) / weight))
            continue
        value, precision = uneven[name]
        loose = 1 / (weight + precision)
        given, whole = (effect + value) * loose, float(loose.sum())
        share = loose / whole
        columns[name] = Column(given, share, np.maximum(loose - whole * share**2, 0))
        score += float(given.sum()) / whole
        information += 1 / whole - weight / size
    if information <= 0:
        raise UsageError("nothing was measured.", hint="measure at least one marginal")
    return Effects(
        domain=domain,
        total=score / information if total is None else total,
        total_variance=1 / information if total is None else 0.0,
        columns=columns,
        interactions={
            part: Effect(table / weight, weight) for part, (table, weight) in sums.items() if len(part) > 1
        },
    )


def _components(values: Table, clique: Clique, domain: Domain) -> Iterator[tuple[Clique, Table, float]]:
    """Yield the component of a table on every part of its clique, with the number of cells summed into each cell."""
    for part in _parts(clique):
        axes = tuple(axis for axis, name in enumerate(clique) if name not in part)
        table = np.asarray(values.sum(axis=axes) if axes else values)
        for axis in range(len(part)):
            table = table - table.mean(axis=axis, keepdims=True)
        yield part, table, domain.cells(clique) / domain.cells(part)


def _parts(clique: Clique) -> Iterator[Clique]:
    for size in range(len(clique) + 1):
        yield from combinations(clique, size)


def _along(values: Table, *, axis: int, rank: int) -> Table:
    return values.reshape(tuple(-1 if i == axis else 1 for i in range(rank)))


def _inside(table: Table, part: Clique, clique: Clique) -> Table:
    """View a table over part of a clique in a shape that broadcasts over the clique; both in the same order."""
    sizes = iter(table.shape)
    return table.reshape(tuple(next(sizes) if name in part else 1 for name in clique))
