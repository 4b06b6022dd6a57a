"""Imputation from the nearest complete rows, and how many imputed rows one row more or less can change.

A row has a place (its codes in public matching columns) and a label. An incomplete row takes its value from the k
complete rows that come first in an order on *all possible* rows: nearest first, at one distance by place, at one place
by label. Rows of one place share their order up to labels, so all work is by distinct places.
Labels are thought of as dense: there is always one below, above and between those in the file.
L₁ (`NearestNeighbours.max_changed`) at most doubles from one table to a neighbour, so each bound on an answer here is
ln 2-smooth: `LN_2` of privacy/smooth/smooth_noise.py is its t. Every such answer needs an ε of its own, above ln 2.
Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import UsageError

# Cells of a table of distances that is kept at a time.
_MAX_DISTANCE_CELLS = 1 << 21
_INFINITE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingSpace:
    """All places: columns of public sizes, of which the ordered ones count as numbers and the others one-hot.

    >>> MatchingSpace(sizes=(5, 3), ordered=(True, False)).distances(np.array([0]), np.array([0, 1, 7]))
    array([[0, 2, 6]])
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.ordered) or not self.sizes or min(self.sizes) < 1:
            raise UsageError(
                f"columns of sizes {self.sizes} cannot be matched.",
                hint="give each matching column a size of 1 or more, and say whether it is ordered",
            )

    @property
    def places(self) -> int:
        """How many places there are; they are numbered as the cells of an array of these sizes."""
        return int(np.prod([int(size) for size in self.sizes], dtype=object))

    def distances(self, places: Ints, others: Ints) -> Ints:
        """Return squared Euclidean distances: a one-hot column adds 2 where codes differ."""
        found = np.zeros((len(places), len(others)), dtype=np.int64)
        here, there = (np.unravel_index(each, self.sizes) for each in (places, others))
        for ordered, a, b in zip(self.ordered, here, there, strict=True):
            found += (a[:, None] - b) ** 2 if ordered else 2 * (a[:, None] != b)
        return found


class TieBreak(Enum):
    """Which label comes first among rows that are otherwise alike."""

    LOWEST = "lowest"
    NEXT = "next"  # above the incomplete row's own label, and then from the lowest again


class DonorValue(Enum):
    """What an incomplete row takes from its donors."""

    COPY = "copy"
    MEAN = "mean"
    MAJORITY = "majority"  # the lowest of the most frequent


class Membership(Enum):
    """Whether imputed columns decide who belongs to a subpopulation."""

    KNOWN = "known"
    IMPUTED = "imputed"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchedRows:
    """Places and labels of rows, and the values of complete ones."""

    places: Ints
    labels: Ints
    values: Ints


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Recipients:
    """The incomplete rows of one place, their donors in order, and where that order ends."""

    rows: Ints  # which incomplete rows
    donors: Ints  # complete rows, k for each of them; −1 where there are too few
    distance: int  # of the last donors, or endless while a further complete row would be a donor anywhere
    last: int  # the place of the last donors, if there are enough


