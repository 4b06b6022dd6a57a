"""Rounds that choose among candidates: marginals of a workload, with their weights and what an estimate answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from populace.core.marginals import MAX_ESTIMATE_ROWS, Candidates, Clique, Counts, Domain, Marginal
from populace.core.progress import Progress
from populace.inference.factor import Table
from populace.inference.fit.round_estimate import RoundEstimate
from populace.measurements.measurements import Measurement
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_all_columns
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian, Exponential, Noise

# The junction tree of a model that is fitted in every round, in cells: 2 MB. A round takes about 0.1 seconds there.
MAX_TREE_CELLS = 2**18
# What is scored in every round: so many marginals, and cells of all of them together.
MAX_CANDIDATES, MAX_SCORED_CELLS = 2**13, 2**23
# Weights become whole numbers up to this one.
MAX_WEIGHT = 1000

TableT = TypeVar("TableT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsConfig:
    """The numbers by which a method is tuned that measures single columns first, and then in rounds."""

    column_share: Fraction = Fraction(15, 100)
    """Of the budget, for single columns, which come first."""
    rounds_per_column: int
    """Rounds for every column: all are alike, so that their number is public."""
    measured_share: Fraction
    """The part of a round that goes into measuring; the rest chooses."""


def choose_in_rounds(
    oracle: Oracle,
    estimate: RoundEstimate,
    wanted: Mapping[Clique, int],
    *,
    config: RoundsConfig,
    rounds: int,
    max_cells: int = MAX_TREE_CELLS,
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Measure one of the wanted marginals in every round; columns once more when none is worth its noise.

    What columns have left of the budget is split evenly over the rounds.
    """
    each = (1 - config.column_share) / rounds
    noise = oracle.budget.measure_noise(each * config.measured_share, marginals=1)
    mechanism = oracle.budget.choice(each * (1 - config.measured_share), choices=1)
    measured: tuple[Measurement, ...] = ()
    for number in range(rounds):
        progress("choosing marginals", 0.1 + 0.9 * number / rounds)
        candidates = answer_candidates(estimate, wanted, noise=noise, max_cells=max_cells)
        if not candidates.marginals:
            return measured + measure_all_columns(oracle, share=each * (rounds - number))
        found = choose_and_measure(oracle, candidates, mechanism=mechanism, noise=noise)
        measured += found
        if number < rounds - 1:
            estimate.add(found)
            estimate.refit()
    return measured


def choose_and_measure(
    oracle: Oracle, candidates: Candidates, *, mechanism: Exponential, noise: Noise
) -> tuple[Measurement, ...]:
    """Choose one of the candidates by the exponential mechanism, and measure it."""
    among = range(len(candidates.marginals))
    chosen = oracle.choose(candidates, among=among, mechanism=mechanism, none=False)
    return oracle.measure([candidates.marginals[chosen or 0]], noise=noise)


def answer_candidates(
    estimate: RoundEstimate, weights: Mapping[Clique, int], *, noise: Noise, max_cells: int = MAX_TREE_CELLS
) -> Candidates:
    """Return the marginals that are worth measuring, with what the estimate answers.

    Marginals of several columns whose noise would exceed any distance there can be, twice the rows, are left out, and
    so are those that the estimate has no room for.
    """
    most = 2 * estimate.total / mean_absolute_noise(noise)
    return compare_candidates(
        estimate,
        {
            clique: weight
            for clique, weight in weights.items()
            if (len(clique) == 1 or estimate.domain.cells(clique) <= most)
            and estimate.fits(clique, max_cells=max_cells)
        },
        noise=noise,
    )


def compare_candidates(estimate: RoundEstimate, weights: Mapping[Clique, int], *, noise: Noise) -> Candidates:
    """Return marginals with the estimate that their counts are compared with, columns seen as it groups them.

    The penalty of measuring is the usual noise of all cells that can hold rows, weighted as the distance is.
    """
    tables = estimate.tables(weights)
    return Candidates(
        tuple(Marginal.with_groupings(clique, estimate.groupings) for clique in weights),
        tuple(round_table(tables[clique], weight=weights[clique]) for clique in weights),
        tuple(
            min(
                round(weights[c] * mean_absolute_noise(noise) * np.count_nonzero(tables[c])),
                MAX_ESTIMATE_ROWS,
            )
            for c in weights
        ),
        tuple(weights.values()),
    )


def round_table(table: Table, *, weight: int = 1) -> Counts:
    """Return a table in whole rows, scaled down where noise has made more of them than a score in 64 bits can bear.

    >>> round_table(np.array([0.6, 7.2])).tolist(), round_table(np.array([1e30, 1e30])).tolist() == 2 * [2**58]
    ([1, 7], True)
    """
    over = 2 * weight * float(np.abs(table).sum()) / MAX_ESTIMATE_ROWS
    return np.rint(table if over <= 1 else table / over).astype(np.int64)


def workload_candidates(workload: Workload, *, domain: Domain) -> dict[Clique, int]:
    """Return the marginals of a workload, small ones first, with their weights as whole numbers.

    A column of one code says nothing and is left out of them. Where there are very many the smallest are taken.

    >>> wanted = Workload(weights={("a", "b", "c"): Fraction(1), ("a", "c"): Fraction(2), ("c",): Fraction(1)})
    >>> workload_candidates(wanted, domain=Domain({"a": 2, "b": 3, "c": 1}))
    {('a',): 1000, ('a', 'b'): 500}
    """
    found: dict[Clique, Fraction] = {}
    for clique, weight in workload.weights.items():
        telling = tuple(name for name in clique if domain[name] > 1)
        if telling:
            found[telling] = found.get(telling, Fraction(0)) + weight
    weights = scale_weights(found)
    kept = take_smallest(found, domain=domain, cells=MAX_SCORED_CELLS)[:MAX_CANDIDATES]
    return {clique: weights[clique] for clique in kept}


def take_smallest(cliques: Iterable[Clique], *, domain: Domain, cells: int) -> list[Clique]:
    """Return cliques in the order of their sizes, as far as so many cells reach for all of them together.

    >>> take_smallest([("b",), ("a", "b"), ("a",)], domain=Domain({"a": 3, "b": 4}), cells=18)
    [('a',), ('b',)]
    """
    return list(take_within(sorted(cliques, key=domain.cells), size=domain.cells, cells=cells))


def take_within(tables: Iterable[TableT], *, size: Callable[[TableT], int], cells: int) -> Iterator[TableT]:
    """Yield tables in their order, as far as so many cells reach for all of them together."""
    for table in tables:
        cells -= size(table)
        if cells < 0:
            return
        yield table


def scale_weights(weights: Mapping[Clique, Fraction]) -> dict[Clique, int]:
    """Return weights as whole numbers, the heaviest of them the same for every workload.

    >>> scale_weights({("a",): Fraction(1, 3), ("b",): Fraction(2, 3), ("c",): Fraction(1, 10**9)})
    {('a',): 500, ('b',): 1000, ('c',): 1}
    """
    heaviest = max(weights.values(), default=Fraction(1))
    return {clique: max(1, round(MAX_WEIGHT * weight / heaviest)) for clique, weight in weights.items()}


def mean_absolute_noise(noise: Noise) -> float:
    """Return how large noise is on average, its sign left out.

    >>> round(mean_absolute_noise(DiscreteGaussian(Fraction(100))), 3)
    7.979
    """
    deviation = math.sqrt(noise.variance)
    return deviation * math.sqrt(2 / math.pi if isinstance(noise, DiscreteGaussian) else 1 / 2)
