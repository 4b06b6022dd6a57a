"""Proportional fitting along a tour of the junction tree: potentials from target tables, in a few sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from populace.infer.junction_tree import JunctionTree
from populace.infer.objective import Objective
from populace.infer.propagation import Table

# Targets that contradict each other would drive potentials to infinity, one bounded factor per sweep does not.
_LARGEST_FACTOR = 1e4


def fit_tables(objective: Objective, *, start: Table, targets: Sequence[Table], sweeps: int) -> Table:
    """Return potentials whose factor tables are near positive targets (probabilities), from starting potentials.

    Visiting node after node along an Euler tour keeps the visited node's table exact, so each factor is scaled to its
    target against the current model (iterative proportional fitting, Deming and Stephan 1940; on junction trees
    Jiroušek and Přeučil 1995). One sweep suffices when targets agree and every node is a factor.
    """
    flat = start.copy()
    potentials = objective.tables(flat)
    plan = objective.propagation
    beliefs = plan.beliefs(objective.on_nodes(flat))
    here: list[list[int]] = [[] for _ in beliefs]
    for factor, home in enumerate(objective.homes):
        here[home].append(factor)
    visits = list(_tour(objective.tree))
    for _ in range(sweeps):
        for came_from, node in visits:
            if came_from is not None:
                plan.carry(beliefs, source=came_from, target=node)
            for factor in here[node]:
                slot = objective.slots[factor]
                ratio = targets[factor] / np.maximum(slot.collapse(beliefs[node]), 1e-300)
                np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR, out=ratio)
                beliefs[node] *= slot.spread(ratio)
                beliefs[node] /= beliefs[node].sum()
                potentials[factor] += np.log(ratio)
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
