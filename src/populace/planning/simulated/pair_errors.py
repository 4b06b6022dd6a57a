"""The error that noise would leave in a pair of columns if a run measured it, whether or not a simulation did.

Which pairs a run measures depends on private rows, so a plan cannot say; but the noise that a pair would have hardly
does: it follows from the pair's cells and from how the budget is allocated, which is much the same whichever pairs are
chosen. Nor can a plan know which columns are even unless their shares are public, so pairs of columns with as many
codes get the same prediction: the error of such pairs in all simulations, weighted to those that are worth measuring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import combine_repeats, group_repeats
from populace.methods.selection.merge_rare_codes import merge_rare_codes
from populace.planning.prediction_range import PredictionRange, compute_noise_cv
from populace.planning.simulated.column_shares import entropy_bits, fill_shares
from populace.planning.simulated.populations import SimulatedPopulation
from populace.planning.simulated.total_variation import total_variation
from populace.schema.columns.column import Column
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class PairErrorConfig:
    """How errors of pairs are predicted from those of similar pairs."""

    usual_power: float = 0.4  # precision grows with this power of the cells where too few pairs show which
    max_power: float = 2 / 3
    """Errors of k per standard deviation sum to the least when precisions go with k^⅔, and k with the cells at most."""
    min_pairs: int = 6
    min_log_cells_sd: float = 0.3
    """The power is fitted to so many pairs or more, whose cells differ by so much."""
    bandwidth: float = 0.5  # how far apart similar columns are, in powers of two of their codes
    ordered_distance: float = 1.0  # how far ordered columns are from others
    shares_distance: float = 2.0  # how far columns of public shares are from others
    entropy_step: float = 0.25  # columns of public shares differ by their entropy in bits, rounded to this
    measured_weight: float = 1000.0  # how much more a pair counts that a simulation measured
    tail: float = 0.05  # the part of similar pairs beyond either end of a range


PAIRS = PairErrorConfig()
ColumnFeatures = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPairError:
    """The error of a pair if it were measured, its cells then, and the most by which it could depend in these."""

    error: float
    cells: int
    max_dependence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairError:
    """The error of a pair if it is measured, its cells under the schema, and how many simulations measured it.

    `groups` are about the cells in which it is measured: codes that noise would hide share one. `all_cells_bound` is a
    lower bound of the error in all of its cells: no table errs by less than a column in it.
    """

    error: PredictionRange
    cells: int
    groups: int
    measured: int
    all_cells_bound: float

    def to_json(self) -> dict[str, Any]:
        """Return it for a machine."""
        return {
            "cells": self.cells,
            "cells_in_groups": self.groups,
            "simulations_that_measured": self.measured,
            "all_cells_error_at_least": float(f"{self.all_cells_bound:.4g}"),
            **self.error.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairPrecision:
    """The precision of pairs by their cells, of single columns from everything measured, and of the number of rows."""

    groupings: Mapping[str, Grouping]
    domain: Domain
    columns: Mapping[str, float]
    rows: float
    base: float
    power: float

    @classmethod
    def of(cls, items: Sequence[Measurement], *, population: SimulatedPopulation) -> PairPrecision:
        """Return the precision of what was measured; where no pair was, columns show what one would have got.

        Precisions that minimise the sum of errors go with the power 2/3 of what an error costs, and that of a column
        is one of all pairs that it is in: a pair of as many cells gets less by (columns - 1) to the power 2/3.
        """
        schema = population.schema
        groupings = _find_groupings(items, population=population)
        domain = schema.domain.group(groupings.values())
        columns, pairs, rows = dict.fromkeys(domain, 0.0), dict[Clique, float](), 0.0
        for item in split_coarse_tables(items, domain=schema.domain, groupings=groupings)[0]:
            clique, precision = item.marginal.clique, 1 / (float(item.variance) * item.counts.size)
            rows += precision
            # Counts of codes by which groups were chosen say nothing unbiased about the groups.
            for name in clique if len(clique) > 1 else set(clique) - groupings.keys():
                columns[name] += precision * domain[name]
            for pair in combinations(clique, 2):
                pairs[pair] = pairs.get(pair, 0.0) + precision * domain.cells(pair)
        if pairs:
            cells = np.log([domain.cells(pair) for pair in pairs])
            precisions = np.log(list(pairs.values()))
        else:
            single = group_repeats(item for item in items if len(item.marginal.clique) == 1)
            combined = [combine_repeats(same) for same in single]
            cells = np.log([item.counts.size for item in combined])
            precisions = -np.log([float(item.variance) for item in combined])
            precisions -= PAIRS.max_power * np.log(max(1, len(domain) - 1))
        power = PAIRS.usual_power
        if len(cells) >= PAIRS.min_pairs and float(cells.std()) > PAIRS.min_log_cells_sd:
            power = min(max(float(np.polyfit(cells, precisions, 1)[0]), 0.0), PAIRS.max_power)
        return cls(
            groupings=groupings,
            domain=domain,
            columns=columns,
            rows=rows,
            base=float((precisions - power * cells).mean()),
            power=power,
        )

    def marginal(self, pair: Clique) -> Marginal:
        """Return a pair in the groups in which it would be measured."""
        return Marginal.with_groupings(pair, self.groupings)

    def noise(self, pair: Clique, *, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return the noise that least squares over all tables would leave in a pair.

        Other tables add to the precision of sums over either column and over both; the rest is known from the pair
        alone.
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
    """Return the error that each pair of columns would have if it were measured; `measured` has those that were."""
    precision = PairPrecision.of(items, population=population)
    schema, rows = population.schema, max(population.rows, 1)
    # The most by which a column can make a pair depend, in total variation, is its Gini impurity: 1 − Σ shares².
    shares = {name: population.exact(precision.marginal((name,))) / rows for name in schema.domain}
    even = {name: max(0.0, 1 - float((own**2).sum())) for name, own in shares.items()}
    support = Support(schema.rules) if schema.rules.rules else None
    classes = class_lookups(ModelSpace.of(schema).group(precision.groupings.values()))
    found: dict[Clique, SimulatedPairError] = {}
    for pair in combinations(schema.domain, 2):
        error = measured.get(pair)
        cells = precision.domain.cells(pair)
        if error is None:
            exact = population.exact(precision.marginal(pair))
            noisy = exact + precision.noise(pair, rng=rng)
            if support is not None:
                noisy[~support.cells(pair, classes=classes, domain=precision.domain)] = 0.0
            error = total_variation(project_to_simplex(noisy, total=max(1.0, float(noisy.sum()))), exact)
        found[pair] = SimulatedPairError(
            error=error, cells=cells, max_dependence=min(even[name] for name in pair)
        )
    return found


def predict_pair_errors(
    simulated: Sequence[Mapping[Clique, SimulatedPairError]],
    *,
    measured: Sequence[Collection[Clique]],
    weights: Sequence[float],
    schema: Schema,
    columns: Mapping[str, float],
    known_shares: Mapping[str, npt.NDArray[np.float64]] = MappingProxyType({}),
) -> dict[Clique, PairError]:
    """Return the error of every pair if it is measured, the smallest first; none where no simulation measured any.

    It is the error of pairs of about as many codes where simulations measured some. Others count where none were: by
    how far they could depend in their groups, since a pair that a run measures is dependent, and where all codes of a
    column share a group it cannot be. `columns` are the errors of single columns.
    """
    features = {
        name: _column_features(column, known_shares.get(name)) for name, column in schema.variables.items()
    }
    rows = [
        (
            *_pair_features(pair, features),
            one.error,
            one.cells,
            weight * (PAIRS.measured_weight if pair in chosen else one.max_dependence + 1e-9),
        )
        for run, chosen, weight in zip(simulated, measured, weights, strict=True)
        for pair, one in run.items()
    ]
    if not rows:
        return {}
    predict = cache(partial(_predict_from_similar, np.array(rows)))
    found = {}
    for pair in combinations(schema.domain, 2):
        error, groups = predict(_pair_features(pair, features))
        cells = schema.domain.cells(pair)
        found[pair] = PairError(
            error=error,
            cells=cells,
            groups=min(cells, groups),
            measured=sum(pair in run for run in measured),
            all_cells_bound=max(error.mean, *(columns[name] for name in pair)),
        )
    return dict(sorted(found.items(), key=lambda entry: entry[1].error.mean))


def _predict_from_similar(
    pairs: npt.NDArray[np.float64], features: tuple[float, ...]
) -> tuple[PredictionRange, int]:
    """Return the error of pairs with such features, and in how many cells they are measured.

    `pairs` are those of all simulations: their features, and behind these their error, cells and weight.
    """
    errors, cells, weights = pairs[:, -3:].T
    apart = ((pairs[:, :-3] - np.array(features)) ** 2).sum(axis=1)
    weights = weights * np.exp(-(apart - apart.min()) / (2 * PAIRS.bandwidth**2))
    order = np.argsort(errors)
    shares = np.cumsum(weights[order])
    ends = np.searchsorted(shares, shares[-1] * np.array([PAIRS.tail, 1 - PAIRS.tail]))
    low, high = errors[order][ends]
    mean = float(np.average(errors, weights=weights))
    groups = round(float(np.exp(np.average(np.log(cells), weights=weights))))
    wider = PredictionRange.of(
        [float(low), float(high)], chance=compute_noise_cv([1.0], cells=[groups]), most=1.0
    )
    return PredictionRange(mean=mean, low=min(mean, wider.low), high=max(mean, wider.high)), groups


def _column_features(column: Column, shares: npt.NDArray[np.float64] | None) -> ColumnFeatures:
    """Return what a plan knows of a column: its codes as a power of two, whether it is ordered, its public entropy."""
    codes, entropy = float(np.log2(column.size)), 0.0
    if shares is not None:
        bits = entropy_bits(fill_shares(shares, column, order=np.zeros(column.size)))
        entropy = PAIRS.shares_distance + round(bits / PAIRS.entropy_step) * PAIRS.entropy_step
    return codes, PAIRS.ordered_distance * column.ordered, entropy


def _pair_features(pair: Clique, features: Mapping[str, ColumnFeatures]) -> tuple[float, ...]:
    """Return what a plan knows of a pair."""
    one, two = sorted(features[name] for name in pair)
    return one + two


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