@dataclass(frozen=True, kw_only=True)
class NearestNeighbours:
    """A deterministic scheme of k nearest neighbours.

    >>> line = NearestNeighbours(space=MatchingSpace(sizes=(5,), ordered=(True,)), k=1, ties=TieBreak.LOWEST)
    >>> rows = lambda *pairs: MatchedRows(
    ...     places=np.array([p for p, _ in pairs]), labels=np.array([l for _, l in pairs]), values=np.zeros(len(pairs))
    ... )
    >>> line.max_changed(rows((0, 5), (2, 54), (4, 24)), incomplete=rows((1, 27), (2, 61), (3, 21)))
    2
    """

    space: MatchingSpace
    k: int
    ties: TieBreak

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"{self.k} neighbours are asked for.", hint="give a whole number of 1 or more")

    def donors(self, complete: MatchedRows, *, incomplete: MatchedRows) -> Ints:
        """Return which complete rows each incomplete row takes its value from; −1 where there are too few."""
        found = np.full((len(incomplete.places), self.k), -1, dtype=np.int64)
        for each in self._classes(complete, incomplete):
            found[each.rows] = each.donors
        return found

    def max_changed(self, complete: MatchedRows, *, incomplete: MatchedRows) -> int:
        """Return L₁: how many imputed rows change, at most, when one row comes or leaves, the row itself included.

        Exact in all cases: a complete row leaves; one comes where there are complete rows, where there are only
        incomplete ones, or where there is none; an incomplete row comes or leaves. Proof: docs/proofs/nearest.md
        """
        classes = list(self._classes(complete, incomplete))
        left = np.zeros(len(complete.places), dtype=np.int64)
        for each in classes:
            np.add.at(left, each.donors[each.donors >= 0], 1)
        return max(1, int(left.max(initial=0)), self._most_taken(classes, complete, incomplete))

    def _most_taken(self, classes: list[_Recipients], complete: MatchedRows, incomplete: MatchedRows) -> int:
        """Return how many incomplete rows a further complete row, added anywhere, can become a donor of."""
        everywhere = sum(len(each.rows) for each in classes if each.distance == _INFINITE)
        near = [each for each in classes if each.distance < _INFINITE]
        taken = np.zeros(self.space.places, dtype=np.int64)
        # Where a row would stand among the last donors, labels decide.
        by_last: dict[int, list[_Recipients]] = {}
        for each in near:
            by_last.setdefault(each.last, []).append(each)
        for place, level in by_last.items():
            own = np.concatenate([incomplete.labels[each.rows] for each in level])
            last = np.concatenate([complete.labels[each.donors[:, -1]] for each in level])
            taken[place] = self._most_by_label(own, last)
        # A row with k donors at its own place is only reached from there. All places may reach the others.
        hungry = [each for each in near if each.distance]
        homes = incomplete.places[[each.rows[0] for each in hungry]]
        ends, lasts = (
            np.array([part]).T for part in ([h.distance for h in hungry], [h.last for h in hungry])
        )
        sizes = np.array([len(each.rows) for each in hungry])
        step = max(1, _MAX_DISTANCE_CELLS // max(1, len(hungry)))
        for start in range(0, len(taken) if hungry else 0, step):
            places = np.arange(start, min(start + step, len(taken)))
            distances = self.space.distances(homes, places)
            taken[places] += sizes @ ((distances < ends) | ((distances == ends) & (places < lasts)))
        return everywhere + int(taken.max())

    def _most_by_label(self, own: Ints, last: Ints) -> int:
        """Return the most rows, of these labels, for which one label comes before that of their last donor.

        A label below all others comes first for everyone. Under NEXT a row with label a, whose last donor has b, is
        reached by labels between a and b or, if b ≤ a, by those above a and those below b.
        """
        if self.ties is TieBreak.LOWEST:
            return len(own)
        marks = np.unique(np.concatenate([own, last]))
        # Gap g is below marks[g]; the last one is above all marks.
        begin, end = np.searchsorted(marks, own) + 1, np.searchsorted(marks, last) + 1
        change = np.bincount(begin, minlength=len(marks) + 2) - np.bincount(end, minlength=len(marks) + 2)
        change[0] += np.count_nonzero(last <= own)
        return int(np.cumsum(change[: len(marks) + 1]).max())

    def _classes(self, complete: MatchedRows, incomplete: MatchedRows) -> Iterator[_Recipients]:
        """Split incomplete rows by place, and find their donors."""
        homes, stock = _group_by_place(complete)
        wanting, groups = _group_by_place(incomplete)
        step = max(1, _MAX_DISTANCE_CELLS // max(1, len(homes)))
        for start in range(0, len(wanting), step):
            distances = self.space.distances(wanting[start : start + step], homes)
            for rows, away in zip(groups[start : start + step], distances, strict=True):
                # The nearest places, by distance and place: k of them hold k rows, if there are so many.
                nearest = _smallest(away, self.k)
                full = np.cumsum([0, *(len(stock[one]) for one in nearest)])
                donors = np.full((len(rows), self.k), -1, dtype=np.int64)
                end = int(np.searchsorted(full[1:], self.k))
                for one, taken in zip(nearest[:end], full[:end], strict=True):
                    donors[:, taken : taken + len(stock[one])] = stock[one]
                if full[-1] < self.k:
                    yield _Recipients(rows=rows, donors=donors, distance=_INFINITE, last=-1)
                    continue
                last = nearest[end]
                chosen = self._choose(complete.labels[stock[last]], incomplete.labels[rows])
                donors[:, full[end] :] = stock[last][chosen[:, : self.k - full[end]]]
                yield _Recipients(rows=rows, donors=donors, distance=int(away[last]), last=int(homes[last]))

    def _choose(self, block: Ints, labels: Ints) -> Ints:
        """Return the k of a block's labels, in order, that come first for rows with these labels."""
        start = (
            np.searchsorted(block, labels, side="right")
            if self.ties is TieBreak.NEXT
            else np.zeros_like(labels)
        )
        return (start[:, None] + np.arange(self.k)) % len(block)


def _group_by_place(rows: MatchedRows) -> tuple[Ints, list[Ints]]:
    """Return distinct places, and which rows are at each, by label and value."""
    order = np.lexsort((rows.values, rows.labels, rows.places))
    distinct, starts = np.unique(rows.places[order], return_index=True)
    return distinct, np.split(order, starts[1:]) if len(distinct) else []


def _smallest(distances: Ints, count: int) -> Ints:
    """Return where the so many least distances are, in order; the earlier one of equals first."""
    if count < len(distances):
        limit = np.partition(distances, count - 1)[count - 1]
        candidates = np.flatnonzero(distances <= limit)
    else:
        candidates = np.arange(len(distances))
    return candidates[np.argsort(distances[candidates], kind="stable")][:count]


def frequency_bound(max_changed: int) -> Fraction:
    """Return 1 + L₁: a count moves by the row that comes or leaves, and by those imputed anew.

    >>> frequency_bound(3)
    Fraction(4, 1)
    """
    return Fraction(1 + max_changed)


def mean_bound(
    max_changed: int, *, low: Fraction, high: Fraction, size: Fraction, membership: Membership
) -> Fraction:
    """Return a bound on a sum of values from `low` to `high`, divided by a fixed size.

    With M = max(|low|, |high|): (M + L₁·(high − low))/size, and where membership is imputed as well
    (M + L₁·max(M, high − low))/size, since a row may come into the subpopulation with all its value.

    >>> mean_bound(3, low=Fraction(-1), high=Fraction(4), size=Fraction(10), membership=Membership.KNOWN)
    Fraction(19, 10)
    """
    _check_range(low, high)
    if not size >= 1:
        raise UsageError(f"a mean over {float(size)} rows is asked for.", hint="give a size of 1 or more")
    largest, width = max(abs(low), abs(high)), high - low
    moved = width if membership is Membership.KNOWN else max(largest, width)
    return (largest + max_changed * moved) / size


def variance_bound(
    max_changed: int, *, low: Fraction, high: Fraction, centre: Fraction, size: Fraction
) -> Fraction:
    """Return a bound on Σ (value − centre)²/(size − 1) for a fixed centre and size: m·(1 + L₁)/(size − 1).

    m = max((low − centre)², (high − centre)²), whether membership is imputed or not.

    >>> variance_bound(1, low=Fraction(0), high=Fraction(4), centre=Fraction(1), size=Fraction(10))
    Fraction(2, 1)
    """
    _check_range(low, high)
    if not size >= 2:
        raise UsageError(f"a variance over {float(size)} rows is asked for.", hint="give a size of 2 or more")
    furthest = max((low - centre) ** 2, (high - centre) ** 2)
    return furthest * (1 + max_changed) / (size - 1)


def _check_range(low: Fraction, high: Fraction) -> None:
    if not low <= high:
        raise UsageError(f"values from {low} to {high} are no range.", hint="give the lower end first")
