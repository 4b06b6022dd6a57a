"""What noise would do to a pair of columns if a run measured it, whether or not a rehearsal did.

Which pairs a run measures depends on private rows, so a plan cannot tell; but the noise that a pair would have hardly
does: it follows from the pair's cells and from the level at which the budget is shared out, which is much the same
whichever pairs are chosen. Nor can a plan know which columns are even unless their shares are public, so pairs of
columns that have as many codes are told the same: what such pairs err by in all rehearsals, those most that are worth
measuring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain, Grouping, Marginal
from populace.inference.constraints.support import Support, class_lookups
from populace.inference.fit.projection import project_to_simplex
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.observations import common_groupings
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, combine_repeats, group_repeats
from populace.methods.selection.merge_rare_codes import merge_rare_codes
from populace.planning.prediction_range import PredictionRange, compute_noise_cv
from populace.planning.simulated.column_shares import entropy_bits, fill_shares
from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.total_variation import total_variation
from populace.schema.columns.column import Column
from populace.schema.schema import Schema

# Precision grows with a power of the cells of a pair; this one where too few pairs tell which, and never a larger one:
# errors that are k per deviation sum to the least when precisions go with k^⅔, and k with the cells at most.
USUAL_POWER, MOST_POWER, FEW, ALIKE = 0.4, 2 / 3, 6, 0.3
# How far apart in powers of two the codes of two columns are that tell of each other, and how far apart ordered columns
# are from others; by how much more a pair counts that a rehearsal measured; the part beyond either end of a bracket.
NEAR, OTHER_ORDER, MEASURED, BEYOND = 0.5, 1.0, 1000.0, 0.05
# How far columns of public shares are from others, and from each other by the power of two of even codes that their
# shares are worth, to which part of it.
KNOWN, EVEN, FINE = 2.0, 1.0, 0.25
ColumnFeatures = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPairError:
    """The error of a pair if it were measured, its cells then, and how far it could depend in these."""

    error: float
    cells: int
    room: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairError:
    """What a pair errs by if it is measured, its cells under the schema, and how many rehearsals measured it.

    `groups` are the cells in which it is measured, about: codes that noise would hide share one. `least` is what it
    errs by in all of its cells, or more: no table errs by less than a column in it does.
    """

    error: PredictionRange
    cells: int
    groups: int
    measured: int
    least: float

    def to_json(self) -> dict[str, Any]:
        """Return it for a machine."""
        told: dict[str, Any] = {"cells": self.cells, "cells_in_groups": self.groups}
        told |= {"measured_in": self.measured, "in_all_cells_at_least": float(f"{self.least:.4g}")}
        return told | self.error.to_json()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairPrecision:
    """How precisely a run knows pairs by their cells, single columns from everything measured, and the rows."""

    groupings: Mapping[str, Grouping]
    domain: Domain
    columns: Mapping[str, float]
    rows: float
    base: float
    power: float

    @classmethod
    def of(cls, items: Sequence[Measurement], *, population: SimulatedPopulation) -> PairPrecision:
        """Return the level of what was measured; where no pair was, that of columns tells what one would have got.

        Precisions that make the sum of errors least go with the power 2/3 of what an error costs, and that of a column
        is one of all pairs that it is in: a pair of as many cells gets less by (columns - 1) to the power 2/3.
        """
        schema = population.schema
        groupings = _find_groupings(items, population=population)
        domain = schema.domain.group(groupings.values())
        columns, pairs, rows = dict.fromkeys(domain, 0.0), dict[Clique, float](), 0.0
        for item in split_coarse_tables(items, domain=schema.domain, groupings=groupings)[0]:
            clique, precision = item.marginal.clique, 1 / (float(item.variance) * item.counts.size)
            rows += precision
            # Counts of codes by which groups were chosen do not speak for the groups.
            speaking = clique if len(clique) > 1 else set(clique) - groupings.keys()
            for name in speaking:
                columns[name] += precision * domain[name]
            for pair in combinations(clique, 2):
                pairs[pair] = pairs.get(pair, 0.0) + precision * domain.cells(pair)
        if pairs:
            cells = np.log([domain.cells(pair) for pair in pairs])
            told = np.log(list(pairs.values()))
        else:
            known = [
                combine_repeats(same)
                for same in group_repeats(item for item in items if len(item.marginal.clique) == 1)
            ]
            cells = np.log([item.counts.size for item in known])
            told = -np.log([float(item.variance) for item in known])
            told -= MOST_POWER * np.log(max(1, len(domain) - 1))
        power = USUAL_POWER
        if len(cells) >= FEW and float(cells.std()) > ALIKE:
            power = min(max(float(np.polyfit(cells, told, 1)[0]), 0.0), MOST_POWER)
        return cls(
            groupings=groupings,
            domain=domain,
            columns=columns,
            rows=rows,
            base=float((told - power * cells).mean()),
            power=power,
        )

    def marginal(self, pair: Clique) -> Marginal:
        """Return a pair in the groups in which it would be measured."""
        return Marginal(pair, tuple(self.groupings[name] for name in pair if name in self.groupings))

    def noise(self, pair: Clique, *, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return what would be left of the noise in a pair by least squares over all tables.

        Of what cells share, the sums over either column and over both, other tables tell as well; the rest is known
        from the pair alone.
        """
        high, wide = self.domain.shape(pair)
        precision = float(np.exp(self.base + self.power * np.log(high * wide)))
        inside = rng.normal(0.0, precision**-0.5, (high, wide))
        inside -= inside.mean(axis=0)
        inside -= inside.mean(axis=1, keepdims=True)
        down = rng.normal(0.0, (precision / wide + self.columns[pair[0]]) ** -0.5, (high, 1))
        across = rng.normal(0.0, (precision / high + self.columns[pair[1]]) ** -0.5, (1, wide))
        whole = rng.normal(0.0, (precision / (high * wide) + self.rows) ** -0.5)
        inside += (down - down.mean()) / wide + (across - across.mean()) / high + whole / (high * wide)
        return np.asarray(inside)


