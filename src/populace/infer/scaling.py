"""Proportional fitting along a tour of the junction tree: potentials from target tables, in a few sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from populace.infer.junction_tree import JunctionTree
from populace.infer.objective import Objective
from populace.infer.tables import Slot, Table
from populace.marginals import Clique

# Tables that no distribution has would drive potentials to infinity; a bounded factor per visit does not.
_LARGEST_FACTOR = 1e9


@dataclass(frozen=True, slots=True)
class _Part:
    """One target: the potential it moves, and where its clique lies in the potential and in the node."""

    potential: Table
    into: Slot
    inside: Slot
    target: Table


def fit_tables(
    objective: Objective,
    *,
    targets: Mapping[Clique, Table],
    sweeps: int = 10,
    close: float = 1e-9,
    start: Table | None = None,
) -> Table:
    """Return potentials whose model has, as nearly as possible, some probability tables inside its factors.

    Visiting node after node along an Euler tour keeps the visited node's table exact, so each table is scaled to its
    target against the current model (iterative proportional fitting, Deming and Stephan 1940; on junction trees
    Jiroušek and Přeučil 1995). Two sweeps suffice when targets agree and the tree has no added edges.
    Starts from the uniform distribution over the cells that can be, or from other potentials, and ends when a whole
    sweep moves no table by more than `close`. Cells that cannot be stay empty.
    """
    flat = objective.zeros() if start is None else start.copy()
    potentials = objective.tables(flat)
    plan = objective.propagation
    beliefs = plan.beliefs(objective.on_nodes(flat))
    here: list[list[_Part]] = [[] for _ in beliefs]
    for factor, home in enumerate(objective.homes):
        for clique, target in targets.items():
            if objective.first_holding(clique) == factor:
                inside = Slot.of(clique, inside=objective.tree.nodes[home], domain=objective.domain)
                into = Slot.of(clique, inside=objective.factors[factor], domain=objective.domain)
                here[home].append(_Part(potentials[factor], into, inside, target))
    visits = list(_tour(objective.tree))
    for _ in range(sweeps):
        moved = 0.0
        for came_from, node in visits:
            if came_from is not None:
                plan.carry(beliefs, source=came_from, target=node)
            for part in here[node]:
                found = part.inside.collapse(beliefs[node])
                moved = max(moved, float(np.abs(part.target - found).sum()))
                ratio = part.target / np.maximum(found, 1e-300)
                np.clip(ratio, 1 / _LARGEST_FACTOR, _LARGEST_FACTOR, out=ratio)
                ratio[found <= 0] = 1.0
                beliefs[node] *= part.inside.spread(ratio)
                part.potential[...] += part.into.spread(np.log(ratio))
        if moved <= close:
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
