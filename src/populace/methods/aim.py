"""`aim`: round after round, the marginal in which the model is furthest from the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.core.progress import Progress
from populace.inference.fit.estimator import Estimator
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import (
    MAX_CANDIDATES,
    MAX_SCORED_CELLS,
    MAX_TREE_CELLS,
    answer_candidates,
    choose_and_measure,
    mean_absolute_noise,
    scale_weights,
    take_within,
)
from populace.methods.selection.measure_batch import measure_all_columns
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class AimConfig:
    """The numbers by which `aim` is tuned."""

    rounds_per_column: int = 16
    """At most so many rounds for every column: the first noise is that of equal rounds."""
    measured_share: Fraction = Fraction(9, 10)
    """The part of a round that goes into measuring; the rest chooses."""


AIM_CONFIG = AimConfig()


def measure_aim(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then choose and measure one marginal per round, each time where it helps most.

    Candidates are the marginals of the workload and all their parts. A candidate's score is the distance of its counts
    from the model less the error that measuring it would bring, weighted by what it shares with the workload; one
    exponential mechanism chooses, and its marginal is measured. After a round that moved the model by less than its
    noise, noise is halved. The last round takes all that is left.
    The model may hold as many cells as the part of the budget that has been used allows.
    Source: McKenna, Mullins, Sheldon and Miklau 2022, algorithms 2 to 4. They allow a model of 80 MB, fit it with a
    thousand steps in every round, and leave no candidate out for its noise.
    """
    budget, names = oracle.budget, list(oracle.domain)
    # With one column there is nothing to choose.
    each = (
        Fraction(1, AIM_CONFIG.rounds_per_column * len(names))
        if len(names) > 1
        else 1 / AIM_CONFIG.measured_share
    )
    left = 1 - each * AIM_CONFIG.measured_share * len(names)
    progress("measuring columns", 0.0)
    measured = measure_all_columns(oracle, share=1 - left)
    estimator = Estimator(ModelSpace.of(oracle.schema))
    estimator.add(measured)
    estimator.refit()
    weights = downward_closure(workload, domain=oracle.domain)
    while left:
        each = left if left <= 2 * each else each
        noise = budget.measure_noise(each * AIM_CONFIG.measured_share, marginals=1)
        candidates = answer_candidates(
            estimator, weights, noise=noise, max_cells=int(MAX_TREE_CELLS * (1 - left + each))
        )
        mechanism = budget.choice(each * (1 - AIM_CONFIG.measured_share), choices=1)
        found = choose_and_measure(oracle, candidates, mechanism=mechanism, noise=noise)
        left -= each
        measured += found
        clique = found[0].marginal.clique
        before = estimator.table(clique)
        estimator.add(found)
        estimator.refit()
        moved = np.abs(estimator.table(clique) - before).sum()
        if moved <= mean_absolute_noise(noise) * np.count_nonzero(before):
            each *= 4 if isinstance(noise, DiscreteGaussian) else 2
        progress("choosing marginals", float(1 - left))
    return measured


def downward_closure(workload: Workload, *, domain: Domain) -> dict[Clique, int]:
    """Return the parts of the workload's marginals, small ones first, with their weights as whole numbers.

    A part's weight is Σ weight(s)·|part ∩ s| over all marginals s of the workload. Where there are very many parts
    the smallest are taken. A column of one code says nothing about others and stands in no marginal with them.

    >>> wanted = Workload(weights={("a", "b"): Fraction(1), ("b", "c"): Fraction(2)})
    >>> downward_closure(wanted, domain=Domain({"a": 2, "b": 3, "c": 1}))
    {('c',): 500, ('a',): 250, ('b',): 750, ('a', 'b'): 1000}
    """
    asked: dict[str, Fraction] = {}
    for clique, weight in workload.weights.items():
        for name in clique:
            asked[name] = asked.get(name, Fraction(0)) + weight
    parts = islice(
        take_within(_parts(workload, domain), size=domain.cells, cells=MAX_SCORED_CELLS), MAX_CANDIDATES
    )
    return scale_weights({part: sum((asked[name] for name in part), Fraction(0)) for part in parts})


def _parts(workload: Workload, domain: Domain) -> Iterator[Clique]:
    """Yield the parts of the workload's marginals, those of few columns first, and of these the smallest."""
    for size in range(1, max(map(len, workload.weights), default=0) + 1):
        parts = dict.fromkeys(
            part
            for clique in workload.weights
            for part in combinations(clique, size)
            if size == 1 or all(domain[name] > 1 for name in part)
        )
        yield from sorted(parts, key=domain.cells)


AIM = Method(
    name="aim",
    title="Adaptive and iterative mechanism",
    reference="McKenna, Mullins, Sheldon and Miklau 2022",
    measure=measure_aim,
    scores_all_pairs=True,
)
