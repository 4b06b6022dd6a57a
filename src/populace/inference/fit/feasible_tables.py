"""Tables nearest to what was observed that belong to a distribution under the rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from populace.core.marginals import Clique, Domain, Lookup, Marginal, cell_indices
from populace.inference.factor import AxisMap, Table
from populace.inference.fit.objective import Objective
from populace.inference.gls.observations import Observation

MAX_SYSTEM_ENTRIES = 2**23
_MAX_ROUNDS, _CHECK_EVERY = 1000, 10
_OVER_RELAXATION = 1.6
# Conditions may follow from each other; a trace of slack keeps their system regular.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A table to solve for: the cells that can hold rows, what they explain, and how firmly they are kept above 0."""

    clique: Clique
    cells: Lookup
    seen: Observation | None
    stiffness: float

    def number(self, part: Clique, *, domain: Domain) -> Lookup:
        """Return for every cell the number of the cell of a smaller clique that it is summed into."""
        codes = dict(zip(self.clique, np.unravel_index(self.cells, domain.shape(self.clique)), strict=True))
        return cell_indices(Marginal(part), codes=codes, domain=domain)


def count_entries(objective: Objective) -> int:
    """Return about how many numbers the linear system of `fit_feasible_tables` holds."""
    tree = objective.tree
    return sum(
        objective.domain.cells(node) * min(1 + len(tree.children[i]), len(node)) ** 2
        for i, node in enumerate(tree.nodes)
    )


def fit_feasible_tables(
    observations: Sequence[Observation],
    *,
    objective: Objective,
    total: float,
    tolerance: float,
) -> dict[Clique, Table]:
    """Minimise ½ Σ (x − y)² / variance over the tables x of all distributions that keep the hard cells empty.

    Unknown are the tables of all nodes of the junction tree, on the cells that can hold rows. They belong to a
    distribution exactly if they are non-negative and neighbours agree on their separators. Least squares among
    agreeing tables is one sparse linear system, factored once; it alternates with cutting at 0 by the alternating
    direction method of multipliers (Boyd et al. 2011, section 5.2), over-relaxed.
    Ends when the agreeing and the non-negative tables differ by `tolerance` of the rows and move no more than that.
    """
    system = _System(_blocks(observations, objective=objective), objective=objective, total=total)
    nearest = cut = system.start
    owed = np.zeros(cut.size)
    for done in range(_MAX_ROUNDS):
        nearest = system.project(cut - owed)
        ahead = _OVER_RELAXATION * nearest + (1 - _OVER_RELAXATION) * cut + owed
        before, cut = cut, np.maximum(ahead, 0.0)
        owed = ahead - cut
        if done % _CHECK_EVERY == 0:
            off = max(np.abs(nearest - cut).sum(), np.abs(cut - before).sum())
            if off <= tolerance * total:
                break
    return system.observed_tables(np.maximum(nearest, 0.0))


def _blocks(observations: Sequence[Observation], *, objective: Objective) -> list[_Block]:
    """Return one block per node, which explains the largest observation in it, and one for every other observation."""
    domain, tree = objective.domain, objective.tree
    supports = [t > 0 for t in objective.propagation.beliefs(objective.on_nodes(objective.zeros()))]
    held: list[list[Observation]] = [[] for _ in tree.nodes]
    for observation in sorted((o for o in observations if o.clique), key=lambda o: -o.values.size):
        held[tree.holding(observation.clique, domain=domain)[0]].append(observation)
    # As stiff in sums as what was observed is precise: then cutting and least squares meet soonest.
    precise = [float(np.mean(1 / here[0].variance)) / here[0].values.size if here else 0.0 for here in held]
    usual = float(np.median([p for p in precise if p] or [1.0]))
    blocks = [
        _Block(
            clique=node,
            cells=np.flatnonzero(support),
            seen=here[0] if here else None,
            stiffness=np.count_nonzero(support) * (min(own, 10 * usual) or usual),
        )
        for node, support, here, own in zip(tree.nodes, supports, held, precise, strict=True)
    ]
    for node, support, here in zip(tree.nodes, supports, held, strict=True):
        for observation in here[1:]:
            slot = AxisMap.of(observation.clique, inside=node, domain=domain)
            cells = np.flatnonzero(slot.collapse(support.astype(np.float64)) > 0)
            # Its node is kept above 0 already.
            blocks.append(_Block(clique=observation.clique, cells=cells, seen=observation, stiffness=0.0))
    return blocks


