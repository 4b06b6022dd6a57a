"""The loss of a model against observations as a function of its potentials, and the descent to its minimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.inference.factor import AxisMap, Table
from populace.inference.gls.observations import Observation
from populace.inference.graph.junction_tree import junction_tree
from populace.inference.graph.propagation import FORBIDDEN, ProductPropagation, Propagation
from populace.schema.conditions.rules import Allowed

# Steps of descent after which the gap to the minimum is looked for.
_CHECK_EVERY = 50


@dataclass(frozen=True, slots=True)
class Point:
    """A model somewhere on the way: potentials, the probabilities of the factors' cells, loss and gradient."""

    potentials: Table
    shares: Table
    loss: float
    gradient: Table


@dataclass(frozen=True, slots=True)
class _Term:
    factor: int
    slot: AxisMap | None
    target: Table
    precision: Table


class Objective:
    """½ Σ (N·p − y)² / variance over all observed cells, for the distribution p ∝ exp(Σ potentials) and N rows.

    Factors are the maximal observed cliques. Their tables stand one after the other in flat vectors, so that a step
    of an optimiser is one operation on one array. `hard` tables confine p to the cells they allow.
    """

    def __init__(
        self,
        observations: Sequence[Observation],
        *,
        domain: Domain,
        total: float,
        hard: Mapping[Clique, Allowed] | None = None,
    ) -> None:
        self.hard = hard or {}
        self.factors = maximal_cliques([o.clique for o in observations], domain=domain)
        self._sets = [frozenset(factor) for factor in self.factors]
        self.domain = domain
        self.tree = junction_tree([*self.factors, *self.hard], domain=domain)
        self.propagation = Propagation(self.tree, domain=domain)
        self._shapes = [domain.shape(factor) for factor in self.factors]
        self._ends = np.cumsum([0, *(math.prod(shape) for shape in self._shapes)]).tolist()
        self.homes = [self.tree.holding(factor, domain=domain)[0] for factor in self.factors]
        self.slots = [
            AxisMap.of(factor, inside=self.tree.nodes[home], domain=domain)
            for factor, home in zip(self.factors, self.homes, strict=True)
        ]
        self._forbidden: dict[int, Allowed] = {}
        for clique, allowed in self.hard.items():
            home = self.tree.holding(clique, domain=domain)[0]
            mask = self._forbidden.setdefault(home, np.zeros(self.propagation.shapes[home], dtype=np.bool_))
            mask |= AxisMap.of(clique, inside=self.tree.nodes[home], domain=domain).spread(~allowed)
        self._products = ProductPropagation(
            self.propagation,
            factors=self.factors,
            homes=self.homes,
            slots=self.slots,
            hard={home: ~mask for home, mask in self._forbidden.items()},
        )
        self._terms = [self._term(o, total=total) for o in observations if o.clique]
        # The total is fixed, so what it says about the number of rows is a constant.
        self._constant = sum(
            0.5 * (total - float(o.values)) ** 2 / float(o.variance) for o in observations if not o.clique
        )
        self.steepest = max((float(term.precision.max()) for term in self._terms), default=1.0)

    def first_holding(self, clique: Clique) -> int:
        """Return the number of the first factor that holds a clique; every observed clique has one."""
        wanted = frozenset(clique)
        return next(i for i, factor in enumerate(self._sets) if wanted <= factor)

    @property
    def closed(self) -> bool:
        """Whether no node joins columns that no factor joins: then tables that agree belong to a distribution."""
        return all(
            len(node) < 2 or any(set(node) <= factor for factor in self._sets) for node in self.tree.nodes
        )

    def zeros(self) -> Table:
        """Return the potentials of the uniform distribution over the cells that can be."""
        return np.zeros(self._ends[-1])

    def tables(self, flat: Table) -> list[Table]:
        """View a flat vector as one table per factor."""
        return [
            flat[start:end].reshape(shape)
            for start, end, shape in zip(self._ends, self._ends[1:], self._shapes, strict=False)
        ]

    def flatten(self, potentials: Mapping[Clique, Table]) -> Table:
        """Add up potentials of any cliques in the factors that hold them; what no factor holds is left out."""
        flat = self.zeros()
        tables = self.tables(flat)
        for clique, table in potentials.items():
            home = next((i for i, factor in enumerate(self._sets) if factor.issuperset(clique)), None)
            if home is not None:
                slot = AxisMap.of(clique, inside=self.factors[home], domain=self.domain)
                tables[home] += slot.spread(table)
        return flat

    def on_nodes(self, flat: Table, *, forbidden: float = FORBIDDEN) -> list[Table]:
        """Add up factor tables into one fresh table per node of the junction tree, with hard cells set apart."""
        nodes = [np.zeros(shape) for shape in self.propagation.shapes]
        for home, slot, table in zip(self.homes, self.slots, self.tables(flat), strict=True):
            nodes[home] += slot.spread(table)
        for home, mask in self._forbidden.items():
            nodes[home][mask] = forbidden
        return nodes

    def beliefs(self, flat: Table) -> list[Table]:
        """Return the probability table of every node; the next call may overwrite it."""
        tables = self.tables(flat)
        found = self._products.beliefs([np.exp(table - table.max()) for table in tables])
        return self.propagation.beliefs(self.on_nodes(flat)) if found is None else found

    def at(self, potentials: Table) -> Point:
        """Return loss and gradient where the model has these potentials.

        The gradient is with respect to the probabilities: the direction of a mirror descent step on potentials.
        """
        beliefs = self.beliefs(potentials)
        shares, gradient = np.empty_like(potentials), np.zeros_like(potentials)
        shared, graded = self.tables(shares), self.tables(gradient)
        for home, slot, into in zip(self.homes, self.slots, shared, strict=True):
            into[...] = slot.collapse(beliefs[home])
        loss = self._constant
        for term in self._terms:
            share = shared[term.factor]
            missed = (share if term.slot is None else term.slot.collapse(share)) - term.target
            pull = missed * term.precision
            loss += 0.5 * float(np.vdot(missed, pull))
            graded[term.factor] += pull if term.slot is None else term.slot.spread(pull)
        return Point(potentials, shares, loss, gradient)

    def gap(self, point: Point) -> float:
        """Return a bound on how far the loss is above its minimum over all distributions.

        By convexity no distribution loses less than loss + min ⟨gradient, p − here⟩, and the minimum is reached at a
        single row, found by passing minima instead of sums along the tree (Frank and Wolfe 1956).
        """
        lowest = self.propagation.lowest(self.on_nodes(point.gradient, forbidden=math.inf))
        return max(0.0, float(np.vdot(point.gradient, point.shares)) - lowest)

    def _term(self, observation: Observation, *, total: float) -> _Term:
        factor = self.first_holding(observation.clique)
        inside = self.factors[factor]
        slot = (
            None
            if inside == observation.clique
            else AxisMap.of(observation.clique, inside=inside, domain=self.domain)
        )
        return _Term(factor, slot, observation.values / total, total**2 / observation.variance)


