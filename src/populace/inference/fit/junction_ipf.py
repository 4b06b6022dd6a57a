"""Proportional fitting along a tour of the junction tree: potentials from target tables, in a few sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from populace._native.kernels import compiled, scale_to_target
from populace.core.marginals import Clique
from populace.inference.factor import AxisMap, Table, cell_strides
from populace.inference.fit.objective import Objective
from populace.inference.graph.junction_tree import JunctionTree

# Tables that no distribution has would drive potentials to infinity; a bounded factor per visit does not.
_LARGEST_FACTOR = 1e9
_TINY = 1e-300
_NEWTON_STEPS = 2
# Potentials of tables that contradict each other would drift apart; a trace of softness holds them back.
_POTENTIAL_PULL = 0.01


def fit_junction_ipf(
    objective: Objective,
    *,
    targets: Mapping[Clique, Table],
    soft: Mapping[Clique, Table] | None = None,
    floor: float = 0.0,
    sweeps: int = 10,
    close: float = 1e-9,
    start: Table | None = None,
) -> Table:
    """Return potentials whose model has, as nearly as possible, some probability tables inside its factors.

    Visiting node after node along an Euler tour keeps the visited node's table exact, so each table is scaled to its
    target against the current model (iterative proportional fitting, Deming and Stephan 1940; on junction trees
    Jiroušek and Přeučil 1995). Two sweeps suffice when targets agree and the tree has no added edges.
    Targets that no distribution has are given `soft` tables s: a cell m then moves to m·exp(δ) with
    m·exp(δ) + s·δ = target, which minimises (m·exp(δ) − target)² / 2s plus the relative entropy of the move (an
    incremental proximal step, Bertsekas 2011). Cells above s go nearly all the way and the others a little, so that
    tables which contradict each other settle near their least squares. Such targets may be below 0; no cell
    falls below `floor` times an average one, and a hundredth of s pulls potentials towards 0.
    Starts from the uniform distribution over the cells that can be, or from other potentials, and ends when a whole
    sweep moves no table by more than `close`. Cells that cannot be stay empty.
    """
    flat = objective.zeros() if start is None else start.copy()
    beliefs = [table.copy() for table in objective.beliefs(flat)]
    scalings = _target_scalings(objective, flat, targets=targets, soft=soft, floor=floor)
    visits = list(_euler_tour(objective.tree))
    for _ in range(sweeps):
        moved = 0.0
        for came_from, node in visits:
            if came_from is not None:
                objective.propagation.carry(beliefs, source=came_from, target=node)
            for scale in scalings[node]:
                moved = max(moved, scale(beliefs[node]))
        if moved <= close:
            break
    return flat


def _target_scalings(
    objective: Objective,
    flat: Table,
    *,
    targets: Mapping[Clique, Table],
    soft: Mapping[Clique, Table] | None,
    floor: float,
) -> list[list[Callable[[Table], float]]]:
    """Return for every node what scales its table, and potentials with it, to the targets that are met in it."""
    domain, potentials = objective.domain, objective.tables(flat)
    found: list[list[Callable[[Table], float]]] = [[] for _ in objective.tree.nodes]
    work = np.empty(2 * max((target.size for target in targets.values()), default=0))
    for clique, target in targets.items():
        factor = objective.first_holding(clique)
        home = objective.homes[factor]
        node, outer = objective.tree.nodes[home], objective.factors[factor]
        give, least = None if soft is None else soft[clique], floor / target.size
        scale: Callable[[Table], float]
        if compiled():
            scale = partial(
                scale_to_target,
                work=work,
                potential=potentials[factor].reshape(-1),
                inside=cell_strides(clique, node, domain.shape(node)),
                into=cell_strides(clique, outer, domain.shape(outer)),
                target=target.ravel(),
                soft=None if give is None else give.ravel(),
                least=least,
            )
        else:
            scale = partial(
                _scale_to_target,
                potential=potentials[factor],
                inside=AxisMap.of(clique, inside=node, domain=domain),
                into=AxisMap.of(clique, inside=outer, domain=domain),
                target=target,
                soft=give,
                least=least,
            )
        found[home].append(scale)
    return found


def _scale_to_target(
    belief: Table,
    *,
    potential: Table,
    inside: AxisMap,
    into: AxisMap,
    target: Table,
    soft: Table | None,
    least: float,
) -> float:
    """Scale a node's table towards a target, and a potential with it; return how much was moved."""
    found = inside.collapse(belief)
    if soft is None:
        change = _log_ratio(found, target)
    else:
        held = potential - potential.mean()
        change = _proximal_step(found, target - _POTENTIAL_PULL * soft * held, soft, least=least)
    ratio = np.exp(change)
    # What was found may be a view of the table itself.
    moved = float((found * np.abs(ratio - 1)).sum())
    inside.scale(belief, ratio)
    potential[...] += into.spread(change)
    return moved


def _log_ratio(found: Table, target: Table) -> Table:
    """Return the logarithm of target / found, within bounds, and 0 where nothing can be."""
    ratio = target / np.maximum(found, _TINY)
    np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR, out=ratio)
    ratio[found <= 0] = 1.0
    return np.log(ratio)


def _proximal_step(found: Table, target: Table, soft: Table, *, least: float) -> Table:
    """Return δ with found·exp(δ) + soft·δ = target, unless the cell would fall below `least`.

    The left side is convex and rising in δ, so Newton's method from above falls onto the root; where found is the
    target already it stays.
    """
    here = np.maximum(found, _TINY)
    change = np.minimum(target / soft, np.log(np.maximum(target / here, 1.0)))
    for _ in range(_NEWTON_STEPS):
        grown = here * np.exp(change)
        change -= (grown + soft * change - target) / (grown + soft)
    lowest = np.minimum(np.log(max(least, _TINY) / here), 0.0)
    change = np.maximum(change, lowest)
    change[found <= 0] = 0.0
    return change


def _euler_tour(tree: JunctionTree) -> Iterator[tuple[int | None, int]]:
    """Yield the moves of a walk that visits every node, crosses each edge down and up, and ends at the root."""
    if tree.nodes:
        yield None, 0
    pending = [(0, iter(tree.children[0]))] if tree.nodes else []
    while pending:
        node, rest = pending[-1]
        child = next(rest, None)
        if child is not None:
            yield node, child
            pending.append((child, iter(tree.children[child])))
        else:
            pending.pop()
            if pending:
                yield node, pending[-1][0]
