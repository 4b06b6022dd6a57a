"""Non-negative tables that agree with each other and are nearest to what was observed, in the metric of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain
from populace.inference.factor import AxisMap, Table, centre
from populace.inference.gls.observations import Observation, separable_part

Index = npt.NDArray[np.intp]

_CHECK_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentTables:
    """One table per observed clique, and a number below which no distribution's loss can be.

    `pulls` are the tables less what holds their empty cells at 0: how far these would fall below it.
    """

    tables: dict[Clique, Table]
    pulls: dict[Clique, Table]
    bound: float


def fit_consistent_tables(
    observations: Sequence[Observation],
    *,
    domain: Domain,
    total: float,
    tolerance: float = 1e-8,
    rounds: int = 500,
) -> ConsistentTables:
    """Minimise ½ Σ (x − y)² / variance over tables x ≥ 0 that agree where they overlap and have one total.

    Without the signs the answer is closed-form (`ConsistencyProjection`). The multipliers of x ≥ 0 are found
    by accelerated
    projected ascent of the dual: with s the multipliers times the variances, x = project(y + s) and s moves to
    max(0, s − x), which is Dykstra's (1983) alternation of least squares and cutting at 0, with Nesterov's momentum
    and restarts. Every dual value is a lower bound. On a tree without added edges agreeing tables always belong to
    a distribution and the bound is reached; otherwise it may be lower than any distribution's loss.
    Ends when ten rounds raise the bound by less than tolerance × bound; cells still below 0 are cut there.
    """
    observations = [separable_part(o) for o in observations]
    kept = [o for o in observations if o.clique]
    ends = np.cumsum([0, *(o.values.size for o in kept)]).tolist()
    values = np.concatenate([np.zeros(0), *(o.values.ravel() for o in kept)])
    variance = np.concatenate([np.ones(0), *(o.variance.ravel() for o in kept)])
    agreement = ConsistencyProjection(kept, domain=domain, total=total)

    def views(flat: Table) -> list[Table]:
        return [flat[ends[i] : ends[i + 1]].reshape(o.values.shape) for i, o in enumerate(kept)]

    # The total's own observation has nothing to give: the total is fixed.
    constant = sum(
        0.5 * (total - float(o.values)) ** 2 / float(o.variance) for o in observations if not o.clique
    )
    lifted, ahead, momentum, bound = np.zeros(values.size), np.zeros(values.size), 1.0, -math.inf
    nearest = values.copy()
    for done in range(rounds):
        nearest = values + ahead
        agreement.project(nearest)
        if done % _CHECK_EVERY == 0:
            missed = nearest - values
            found = constant + float(((0.5 * missed * missed - ahead * nearest) / variance).sum())
            if found - bound <= tolerance * max(1.0, found):
                bound = max(bound, found)
                break
            bound = found
        risen = np.maximum(ahead - nearest, 0.0)
        if float((nearest * (risen - lifted) / variance).sum()) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = risen + ((momentum - 1) / following) * (risen - lifted)
        # Where the extrapolation went below 0 it is no multiplier and would spoil the bound.
        np.maximum(ahead, 0.0, out=ahead)
        lifted, momentum = risen, following
    cut = np.maximum(nearest, 0.0)
    return ConsistentTables(
        tables={o.clique: table for o, table in zip(kept, views(cut), strict=True)},
        pulls={o.clique: table for o, table in zip(kept, views(cut - lifted), strict=True)},
        bound=bound,
    )


@dataclass(frozen=True, slots=True)
class _TableEffect:
    """One table's part in an interaction: where it lies in the table, its weight in the mean, cells per cell of it."""

    table: int
    slot: AxisMap
    weight: float
    cells: float