def simulate_pair_errors(
    items: Sequence[Measurement],
    *,
    population: SimulatedPopulation,
    measured: Mapping[Clique, float],
    rng: np.random.Generator,
) -> dict[Clique, SimulatedPairError]:
    """Return what each pair of columns would err by if it were measured; `measured` tells it of those that were."""
    level = PairPrecision.of(items, population=population)
    schema, rows = population.schema, max(population.rows, 1)
    even = {name: _gini_impurity(population.exact(level.marginal((name,))) / rows) for name in schema.domain}
    possible = Support(schema.rules) if schema.rules.rules else None
    classes = class_lookups(ModelSpace.of(schema).group(level.groupings.values()))
    known = {frozenset(pair): error for pair, error in measured.items()}
    found: dict[Clique, SimulatedPairError] = {}
    for pair in combinations(schema.domain, 2):
        error = known.get(frozenset(pair))
        cells = level.domain.cells(pair)
        if error is None:
            exact = population.exact(level.marginal(pair))
            noisy = exact + level.noise(pair, rng=rng)
            if possible is not None:
                noisy[~possible.cells(pair, classes=classes, domain=level.domain)] = 0.0
            error = total_variation(project_to_simplex(noisy, total=max(1.0, float(noisy.sum()))), exact)
        found[pair] = SimulatedPairError(error=error, cells=cells, room=min(even[name] for name in pair))
    return found