def maximal_cliques(cliques: Sequence[Clique], *, domain: Domain) -> tuple[Clique, ...]:
    """Return the cliques that no other clique holds, smallest tables first."""
    unique = sorted({clique for clique in cliques if clique}, key=lambda c: (domain.cells(c), c))
    # Only a clique with the same first column can hold one: of a wide table that is a handful.
    holding: dict[str, list[frozenset[str]]] = {}
    for clique in unique:
        for name in clique:
            holding.setdefault(name, []).append(frozenset(clique))
    return tuple(c for c in unique if not any(frozenset(c) < other for other in holding[c[0]]))


def descend(
    objective: Objective,
    *,
    start: Table,
    steps: int,
    tolerance: float,
    bound: float,
) -> Point:
    """Minimise the loss over all distributions of the graphical model, starting from some potentials.

    A step moves the potentials against the gradient with respect to the probabilities, which is mirror descent in the
    entropy's geometry (McKenna, Sheldon and Miklau 2019); the next gradient is taken ahead of the point reached, by
    Nesterov's momentum, and momentum restarts when the loss rises (O'Donoghue and Candès 2015). The loss therefore
    never rises. A plain step (the first after a restart) must gain half of what its gradient promises, or the step
    size is halved.
    Ends when the loss can fall by no more than tolerance × loss, by the duality gap or because no distribution can be
    below `bound`; when it fell by less than that in the last 50 steps; or after `steps` steps. A loss below 1 counts
    as 1: it is far below the noise.
    """
    here = objective.at(start)
    last, size, age = here.potentials, 1.0 / objective.steepest, 0
    earlier, done = here.loss, 0
    while done < steps and here.loss - bound > tolerance * max(1.0, here.loss):
        done += 1
        moved = here.potentials - size * here.gradient
        ahead = moved + (age / (age + 3)) * (moved - last)
        there = objective.at(ahead)
        promised = float(np.vdot(here.gradient, here.shares - there.shares)) if age == 0 else 0.0
        if here.loss - there.loss >= 0.5 * promised and there.loss <= here.loss:
            here, last, age = there, moved, age + 1
        else:
            if age == 0:
                size /= 2
            last, age = here.potentials, 0
        if done % _CHECK_EVERY == 0:
            if min(objective.gap(here), earlier - here.loss) <= tolerance * max(1.0, here.loss):
                break
            earlier = here.loss
    return here
