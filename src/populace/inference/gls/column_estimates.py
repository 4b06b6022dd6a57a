"""One column by itself: what its own tables say about its codes, and its best counts once the total is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Grouping, Lookup
from populace.inference.factor import Table
from populace.inference.gls.observations import Observation
from populace.measurements.measurements import Measurement

# Eigenvalues this far below the largest are nothing but rounding.
_ZERO_EIGENVALUE = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnEvidence:
    """The tables of one column by itself, as normal equations over its atoms: precision · counts = weighted.

    An atom is a set of codes that no grouping tells apart: `atoms[code]`; it lies in one group of the model:
    `groups[atom]`. `precision` is a matrix, or its diagonal where it has nothing else. `fine` holds the mean of the
    tables that count every code, with variance `loose` in each cell; only they tell the codes of an atom apart.
    """

    atoms: Lookup
    groups: Lookup
    precision: Table
    weighted: Table
    fine: Table | None = None
    loose: float = 0.0

    @staticmethod
    def of_cells(same: Sequence[Observation]) -> ColumnEvidence:
        """Return the evidence of observations of one column: each cell is an atom and a group of its own."""
        cells = np.arange(same[0].values.size)
        return ColumnEvidence(
            atoms=cells,
            groups=cells,
            precision=np.asarray(sum(1 / o.variance for o in same)),
            weighted=np.asarray(sum(o.values / o.variance for o in same)),
        )

    @staticmethod
    def of_tables(tables: Sequence[Measurement], *, size: int, grouping: Grouping | None) -> ColumnEvidence:
        """Return the evidence of measurements of one column, in any groupings, for a model that groups it as said."""
        variants = list(dict.fromkeys(variant for table in tables for variant in table.marginal.groupings))
        # A model without a grouping asks for every code.
        lookups = (
            [np.arange(size)] if grouping is None else [variant.lookup for variant in (grouping, *variants)]
        )
        _, first, atoms = np.unique(np.stack(lookups), axis=1, return_index=True, return_inverse=True)
        atoms = atoms.reshape(-1)
        count = len(first)
        diagonal, weighted = np.zeros(count), np.zeros(count)
        dense = np.zeros((count, count)) if any(variant.size < count for variant in variants) else None
        fine, known = np.zeros(size), 0.0
        for table in tables:
            precision = 1 / float(table.variance)
            if not table.marginal.groupings:
                fine, known = fine + precision * table.counts, known + precision
                continue
            group = table.marginal.groupings[0].lookup[first]
            weighted += precision * table.counts[group]
            if dense is None:
                diagonal += precision
            else:
                dense += precision * (group[:, None] == group)
        if known:
            codes = np.bincount(atoms, minlength=count)
            diagonal += known / codes
            weighted += _sum_by_place(atoms, fine) / codes
        return ColumnEvidence(
            atoms=atoms,
            groups=np.arange(size) if grouping is None else grouping.lookup[first],
            precision=diagonal if dense is None else dense + np.diag(diagonal),
            weighted=weighted,
            fine=fine / known if known else None,
            loose=1 / known if known else 0.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnEstimate:
    """One column's counts of atoms given the total T: `given + (T − given.sum()) · share`.

    `share` sums to 1: a wrong total moves the uncertain atoms most. Given T the covariance is `spread`, a matrix or
    the diagonal of one, less `share · shareᵀ · whole`. `free` are directions of which nothing is known.
    """

    evidence: ColumnEvidence
    given: Table
    share: Table
    spread: Table
    whole: float
    free: Table

    @staticmethod
    def solve(evidence: ColumnEvidence, *, weight: float, effect: Table) -> ColumnEstimate:
        """Join a column's own tables with what tables of several columns say about the effect of its groups.

        `effect` is the sum of their effects, each times its weight, and `weight` the sum of the weights. With P and b
        from the column's own tables and S the sums into groups, least squares given T has Q = P + weight·SᵀS,
        h = Q⁻¹(b + Sᵀ·effect), share k = Q⁻¹1 / 1ᵀQ⁻¹1, counts h + (T − 1ᵀh)·k and covariance Q⁻¹ − kkᵀ·1ᵀQ⁻¹1.
        """
        atoms = evidence.groups
        target = evidence.weighted + effect[atoms]
        free = np.zeros((len(atoms), 0))
        if evidence.precision.ndim == 1 and np.bincount(atoms).max(initial=0) <= 1:
            spread = 1 / (evidence.precision + weight)
            given, share = spread * target, spread
        else:
            own = evidence.precision
            matrix = (np.diag(own) if own.ndim == 1 else own) + weight * (atoms[:, None] == atoms)
            sizes, axes = np.linalg.eigh(matrix)
            known = sizes > _ZERO_EIGENVALUE * sizes[-1]
            free = axes[:, ~known]
            spread = (axes[:, known] / sizes[known]) @ axes[:, known].T
            given, share = spread @ target, spread.sum(axis=1)
        whole = float(share.sum())
        return ColumnEstimate(
            evidence=evidence, given=given, share=share / whole, spread=spread, whole=whole, free=free
        )

    def by_group(self) -> tuple[Table, Table, Table]:
        """Return `given`, `share` and the variances given T, all summed into the groups of the model."""
        parts = _AtomParts.of(np.arange(len(self.given)), self.evidence.groups)
        given, share = parts.sums(self.given), parts.sums(self.share)
        return given, share, np.maximum(parts.squares(self.spread) - self.whole * share**2, 0)

    def sums(self, sets: Lookup, *, total: float, variance: float) -> tuple[Table, Table] | None:
        """Return the counts of sets of codes and their variances, given those of the total; `sets[code]` is a set.

        Inside an atom of m codes, least squares moves every code by the same: its count is that of the fine tables
        plus (atom − their sum) / m. None means that a set holds a part of what no table tells apart.
        """
        evidence = self.evidence
        parts = _AtomParts.of(evidence.atoms, sets)
        counts = self.given + (total - self.given.sum()) * self.share
        if any(np.abs(parts.sums(direction)).max() > 1e-6 for direction in self.free.T):
            return None
        values = parts.sums(counts)
        found = parts.squares(self.spread) + (variance - self.whole) * parts.sums(self.share) ** 2
        if parts.broken.any():
            if evidence.fine is None:
                return None
            atom = _sum_by_place(evidence.atoms, evidence.fine)
            values += _sum_by_place(sets, evidence.fine) - parts.sums(atom)
            found += evidence.loose * parts.broken
        return values, np.maximum(found, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _AtomParts:
    """Which part of which atom is in which set: only the parts that are not empty."""

    atom: Lookup
    set: Lookup
    part: Table
    broken: Table

    @staticmethod
    def of(atoms: Lookup, sets: Lookup) -> _AtomParts:
        """Return the parts of sets of codes; `broken` is Σ m·p·(1 − p) over the atoms of m codes, p of them inside."""
        count = int(sets.max()) + 1
        cells, codes = np.unique(atoms * count + sets, return_counts=True)
        atom, inside = np.divmod(cells, count)
        part = codes / np.bincount(atoms)[atom]
        return _AtomParts(atom=atom, set=inside, part=part, broken=_sum_by_place(inside, codes * (1 - part)))

    def sums(self, values: Table) -> Table:
        """Return the sum over each set of values of atoms."""
        return _sum_by_place(self.set, self.part * values[self.atom])

    def squares(self, spread: Table) -> Table:
        """Return the variance of each sum for a covariance of atoms, given as a matrix or as its diagonal."""
        if spread.ndim == 1:
            return _sum_by_place(self.set, self.part**2 * spread[self.atom])
        parts = np.zeros((len(spread), len(self.broken)))
        parts[self.atom, self.set] = self.part
        return np.asarray((parts * (spread @ parts)).sum(axis=0))


def _sum_by_place(places: Lookup, values: Table) -> Table:
    """Sum values that share a place; no place is empty."""
    return np.bincount(places, weights=values).astype(np.float64)
