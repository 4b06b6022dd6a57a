"""Proportional fitting along a tour of the junction tree: potentials from target tables, in a few sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from populace.infer.junction_tree import JunctionTree
from populace.infer.objective import Objective
from populace.infer.tables import Table
from populace.marginals import Clique

# Tables that no distribution has would drive potentials to infinity; a bounded factor per visit does not.
_LARGEST_FACTOR = 1e9
_CLOSE = 1e-9


def fit_tables(objective: Objective, *, targets: Mapping[Clique, Table], sweeps: int = 10) -> Table:
    """Return potentials whose factors have, as nearly as possible, some positive probability tables.

    Visiting node after node along an Euler tour keeps the visited node's table exact, so each factor is scaled to its
    target against the current model (iterative proportional fitting, Deming and Stephan 1940; on junction trees
    Jiroušek and Přeučil 1995). Two sweeps suffice when targets agree and the tree has no added edges.
    Starts from the uniform distribution and ends when a whole sweep moves no table by more than 1e-9.
    """
    flat = objective.zeros()
    potentials = objective.tables(flat)
    plan = objective.propagation
    beliefs = plan.beliefs(objective.on_nodes(flat))
    here: list[list[int]] = [[] for _ in beliefs]
    for factor, home in enumerate(objective.homes):
        if objective.factors[factor] in targets:
            here[home].append(factor)
    visits = list(_tour(objective.tree))
    for _ in range(sweeps):
        moved = 0.0
        for came_from, node in visits:
            if came_from is not None:
                plan.carry(beliefs, source=came_from, target=node)
            for factor in here[node]:
                slot, target = objective.slots[factor], targets[objective.factors[factor]]
                found = slot.collapse(beliefs[node])
                moved = max(moved, float(np.abs(target - found).sum()))
                ratio = target / np.maximum(found, 1e-300)
                np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR, out=ratio)
                beliefs[node] *= slot.spread(ratio)
                beliefs[node] /= beliefs[node].sum()
                potentials[factor] += np.log(ratio)
        if moved <= _CLOSE:
            break
    return flat


def _tour(tree: JunctionTree) -> Iterator[tuple[int | None, int]]:
    """Yield the moves of a walk that visits every node, crosses each edge down and up, and ends at the root."""
    children: list[list[int]] = [[] for _ in tree.nodes]
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(node)
    if tree.nodes:
        yield None, 0
    pending = [(0, iter(children[0]))] if tree.nodes else []
    while pending:
        node, rest = pending[-1]
        child = next(rest, None)
        if child is not None:
            yield node, child
            pending.append((child, iter(children[child])))
        else:
            pending.pop()
            if pending:
                yield node, pending[-1][0]
