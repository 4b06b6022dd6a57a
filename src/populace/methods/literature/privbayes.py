"""`privbayes`: a network of columns in which each depends on a few earlier ones, chosen privately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice

from populace.core.marginals import Candidates, Clique, Marginal
from populace.core.progress import Progress
from populace.inference.fit.estimator import Estimator
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.method import Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import (
    MAX_CANDIDATES,
    MAX_SCORED_CELLS,
    MAX_TREE_CELLS,
    choose_and_measure,
    compare_candidates,
    mean_absolute_noise,
    take_within,
)
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.selection.merge_rare_codes import group_rare_codes
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivBayesConfig:
    """The numbers by which `privbayes` is tuned."""

    column_share: Fraction = Fraction(25, 100)
    """Of the budget, for single columns, which come first."""
    choice_share: Fraction = Fraction(10, 100)
    """Of the budget, for all choices of a column and its parents."""
    max_parents: int = 4
    """A column has at most so many parents: there are too many sets of more."""
    min_signal_to_noise: int = 4
    """Cells of a table hold on average so many times their noise, or it is no candidate."""


PRIVBAYES_CONFIG = PrivBayesConfig()


def measure_privbayes(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then add one column after another to a network, and measure each with its parents.

    One exponential mechanism chooses a column and its parents together. The score is the distance of the counts of
    all of them from what is known while the column stands alone, less the error that measuring would bring. Parents
    are columns that lie in one earlier table, so that the network is its own junction tree. Tables must be useful:
    large enough counts for their noise, by the noisy number of rows. It ignores the workload.
    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017. Their scores are mutual information, and the distance
    from independence by exact counts; ours is that distance from noisy tables, whose sensitivity is proved here.
    """
    progress("measuring columns", 0.0)
    if len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=PRIVBAYES_CONFIG.column_share)
    groupings = group_rare_codes(measured[1:], oracle=oracle)
    estimator = Estimator(ModelSpace.of(oracle.schema).group(groupings))
    estimator.add(measured)
    estimator.refit()
    # A column that is all one group has nothing to say about another.
    apart = [name for name in oracle.domain if estimator.domain[name] > 1]
    network: list[Clique] = []
    rounds, left = max(1, len(apart) - 1), 1 - PRIVBAYES_CONFIG.column_share
    noise = oracle.budget.measure_noise(left - PRIVBAYES_CONFIG.choice_share, marginals=rounds)
    mechanism = oracle.budget.choice(PRIVBAYES_CONFIG.choice_share, choices=rounds)
    while len(apart) > bool(not network):
        candidates = parent_candidates(estimator, network, apart, noise=noise)
        if not candidates.marginals:
            break
        found = choose_and_measure(oracle, candidates, mechanism=mechanism, noise=noise)
        measured += found
        left -= (1 - PRIVBAYES_CONFIG.column_share) / rounds
        network.append(found[0].marginal.clique)
        apart = [name for name in apart if name not in network[-1]]
        progress("choosing parents", 0.1 + 0.9 * len(network) / rounds)
        if apart:
            estimator.add(found)
            estimator.refit()
    if left:
        measured += measure_evenly(oracle, [Marginal((name,)) for name in apart or oracle.domain], share=left)
    return measured


def parent_candidates(
    estimator: Estimator, network: Sequence[Clique], apart: Sequence[str], *, noise: Noise
) -> Candidates:
    """Return the tables of one more column and its parents, with what is known before they are measured.

    Where there are very many, those with the fewest parents and cells are taken.
    """
    domain = estimator.domain
    most = estimator.total / (PRIVBAYES_CONFIG.min_signal_to_noise * mean_absolute_noise(noise))
    useful = (
        clique
        for clique in _child_parent_sets(network, apart, order=list(domain))
        if domain.cells(clique) <= most and estimator.fits(clique, max_cells=MAX_TREE_CELLS)
    )
    cliques = islice(take_within(useful, size=domain.cells, cells=MAX_SCORED_CELLS), MAX_CANDIDATES)
    return compare_candidates(estimator, dict.fromkeys(cliques, 1), noise=noise)


def _child_parent_sets(
    network: Sequence[Clique], apart: Sequence[str], *, order: Sequence[str]
) -> Iterator[Clique]:
    """Yield a column that stands apart with parents that lie in one table, few parents first; at first any pairs.

    >>> list(_child_parent_sets([], ["a", "b", "c"], order="abc"))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    >>> list(_child_parent_sets([("a", "c")], ["b"], order="abc"))
    [('a', 'b'), ('b', 'c'), ('a', 'b', 'c')]
    """
    if not network:
        yield from combinations(apart, 2)
        return
    place = {name: number for number, name in enumerate(order)}
    for size in range(1, PRIVBAYES_CONFIG.max_parents + 1):
        for parents in dict.fromkeys(part for clique in network for part in combinations(clique, size)):
            for name in apart:
                yield tuple(sorted((*parents, name), key=place.__getitem__))


PRIVBAYES = Method(
    name="privbayes",
    title="Private Bayesian network",
    reference="Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017",
    measure=measure_privbayes,
    workload=WorkloadUse.NONE,
    scores_all_pairs=True,
)
