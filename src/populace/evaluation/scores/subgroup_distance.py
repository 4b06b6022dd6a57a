"""Where the synthetic rows are worst: groups of rows by one column, and areas, the worst first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Domain
from populace.evaluation.scores.marginal_distance import CodeArrays, Pair, Weights
from populace.evaluation.scores.score import Direction, Score

# Below so many real rows a group is small: most of its distance may be the sampling of a few rows.
MIN_GROUP_ROWS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDistance:
    """The rows with one code of a column: how far their other columns are, on average.

    `by_chance` is the distance that a random sample of the real group, as large as the synthetic one, would have.
    """

    column: str
    code: int
    rows: int
    synthetic_rows: int
    distance: float
    by_chance: float

    @property
    def small(self) -> bool:
        """Whether the group has few real rows."""
        return self.rows < MIN_GROUP_ROWS


class GroupSums:
    """Adds up the distances within groups while the tables of pairs pass by."""

    def __init__(self, domain: Domain) -> None:
        self._sums = {name: np.zeros((3, size)) for name, size in domain.items()}
        self._rows: dict[str, tuple[Floats, Floats]] = {}

    def add(self, pair: Pair, real: npt.NDArray[Any], synthetic: npt.NDArray[Any]) -> None:
        """Take a table of two columns into account, for the groups of either; one not kept whole is left out."""
        if real.ndim != 2:
            return
        for name, first, second in ((pair[0], real, synthetic), (pair[1], real.T, synthetic.T)):
            rows, drawn = first.sum(axis=1), second.sum(axis=1)
            shares = first / np.where(rows > 0, rows, 1)[:, None]
            other = second / np.where(drawn > 0, drawn, 1)[:, None]
            distance = np.where(drawn > 0, 0.5 * np.abs(shares - other).sum(axis=1), 1.0)
            by_chance = np.where(drawn > 0, _chance(shares, drawn[:, None]).sum(axis=1), 1.0)
            self._sums[name] += np.array([distance, by_chance, np.ones(len(rows))])
            self._rows.setdefault(name, (rows, drawn))

    def summarize(self, columns: Iterable[str]) -> list[GroupDistance]:
        """Return the groups of some columns that have real rows, the worst first."""
        found = []
        for name in columns:
            if name not in self._rows:
                continue
            distance, by_chance, tables = self._sums[name]
            rows, drawn = self._rows[name]
            found += [
                GroupDistance(
                    column=name,
                    code=int(code),
                    rows=int(rows[code]),
                    synthetic_rows=int(drawn[code]),
                    distance=float(distance[code] / tables[code]),
                    by_chance=float(by_chance[code] / tables[code]),
                )
                for code in np.flatnonzero(rows > 0)
            ]
        return sorted(found, key=lambda each: (-each.distance, each.column, each.code))


def pair_distance_by_group(
    real: CodeArrays, synthetic: CodeArrays, domain: Domain, *, column: str, weights: Weights | None = None
) -> list[GroupDistance]:
    """Return for each code of a column the mean total variation of all pairs of other columns among its rows.

    This is the distance behind SDNist's k-marginal score of areas. A group without synthetic rows has distance 1. With
    weights, distances are those of weighted shares, and rows are sums of weights.
    """
    size = domain[column]
    held = (None, None) if weights is None else (weights.real, weights.synthetic)
    rows, drawn = (
        np.bincount(each[column], weights=some, minlength=size)
        for each, some in zip((real, synthetic), held, strict=True)
    )
    kept = np.flatnonzero(rows > 0)
    sums, by_chance, pairs = np.zeros(size), np.zeros(size), 0
    for first, second in combinations([name for name in domain if name != column], 2):
        sizes = domain[first] * domain[second]
        keys = [
            (each[column].astype(np.int64) * domain[first] + each[first]) * domain[second] + each[second]
            for each in (real, synthetic)
        ]
        counts, other = (_count_keys(each, some) for each, some in zip(keys, held, strict=True))
        sums += 1 - _common_shares(counts, other, rows=(rows, drawn), cells=sizes)
        group = counts[0] // sizes
        shares = counts[1] / rows[group]
        by_chance += np.bincount(group, weights=_chance(shares, drawn[group]), minlength=size)
        pairs += 1
    if not pairs:
        return []
    found_groups = [
        GroupDistance(
            column=column,
            code=int(code),
            rows=int(rows[code]),
            synthetic_rows=int(drawn[code]),
            distance=float(sums[code]) / pairs if drawn[code] else 1.0,
            by_chance=float(by_chance[code]) / pairs if drawn[code] else 1.0,
        )
        for code in kept
    ]
    return sorted(found_groups, key=lambda each: (-each.distance, each.code))


Counted = tuple[Ints, npt.NDArray[Any]]


def _count_keys(keys: Ints, weights: Floats | None) -> Counted:
    """Return the keys that occur in rows of some weight, and how much they do."""
    if weights is None:
        return np.unique(keys, return_counts=True)
    found, places = np.unique(keys[weights > 0], return_inverse=True)
    return found, np.bincount(places, weights=weights[weights > 0])


def _common_shares(
    real: Counted,
    synthetic: Counted,
    *,
    rows: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    cells: int,
) -> Floats:
    """Return for each group the share of rows that both files have in common: its total variation is 1 less that."""
    _, first, second = np.intersect1d(real[0], synthetic[0], assume_unique=True, return_indices=True)
    group = real[0][first] // cells
    shares = np.minimum(real[1][first] / rows[0][group], synthetic[1][second] / rows[1][group])
    common: Floats = np.bincount(group, weights=shares, minlength=len(rows[0])).astype(np.float64)
    return common


def _chance(shares: Floats, drawn: npt.NDArray[Any]) -> Floats:
    """Return what a cell adds to the distance of a random sample: normal, and at most that of one row."""
    inner = shares * (1 - shares)
    sizes = np.maximum(drawn, 1)
    added: Floats = 0.5 * np.minimum(np.sqrt(2 * inner / (math.pi * sizes)), 2 * inner)
    return added


def score_groups(found: list[GroupDistance]) -> list[Score]:
    """Return the mean distance within groups of a column, over groups that are not small."""
    shown = [each.distance for each in found if not each.small]
    if not shown:
        return []
    return [
        Score(
            name="tv_subgroups",
            title="Subgroups: mean total variation of columns within groups",
            value=math.fsum(shown) / len(shown),
            direction=Direction.LOWER,
            scale="0 (the same shares) to 1 (no row in common), in total variation",
            blind_to="groups by several columns, and dependence within a group",
            note=f"{len(shown)} groups of {MIN_GROUP_ROWS} real rows or more, each code of each column",
        )
    ]


def score_areas(found: Mapping[str, list[GroupDistance]]) -> list[Score]:
    """Return the mean distance of pairs within areas, and the k-marginal score by area."""
    distances = [each.distance for groups in found.values() for each in groups]
    if not distances:
        return []
    mean = math.fsum(distances) / len(distances)
    blind = "dependence among more than three columns, the area included"
    note = f"{len(distances)} areas, each counting the same; one without synthetic rows counts 1"
    return [
        Score(
            name="tv_areas",
            title="Areas: mean total variation of pairs within areas",
            value=mean,
            direction=Direction.LOWER,
            scale="0 (the same shares) to 1 (no row in common), in total variation",
            blind_to=blind,
            note=note,
        ),
        Score(
            name="k_marginal_areas",
            title="k-marginal score of pairs by area (NIST 2020)",
            value=1000 * (1 - mean),
            direction=Direction.HIGHER,
            scale="0 (no row in common) to 1000 (the same shares in every pair of every area)",
            blind_to=blind,
            note=note,
        ),
    ]
