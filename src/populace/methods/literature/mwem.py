"""`mwem`: round after round, the wanted marginal that multiplicative weights answer worst."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from fractions import Fraction

from populace.core.progress import Progress
from populace.inference.fit.estimator import Estimator
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.multiplicative_weights import (
    MultiplicativeWeights,
    fit_multiplicative_weights,
    is_dense,
)
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import MAX_TREE_CELLS, choose_in_rounds, workload_candidates
from populace.methods.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class MwemConfig:
    """The numbers by which `mwem` is tuned."""

    column_share: Fraction = Fraction(15, 100)
    """Of the budget, for single columns, which come first."""
    rounds_per_column: int = 2
    """Rounds for every column: all are alike, so that their number is public."""
    measured_share: Fraction = Fraction(3, 4)
    """The part of a round that goes into measuring; the rest chooses."""


MWEM_CONFIG = MwemConfig()


# Every candidate is answered from the tree in every round: its cells times these answers.
MAX_ANSWER_WORK = 2**28


def measure_mwem(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then in every round choose the wanted marginal that is answered worst, and measure it.

    One exponential mechanism chooses, with the distance of a marginal's counts from the estimate as score, less the
    error that measuring it would bring. After each round the estimate is updated with all tables so far, by
    multiplicative weights over the whole domain where that is small enough and free of rules, else on a junction
    tree of limited size: what multiplicative weights come to when they are repeated is a model of that kind.
    The number of rounds is public and all are alike.
    Source: Hardt, Ligett and McSherry 2012. They start from an even distribution, know the number of rows, give half
    of a round to choosing, and score single queries; that columns come first, and the penalty, are ours.
    """
    wanted = workload_candidates(workload, domain=oracle.domain)
    progress("measuring columns", 0.0)
    if not wanted or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=MWEM_CONFIG.column_share)
    estimate = start_estimate(oracle, measured)
    rounds = MWEM_CONFIG.rounds_per_column * len(oracle.domain)
    return measured + choose_in_rounds(
        oracle,
        estimate,
        wanted,
        share=1 - MWEM_CONFIG.column_share,
        rounds=rounds,
        measured_share=MWEM_CONFIG.measured_share,
        max_cells=max_tree_cells(wanted),
        progress=progress,
    )


def max_tree_cells(wanted: Sized) -> int:
    """Return how many cells the tree may have from which so many marginals are answered in every round.

    With thousands of marginals a round would take minutes on the largest tree, and the parts of answers that are kept
    gigabytes: the tree is smaller then, by a public number.

    >>> max_tree_cells(range(500)) == MAX_TREE_CELLS, max_tree_cells(range(7000))
    (True, 38347)
    """
    return min(MAX_TREE_CELLS, MAX_ANSWER_WORK // max(1, len(wanted)))


def start_estimate(oracle: Oracle, measured: tuple[Measurement, ...]) -> MultiplicativeWeights | Estimator:
    """Return the estimate that columns give: over the whole domain where it can be held, else a graphical model."""
    estimate: MultiplicativeWeights | Estimator
    space = ModelSpace.of(oracle)
    if is_dense(space):
        estimate = MultiplicativeWeights(oracle.domain)
    else:
        estimate = Estimator(space)
    estimate.add(measured)
    estimate.refit()
    return estimate


MWEM = Method(
    name="mwem",
    title="Multiplicative weights with the exponential mechanism",
    reference="Hardt, Ligett and McSherry 2012",
    measure=measure_mwem,
    fit=fit_multiplicative_weights,
    scores_all_pairs=True,
)