class _System:
    """Least squares among tables that agree, pulled towards given ones: x = P⁻¹(q + Aᵀλ) with A·x = B·m.

    P = stiffness + Mᵀ·W·M, where M sums cells into observed ones, is inverted block by block in closed form. A sums
    each block onto its separators; blocks that share one have the same sums m there, the total where it is empty.
    The multipliers λ solve (A·P⁻¹·Aᵀ)λ − B·m = sums − A·P⁻¹q together with Bᵀλ = 0.
    """

    def __init__(self, blocks: Sequence[_Block], *, objective: Objective, total: float) -> None:
        # SciPy is slow to import and only needed under rules.
        from scipy.sparse import csr_matrix, diags

        domain = objective.domain
        self._total = total
        starts = np.cumsum([0, *(len(block.cells) for block in blocks)])
        here = [np.arange(a, b) for a, b in pairwise(starts.tolist())]
        size = int(starts[-1])

        rows, columns, tied, tie, self._fixed = [], [], [], [], []
        conditions, sums = 0, 0
        for part, members in _shared_cliques(objective, blocks).items():
            cells = domain.cells(part)
            for number in members:
                rows.append(conditions + blocks[number].number(part, domain=domain))
                columns.append(here[number])
                if part:
                    tied.append(conditions + np.arange(cells))
                    tie.append(sums + np.arange(cells))
                else:
                    self._fixed.append(conditions)
                conditions += cells
            sums += cells if part else 0
        sum_up = csr_matrix(_indicator_entries(rows, columns), shape=(conditions, size))
        shared = csr_matrix(_indicator_entries(tied, tie), shape=(conditions, sums))

        rows, columns, self._spans, seen = [], [], {}, 0
        weights, values, shrink = [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
        loose = np.ones(size)
        self._stiffness = np.zeros(size)
        for block, at in zip(blocks, here, strict=True):
            self._stiffness[at] = block.stiffness
            if block.seen is None:
                loose[at] = 1 / block.stiffness
                continue
            into = block.number(block.seen.clique, domain=domain)
            weight = 1 / block.seen.variance.ravel()
            fibre = np.bincount(into, minlength=weight.size)
            if block.stiffness:
                loose[at] = 1 / block.stiffness
                shrink.append(weight / (block.stiffness * (block.stiffness + weight * fibre)))
            else:
                loose[at] = 1 / weight[into]
                shrink.append(np.zeros(weight.size))
            rows.append(seen + into)
            columns.append(at)
            weights.append(weight)
            values.append(block.seen.values.ravel())
            self._spans[block.seen.clique] = (seen, block.seen.values.shape)
            seen += weight.size
        self._observe = csr_matrix(_indicator_entries(rows, columns), shape=(seen, size))
        self._spread = self._observe.T.tocsr()
        self._loose, self._shrink = loose, np.concatenate(shrink)
        self._pull = self._spread @ (np.concatenate(weights) * np.concatenate(values))
        self.start: Table = np.maximum(self._spread @ np.concatenate(values), 0.0)

        crossed = sum_up @ self._spread
        stiff = sum_up @ diags(loose) @ sum_up.T - crossed @ diags(self._shrink) @ crossed.T
        self._sum_up, self._send = sum_up, sum_up.T.tocsr()
        self._factored = _factorize(stiff, shared)
        self._right = np.zeros(conditions + sums)

    def project(self, towards: Table) -> Table:
        """Return the agreeing tables of least squares and least distance from given ones."""
        free = self._invert(self._pull + self._stiffness * towards)
        conditions = self._sum_up.shape[0]
        self._right[:conditions] = -(self._sum_up @ free)
        self._right[self._fixed] += self._total
        multipliers = self._factored.solve(self._right)[:conditions]
        found: Table = free + self._invert(self._send @ multipliers)
        return found

    def observed_tables(self, tables: Table) -> dict[Clique, Table]:
        """Return the table of every observed clique."""
        flat = self._observe @ tables
        return {
            clique: flat[start : start + int(np.prod(shape))].reshape(shape)
            for clique, (start, shape) in self._spans.items()
        }

    def _invert(self, flat: Table) -> Table:
        found: Table = self._loose * flat - self._spread @ (self._shrink * (self._observe @ flat))
        return found


def _factorize(stiff: Any, shared: Any) -> Any:
    """Return the factors of [[S, −B], [−Bᵀ, 0]] with a trace of slack on its diagonal.

    Where weights differ by many orders, as between noisy counts and public totals, a slack that is the same everywhere
    is lost in rounding; there it follows the diagonal, row by row.
    """
    from scipy.sparse import bmat, diags
    from scipy.sparse.linalg import splu

    diagonal = stiff.diagonal()
    scale = float(diagonal.mean())
    own = np.where(diagonal > 0, diagonal, scale)
    even = np.full(own.size, scale), np.full(shared.shape[1], 1 / scale)
    uneven = own, shared.T @ (1 / own)
    for (first, second), slack in ((even, _SLACK), (uneven, _SLACK), (uneven, 1e3 * _SLACK)):
        blocks = [[stiff + diags(slack * first), -shared], [-shared.T, diags(-slack * second)]]
        with suppress(RuntimeError):
            return splu(
                bmat(blocks, format="csc"),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
    return splu(bmat(blocks, format="csc"))


def _shared_cliques(objective: Objective, blocks: Sequence[_Block]) -> dict[Clique, list[int]]:
    """Return the cliques on which blocks must agree, with the numbers of these blocks; the root has the total."""
    tree = objective.tree
    found: dict[Clique, dict[int, None]] = {(): {0: None}}
    for node in range(1, len(tree.nodes)):
        found.setdefault(tree.separators[node], {}).update({node: None, tree.parents[node]: None})
    for number in range(len(tree.nodes), len(blocks)):
        clique = blocks[number].clique
        home = tree.holding(clique, domain=objective.domain)[0]
        found.setdefault(clique, {}).update({home: None, number: None})
    return {clique: list(members) for clique, members in found.items()}


def _indicator_entries(
    rows: Sequence[Lookup], columns: Sequence[Lookup]
) -> tuple[Table, tuple[Lookup, Lookup]]:
    none = np.zeros(0, dtype=np.int64)
    at = np.concatenate([none, *rows]), np.concatenate([none, *columns])
    return np.ones(len(at[0])), at
