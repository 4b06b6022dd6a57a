"""Rounds that are all alike: the wanted marginal that an estimate answers worst is chosen, and measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Protocol

from populace.core.marginals import Clique
from populace.core.progress import Progress
from populace.measurements.measurements import Measurement
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import MAX_TREE_CELLS, RoundEstimate, answer_candidates
from populace.methods.selection.measure_batch import choose_and_measure, measure_all_columns


class Refittable(RoundEstimate, Protocol):
    """An estimate that takes in what a round has measured."""

    def add(self, measurements: Iterable[Measurement], /) -> None: ...

    def refit(self) -> None: ...


def choose_in_rounds(
    oracle: Oracle,
    estimate: Refittable,
    wanted: Mapping[Clique, int],
    *,
    share: Fraction,
    rounds: int,
    measured_share: Fraction,
    max_cells: int = MAX_TREE_CELLS,
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Measure one of the wanted marginals in every round; columns once more when none is worth its noise.

    The share of the budget is split evenly over the rounds; `measured_share` of each goes into measuring.
    """
    each = share / rounds
    noise = oracle.budget.measure_noise(each * measured_share, marginals=1)
    mechanism = oracle.budget.choice(each * (1 - measured_share), choices=1)
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
