"""The projection of tables onto those that agree with each other, in the metric of their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from populace.errors import UsageError
from populace.infer.observations import Observation
from populace.infer.tables import Slot, Table
from populace.marginals import Clique, Domain


@dataclass(frozen=True, slots=True)
class _Share:
    """One table's part in an effect: where the effect lies in it, its weight in the mean, cells per effect cell."""

    table: int
    slot: Slot
    weight: float
    cells: float


@dataclass(frozen=True, slots=True)
class _Uneven:
    """A single column whose cells have different precisions, all its observations in one table."""

    table: int
    precision: Table


class Agreement:
    """Least squares among observed tables that have one total and agree wherever they overlap.

    This is `effects.estimate` with a known total, planned once and repeated many times: a table changes only through
    the effects it shares with others, by (mean effect − own effect) / cells summed into one.
    """

    def __init__(self, observations: Sequence[Observation], *, domain: Domain, total: float) -> None:
        self._domain = domain
        self._total = total
        self._uneven: dict[str, _Uneven] = {}
        holders: dict[Clique, list[_Share]] = {}
        for i, observation in enumerate(observations):
            clique, variance = observation.clique, observation.uniform
            if variance is None:
                if len(clique) != 1:
                    raise UsageError(
                        f"the cells of {clique} have different variances.",
                        hint="measure several columns together on their groups",
                    )
                self._uneven[clique[0]] = _Uneven(i, 1 / observation.variance)
                holders.setdefault(clique, [])
                continue
            for size in range(1, len(clique) + 1):
                for part in combinations(clique, size):
                    cells = domain.cells(clique) / domain.cells(part)
                    slot = Slot.of(part, inside=clique, domain=domain)
                    holders.setdefault(part, []).append(_Share(i, slot, 1 / (variance * cells), cells))
        # An effect that one table alone holds is already agreed upon.
        self._shared = [
            (part, shares)
            for part, shares in holders.items()
            if len(shares) > 1 or (len(part) == 1 and part[0] in self._uneven)
        ]

    def project(self, tables: Sequence[Table]) -> None:
        """Replace tables, in place, by the nearest ones that agree; one table per observation, in the same order."""
        uneven = {entry.table for entry in self._uneven.values()}
        changes: list[tuple[_Share, Table]] = []
        for part, shares in self._shared:
            own = [_effect(share.slot.collapse(tables[share.table])) for share in shares]
            weight = sum(share.weight for share in shares)
            mean = sum(
                (share.weight * effect for share, effect in zip(shares, own, strict=True)), np.zeros(())
            )
            if len(part) == 1 and part[0] in self._uneven:
                entry = self._uneven[part[0]]
                loose = 1 / (weight + entry.precision)
                given = (mean + entry.precision * tables[entry.table]) * loose
                counts = given + (self._total - given.sum()) * (loose / loose.sum())
                tables[entry.table][...] = counts
                agreed = counts - self._total / counts.size
            else:
                agreed = mean / weight
            changes += [(share, agreed - effect) for share, effect in zip(shares, own, strict=True)]
        for i, table in enumerate(tables):
            if i not in uneven:
                table += (self._total - table.sum()) / table.size
        for share, change in changes:
            table = tables[share.table]
            table += share.slot.spread(change / share.cells)


def _effect(table: Table) -> Table:
    """Subtract the mean along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
