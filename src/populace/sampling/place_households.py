"""Whole households, the wide rows of linked tables, exchanged between units of a geography so that members fit each.

Two rows of one cell of the table of units change places: that table stays as it is in every unit, and so does every
row with its members. From the top down: rows first find their unit of the widest level, then one below it, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.schema.linked.table_cells import MemberCells

ROUNDS = 60
# Pairs that are weighed at once, each as if it were the only one: so many for each unit, within bounds.
PAIRS_PER_UNIT, MIN_PAIRS, MAX_PAIRS = 4, 32, 512
# After so many rounds, one after the other, in which a smaller share of the pairs is exchanged, nothing more is tried.
QUIET_ROUNDS, MIN_EXCHANGED = 4, 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitTarget:
    """One table of members: the cell of every row's members, −1 for nobody, and what each unit should have.

    `weight` says what the square of a deficit costs.
    """

    cells: Ints
    wanted: Floats
    weight: float


def place_households(
    codes: Mapping[str, npt.NDArray[Any]],
    units: Ints,
    *,
    strata: Ints,
    members: MemberCells,
    measured: MeasuredHierarchy,
    rng: np.random.Generator,
) -> Ints:
    """Return the smallest unit of every row, so that the members of each unit come near to their estimates.

    Rows change places only with rows of the same stratum. Estimates are shrunk to what the strata of a unit let expect,
    as far as they differ from that by no more than their noise.
    """
    spine = measured.plan.spine
    placed = {
        clique: members.locate(codes, clique)
        for clique in dict.fromkeys(
            query.marginal.clique for level in measured.plan.levels for query in level.queries
        )
        if clique
    }
    units = units.astype(np.int64)
    for level in range(1, spine.depth):
        parents = spine.ancestors(level - 1)[units]
        here = np.unique(np.stack([parents, strata]), axis=1, return_inverse=True)[1].reshape(-1)
        own = spine.ancestors(level)
        targets = [
            target
            for clique, cells in placed.items()
            if (
                target := shrink_target(
                    clique, cells, units=own[units], strata=here, measured=measured, level=level
                )
            )
        ]
        units = exchange_rows(units, own=own, strata=here, targets=targets, rng=rng)
    return units


def shrink_target(
    clique: Clique, cells: Ints, *, units: Ints, strata: Ints, measured: MeasuredHierarchy, level: int
) -> UnitTarget | None:
    """Return the estimates of a table in every unit of a level, shrunk to what strata let expect; None if all the way.

    Units differ from the expectation e by a variance κ e beside the noise v, where κ is estimated from all cells: an
    estimate keeps κ e/(κ e + v) of its difference. Without signal κ is 0, and the table says nothing.
    """
    estimates = measured.estimates
    found = estimates.marginal(clique, level=level)
    found = found.reshape(len(found), -1)
    variance = estimates.variance(clique, level=level).reshape(found.shape)
    expected = expect_members(cells, units=units, strata=strata, shape=(found.shape[0], found.shape[1]))
    excess = float(((found - expected) ** 2 - variance).sum())
    if excess <= 0 or not expected.any():
        return None
    signal = excess / float(expected.sum()) * expected
    kept = signal / np.maximum(signal + variance, 1e-12)
    return UnitTarget(
        cells=cells, wanted=expected + kept * (found - expected), weight=1 / max(float(variance.mean()), 1e-6)
    )


def expect_members(cells: Ints, *, units: Ints, strata: Ints, shape: tuple[int, int]) -> Floats:
    """Return how many members of each cell a unit would have if the rows of every stratum were dealt at random.

    >>> cells = np.array([[0, -1], [1, 1]])
    >>> expect_members(cells, units=np.array([0, 1]), strata=np.array([0, 0]), shape=(2, 2)).tolist()
    [[0.5, 1.0], [0.5, 1.0]]
    """
    # SciPy is slow to import.
    from scipy.sparse import csr_matrix

    count = int(strata.max(initial=-1)) + 1
    row, place = np.nonzero(cells >= 0)
    sizes = np.maximum(np.bincount(strata, minlength=count), 1)
    held = csr_matrix((1 / sizes[strata[row]], (strata[row], cells[row, place])), shape=(count, shape[1]))
    of_units = csr_matrix((np.ones(len(units)), (units, strata)), shape=(shape[0], count))
    found: Floats = (of_units @ held).toarray()
    return found


def exchange_rows(
    units: Ints, *, own: Ints, strata: Ints, targets: Sequence[UnitTarget], rng: np.random.Generator
) -> Ints:
    """Return the smallest units of rows after exchanges between rows of one stratum that lower the cost.

    `own` is the unit of the level that each smallest unit lies in; `targets` are of that level. In each round the rows
    of every stratum are paired at random, and pairs that gain are exchanged.

    >>> target = UnitTarget(cells=np.array([[0], [1]]), wanted=np.array([[0.0, 1.0], [1.0, 0.0]]), weight=1.0)
    >>> same, rng = np.array([0, 0]), np.random.default_rng(0)
    >>> exchange_rows(np.array([0, 1]), own=np.array([0, 1]), strata=same, targets=[target], rng=rng).tolist()
    [1, 0]
    """
    tables = [_Deficit.of(target, units=own[units]) for target in targets]
    if not tables:
        return units
    units = units.copy()
    step = min(max(PAIRS_PER_UNIT * len(targets[0].wanted), MIN_PAIRS), MAX_PAIRS)
    quiet = 0
    for _ in range(ROUNDS):
        one, other = _pair_rows(strata, rng=rng)
        apart = own[units[one]] != own[units[other]]
        one, other = one[apart], other[apart]
        exchanged = 0
        for start in range(0, len(one), step):
            a, b = one[start : start + step], other[start : start + step]
            gain = sum(table.weigh(a, b, own[units[a]], own[units[b]]) for table in tables) < -1e-9
            a, b = a[gain], b[gain]
            for table in tables:
                table.exchange(a, b, own[units[a]], own[units[b]])
            units[a], units[b] = units[b], units[a]
            exchanged += len(a)
        quiet = quiet + 1 if exchanged <= MIN_EXCHANGED * len(one) else 0
        if quiet == QUIET_ROUNDS:
            break
    return units


def _pair_rows(strata: Ints, *, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return pairs of rows of one stratum, at random; a row is in one pair at most. Pairs are in random order."""
    mixed = rng.permutation(len(strata))
    order = mixed[np.argsort(strata[mixed], kind="stable")]
    starts = np.flatnonzero(np.diff(strata[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    first = np.flatnonzero((place[:-1] % 2 == 0) & (strata[order[:-1]] == strata[order[1:]]))
    first = rng.permutation(first)
    return order[first], order[first + 1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Deficit:
    """What every unit lacks of a target: (units, cells and one more, of nobody, that is always 0)."""

    cells: Ints
    same: Floats
    lack: Floats
    weight: float

    @classmethod
    def of(cls, target: UnitTarget, *, units: Ints) -> _Deficit:
        count, size = target.wanted.shape
        row, place = np.nonzero(target.cells >= 0)
        have = np.bincount(units[row] * size + target.cells[row, place], minlength=count * size)
        lack = np.zeros((count, size + 1))
        lack[:, :size] = target.wanted - have.reshape(count, size)
        same = _count_shared(target.cells, target.cells)
        return cls(cells=target.cells, same=same, lack=lack, weight=target.weight)

    def weigh(self, one: Ints, other: Ints, here: Ints, there: Ints) -> Floats:
        """Return what exchanging pairs of rows, from one unit and from another, would add to the cost."""
        out, into = self.cells[one], self.cells[other]
        slope = (
            self.lack[there[:, None], into]
            - self.lack[here[:, None], into]
            - self.lack[there[:, None], out]
            + self.lack[here[:, None], out]
        ).sum(axis=1)
        moved = self.same[one] + self.same[other] - 2 * _count_shared(out, into)
        return np.asarray(2 * self.weight * (slope + moved))

    def exchange(self, one: Ints, other: Ints, here: Ints, there: Ints) -> None:
        """Exchange pairs of rows."""
        for rows, leave, enter in ((one, here, there), (other, there, here)):
            np.add.at(self.lack, (leave[:, None], self.cells[rows]), 1)
            np.add.at(self.lack, (enter[:, None], self.cells[rows]), -1)
        self.lack[:, -1] = 0


def _count_shared(one: Ints, other: Ints) -> Floats:
    """Return, row by row, how many pairs of members of both are in one cell."""
    alike = (one[:, :, None] == other[:, None, :]) & (one >= 0)[:, :, None]
    return np.asarray(alike.sum(axis=(1, 2)), dtype=np.float64)