class ConsistencyProjection:
    """Least squares among observed tables that have one total and agree wherever they overlap.

    This is `estimate_gls` with a known total, planned once and repeated many times: a table changes only through
    the effects it shares with others, by (mean effect − own effect) / cells summed into one.
    Tables stand one after the other in a flat vector; those of several columns have one variance each. Single columns,
    which most tables share, are dealt with all at once: `_sum` says for every cell, and for every axis of its table,
    which sum it is counted into.
    """

    def __init__(self, observations: Sequence[Observation], *, domain: Domain, total: float) -> None:
        self._total = total
        self._shapes = [o.values.shape for o in observations]
        self._sizes = np.array([o.values.size for o in observations], dtype=np.intp)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._even = np.array([o.uniform is not None for o in observations], dtype=np.bool_)
        first = dict(zip(domain, np.cumsum([0, *domain.values()]).tolist(), strict=False))
        codes, weights, cells, lengths = [], [], [], []
        uneven, positions, precisions, widths = [], [], [], []
        holders: dict[Clique, list[_TableEffect]] = {}
        depth = max((len(o.clique) for o in observations), default=0)
        # What is in no sum is counted into the last, which is ignored.
        self._sum: Index = np.full((depth, int(self._sizes.sum())), -1, dtype=np.intp)
        sums = 0
        for i, (observation, start) in enumerate(zip(observations, self._starts.tolist(), strict=True)):
            clique, variance = observation.clique, observation.uniform
            here = slice(start, start + observation.values.size)
            if variance is None:
                widths.append(domain[clique[0]])
                uneven.append(first[clique[0]] + np.arange(domain[clique[0]]))
                positions.append(np.arange(here.start, here.stop))
                precisions.append(1 / observation.variance)
                continue
            for axis, (name, numbers) in enumerate(zip(clique, np.indices(self._shapes[i]), strict=True)):
                width, summed = domain[name], observation.values.size / domain[name]
                self._sum[axis, here] = sums + numbers.ravel()
                codes.append(first[name] + np.arange(width))
                weights.append(1 / (variance * summed))
                cells.append(summed)
                lengths.append(width)
                sums += width
            for size in range(2, len(clique) + 1):
                for part in combinations(clique, size):
                    summed = domain.cells(clique) / domain.cells(part)
                    slot = AxisMap.of(part, inside=clique, domain=domain)
                    holders.setdefault(part, []).append(
                        _TableEffect(i, slot, 1 / (variance * summed), summed)
                    )
        self._sum[self._sum < 0] = sums
        self._lengths = np.array(lengths, dtype=np.intp)
        self._code = _concatenate(codes, np.intp)
        self._weight, self._cells = np.repeat([weights, cells], self._lengths, axis=1)
        whole = np.bincount(self._code, weights=self._weight, minlength=sum(domain.values()))
        self._whole = np.where(whole > 0, whole, 1.0)
        self._uneven, self._position = _concatenate(uneven, np.intp), _concatenate(positions, np.intp)
        self._precision, self._widths = _concatenate(precisions), np.array(widths, dtype=np.intp)
        self._loose = 1 / (whole[self._uneven] + self._precision)
        self._part = self._loose / np.repeat(_segment_sums(self._loose, self._widths), self._widths)
        # An effect that one table alone holds is already agreed upon.
        self._interactions = [shares for shares in holders.values() if len(shares) > 1]

    def project(self, flat: Table) -> None:
        """Replace tables, in place, by the nearest ones that agree; all tables in one vector, in their order."""
        tables = [
            flat[start : start + size].reshape(shape)
            for start, size, shape in zip(self._starts, self._sizes, self._shapes, strict=True)
        ]
        changes = [change for shares in self._interactions for change in _changes_to_mean(tables, shares)]
        missing = np.where(self._even, (self._total - _segment_sums(flat, self._sizes)) / self._sizes, 0.0)
        own = np.zeros(self._code.size + 1)
        for index in self._sum:
            own += np.bincount(index, weights=flat, minlength=own.size)
        effect = own[:-1] - np.repeat(_segment_sums(own[:-1], self._lengths) / self._lengths, self._lengths)
        mean = np.bincount(self._code, weights=self._weight * effect, minlength=self._whole.size)
        agreed = mean / self._whole
        if self._uneven.size:
            given = (mean[self._uneven] + self._precision * flat[self._position]) * self._loose
            short = self._total - _segment_sums(given, self._widths)
            counts = given + np.repeat(short, self._widths) * self._part
            flat[self._position] = counts
            agreed[self._uneven] = counts - np.repeat(self._total / self._widths, self._widths)
        change = np.append((agreed[self._code] - effect) / self._cells, 0.0)
        for index in self._sum:
            flat += change[index]
        flat += np.repeat(missing, self._sizes)
        for share, moved in changes:
            tables[share.table] += share.slot.spread(moved)


def _changes_to_mean(
    tables: Sequence[Table], shares: Sequence[_TableEffect]
) -> list[tuple[_TableEffect, Table]]:
    """Return what each table's cells must change by to have the mean of an interaction."""
    own = [centre(share.slot.collapse(tables[share.table])) for share in shares]
    weight = sum(share.weight for share in shares)
    mean = sum((s.weight * effect for s, effect in zip(shares, own, strict=True)), np.zeros(())) / weight
    return [(share, (mean - effect) / share.cells) for share, effect in zip(shares, own, strict=True)]


def _segment_sums(flat: Table, lengths: Index) -> Table:
    """Return the sums of stretches of a vector that follow each other."""
    if not lengths.size:
        return np.zeros(0)
    found: Table = np.add.reduceat(flat, np.cumsum(lengths) - lengths)
    return found


def _concatenate(parts: Sequence[npt.NDArray[Any]], kind: type = np.float64) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=kind), *parts])
