"""`mst`: 1-ways, then a private choice of the tree of pairs that independence describes worst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.core.marginals import Candidates, Clique, Marginal
from populace.core.progress import Progress
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.fit.projection import project_to_simplex
from populace.inference.graph.clique_cost import CliqueCost
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.method import Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import take_smallest
from populace.methods.selection.independence_baseline import fit_baseline
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.selection.merge_rare_codes import group_rare_codes
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class MstConfig:
    """The numbers by which `mst` is tuned."""

    column_share: Fraction = Fraction(50, 100)
    """Of the budget, for the number of rows and all columns: they decide what is rare."""
    choice_share: Fraction = Fraction(8, 100)
    """Of the budget, for all choices of pairs together: a score is large beside its noise."""


MST_CONFIG = MstConfig()


# All candidate pairs together: they are counted, estimated and kept at once, 8 bytes a cell each time.
MAX_PAIR_CELLS = 2**25
# Fitting takes seconds up to here.
MAX_ADDED_CELLS = 2**20
# So many pairs are candidates, some kilobytes each: all pairs of 512 columns.
MAX_PAIRS = 2**17


def measure_mst(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, choose a tree of pairs privately, and measure the pairs that are worth their noise.

    Each choice is one exponential mechanism among the pairs that join two parts of the tree so far (Kruskal).
    A pair's score is the distance of its counts from what its noisy 1-ways and the public rules imply, less the
    error that measuring it would bring; "no further pair" is among the choices too. Columns in no pair are measured
    again beside the pairs. Pairs that would make the model too large under the rules are left out, and where there
    are more than `MAX_PAIRS`, those of columns that stand far from each other in the schema.
    It ignores the workload.
    Source: McKenna, Miklau and Sheldon 2021; the penalty, the stop and the rules are ours.
    """
    progress("measuring columns", 0.0)
    if len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=MST_CONFIG.column_share)
    columns = measured[1:]
    space = ModelSpace.of(oracle.schema).group(group_rare_codes(columns, oracle=oracle))
    total = max(1.0, float(measured[0].counts))
    return measured + measure_tree(oracle, columns, space=space, total=total, progress=progress)


def measure_tree(
    oracle: Oracle,
    columns: Sequence[Measurement],
    *,
    space: ModelSpace,
    total: float,
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Choose a tree of pairs with what measured columns left of the budget; measure it, and columns in no pair."""
    noise = oracle.budget.measure_noise(
        1 - MST_CONFIG.column_share - MST_CONFIG.choice_share, marginals=len(columns) - 1
    )
    candidates = pair_candidates(columns, space=space, total=total, noise=noise)
    progress("choosing pairs", 0.1)
    chosen, left = choose_tree(oracle, candidates, space=space, progress=progress)
    progress("measuring pairs", 0.9)
    pairs = [candidates.marginals[number] for number in chosen]
    paired = {name for pair in pairs for name in pair.clique}
    asked = [*pairs, *(Marginal((name,)) for name in oracle.domain if name not in paired)]
    return measure_evenly(oracle, asked, share=left)


def choose_tree(
    oracle: Oracle, candidates: Candidates, *, space: ModelSpace, progress: Progress
) -> tuple[list[int], Fraction]:
    """Return the numbers of the pairs of a forest, chosen privately, and the share of the budget left."""
    left = 1 - MST_CONFIG.column_share
    potentials = RulePotentials(space) if space.rules.rules else None
    part = {name: number for number, name in enumerate(oracle.domain)}
    most = len(part) - 1
    mechanism = oracle.budget.choice(MST_CONFIG.choice_share, choices=most)
    cliques = [marginal.clique for marginal in candidates.marginals]
    chosen: list[int] = []
    joining = list(range(len(cliques)))
    for _ in range(most):
        joining = [n for n in joining if part[cliques[n][0]] != part[cliques[n][1]]]
        among = admissible_pairs(joining, pairs=cliques, chosen=chosen, potentials=potentials)
        if not among:
            break
        number = oracle.choose(candidates, among=among, mechanism=mechanism)
        left -= MST_CONFIG.choice_share / most
        if number is None:
            break
        kept, merged = (part[name] for name in cliques[number])
        part = {name: kept if at == merged else at for name, at in part.items()}
        chosen.append(number)
        progress("choosing pairs", 0.1 + 0.8 * len(chosen) / most)
    return chosen, left


def admissible_pairs(
    among: Sequence[int], *, pairs: Sequence[Clique], chosen: Sequence[int], potentials: RulePotentials | None
) -> list[int]:
    """Return the numbers of pairs that can join the chosen ones without making the model under rules too large.

    A pair that would close a large cycle with rules and other pairs is refused. Rules are public, and the pairs chosen
    so far are paid for. A bound on what a pair adds decides: `CliqueCost.added_cells`. Without rules there is no limit.
    """
    if potentials is None:
        return list(among)
    tree, domain = potentials.tree([pairs[number] for number in chosen])
    if tree.cells(domain) * max(domain.values()) <= MAX_ADDED_CELLS:
        return list(among)
    additions = CliqueCost((), domain=domain, tree=tree)
    return [number for number in among if additions.added_cells(pairs[number]) <= MAX_ADDED_CELLS]


def pair_candidates(
    columns: Sequence[Measurement], *, space: ModelSpace, total: float, noise: Noise
) -> Candidates:
    """Return the pairs, smallest first as far as memory reaches, with what 1-ways and rules imply as estimate.

    For columns that no rule joins that is the product of their noisy 1-ways. A column that is all one group has
    nothing to say about another and stands in no pair. A pair's penalty is the error that remains when the estimate
    itself is measured with this noise and made non-negative again: a simulation with public random numbers, which
    costs nothing. Cells in which no row can be are not counted in it: the model knows them.
    """
    grouped = space.grouped_domain
    known = fit_baseline(columns, space=space, total=total)
    deviation = float(noise.variance) ** 0.5
    rng = np.random.default_rng(0)
    marginals, estimates, penalties = [], [], []
    pairs = nearest_pairs([name for name in grouped if grouped[name] > 1], most=MAX_PAIRS)
    for clique in take_smallest(pairs, domain=grouped, cells=MAX_PAIR_CELLS):
        estimate = total * known.pair(clique)
        noisy = estimate + rng.normal(0.0, deviation, estimate.shape)
        possible = known.possible(clique)
        again = np.zeros(estimate.shape)
        again[possible] = project_to_simplex(noisy[possible], total=total)
        marginals.append(Marginal.with_groupings(clique, space.groupings))
        estimates.append(np.rint(estimate).astype(np.int64))
        penalties.append(round(float(np.abs(again - estimate).sum())))
    return Candidates(tuple(marginals), tuple(estimates), tuple(penalties))


def nearest_pairs(names: Sequence[str], *, most: int) -> Iterator[Clique]:
    """Yield all pairs of columns, or, where there are more than so many, those that stand nearest to each other.

    Which columns go together is not known before a pair is counted; questions of one subject stand side by side.

    >>> list(nearest_pairs("abcd", most=5))
    [('a', 'b'), ('a', 'c'), ('b', 'c'), ('b', 'd'), ('c', 'd')]
    """
    count, distance = len(names), 0
    # Columns at a distance d make count − d pairs.
    while distance < count - 1 and most >= count - distance - 1:
        distance += 1
        most -= count - distance
    for place, name in enumerate(names):
        for other in names[place + 1 : place + 1 + distance]:
            yield name, other


MST = Method(
    name="mst",
    title="Maximum spanning tree",
    reference="McKenna, Miklau and Sheldon 2021",
    measure=measure_mst,
    workload=WorkloadUse.NONE,
)