def predict_pair_errors(
    supposed: Sequence[Mapping[Clique, SimulatedPairError]],
    *,
    measured: Sequence[Collection[Clique]],
    weights: Sequence[float],
    schema: Schema,
    columns: Mapping[str, float],
    known: Mapping[str, npt.NDArray[np.float64]] = MappingProxyType({}),
) -> dict[Clique, PairError]:
    """Return what every pair errs by if it is measured, the least first; nothing where no rehearsal measured any.

    It is what pairs of about as many codes erred by where rehearsals measured some. Others count where none were: by
    how far they could depend in their groups, since a pair that a run measures hangs together, and where all codes of a
    column share a group it cannot. `columns` are the errors of single columns, `known` are public shares of some.
    """
    traits = {name: _column_features(column, known.get(name)) for name, column in schema.variables.items()}
    cases = _SimulatedPairs.of(supposed, measured=measured, weights=weights, traits=traits)
    if cases is None:
        return {}
    found = {}
    told: dict[Clique, tuple[PredictionRange, int]] = {}
    for pair in combinations(schema.domain, 2):
        kind = _pair_features(pair, traits)
        label = tuple(map(str, kind))
        if label not in told:
            told[label] = cases.like(kind)
        error, groups = told[label]
        cells = schema.domain.cells(pair)
        count = sum(pair in run or pair[::-1] in run for run in measured)
        least = max(error.mean, *(columns[name] for name in pair))
        found[pair] = PairError(
            error=error, cells=cells, groups=min(cells, groups), measured=count, least=least
        )
    return dict(sorted(found.items(), key=lambda entry: entry[1].error.mean))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _SimulatedPairs:
    """The pairs of all rehearsals: their kinds, errors, cells, and by how much each counts."""

    kinds: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    cells: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        supposed: Sequence[Mapping[Clique, SimulatedPairError]],
        *,
        measured: Sequence[Collection[Clique]],
        weights: Sequence[float],
        traits: Mapping[str, ColumnFeatures],
    ) -> _SimulatedPairs | None:
        rows = []
        for run, known, weight in zip(supposed, measured, weights, strict=True):
            for pair, one in run.items():
                was = pair in known or pair[::-1] in known
                counts = weight * (MEASURED if was else one.room + 1e-9)
                rows.append((*_pair_features(pair, traits), one.error, one.cells, counts))
        if not rows:
            return None
        told = np.array(rows)
        return cls(kinds=told[:, :-3], errors=told[:, -3], cells=told[:, -2], weights=told[:, -1])

    def like(self, kind: tuple[float, ...]) -> tuple[PredictionRange, int]:
        """Return the error of pairs of a kind with its spread, and in how many cells they are measured."""
        apart = ((self.kinds - np.array(kind)) ** 2).sum(axis=1)
        weights = self.weights * np.exp(-(apart - apart.min()) / (2 * NEAR**2))
        order = np.argsort(self.errors)
        shares = np.cumsum(weights[order])
        ends = np.searchsorted(shares, shares[-1] * np.array([BEYOND, 1 - BEYOND]))
        low, high = self.errors[order][ends]
        mean = float(np.average(self.errors, weights=weights))
        groups = round(float(np.exp(np.average(np.log(self.cells), weights=weights))))
        wider = PredictionRange.of(
            [float(low), float(high)], chance=compute_noise_cv([1.0], cells=[groups]), most=1.0
        )
        return PredictionRange(mean=mean, low=min(mean, wider.low), high=max(mean, wider.high)), groups


def _column_features(column: Column, known: npt.NDArray[np.float64] | None) -> ColumnFeatures:
    """Return what a plan knows of a column: its codes as a power of two, and whether it is ordered.

    Of a column whose shares are public it knows to how many even codes these come: as many as have the same entropy.
    """
    codes, even = float(np.log2(column.size)), 0.0
    if known is not None:
        even = (
            KNOWN
            + EVEN
            * round(entropy_bits(fill_shares(known, column, order=np.zeros(column.size))) / FINE)
            * FINE
        )
    return codes, OTHER_ORDER * column.ordered, even


def _pair_features(pair: Clique, traits: Mapping[str, ColumnFeatures]) -> tuple[float, ...]:
    """Return what a plan knows of a pair."""
    one, two = sorted(traits[name] for name in pair)
    return one + two


def _gini_impurity(shares: npt.NDArray[np.float64]) -> float:
    """Return how far from independence a column can bring a pair, in total variation: 1 − Σ shares²."""
    return max(0.0, 1 - float((shares**2).sum()))


def _find_groupings(items: Sequence[Measurement], *, population: SimulatedPopulation) -> dict[str, Grouping]:
    """Return the groups in which pairs were measured, or would have been: none by a method that groups no codes."""
    schema = population.schema
    together = [item for item in items if len(item.marginal.clique) > 1]
    groupings = common_groupings(together, classes=schema.rules.classes)
    single = [item for item in items if len(item.marginal.clique) == 1 and not item.marginal.groupings]
    ordered = {name for name, column in schema.variables.items() if column.ordered}
    chosen = merge_rare_codes(
        map(combine_repeats, group_repeats(single)), ordered=ordered, classes=schema.rules.classes
    )
    whole = {name for item in together for name in item.marginal.clique} - groupings.keys()
    if any(grouping.column in whole for grouping in chosen):
        return groupings
    return {grouping.column: grouping for grouping in chosen} | groupings
