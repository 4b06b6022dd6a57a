"""Imputation from the nearest complete rows, and how many imputed rows one row more or less can change.

A row has a place (its codes in public matching columns) and a label. An incomplete row takes its value from the k
complete rows that come first in an order on *all possible* rows: nearest first, at one distance by place, at one place
by label. Rows of one place share their order up to labels, so all work is by distinct places.
Labels are thought of as dense: there is always one below, above and between those in the file.
Proof: docs/proofs/nearest.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchedRows:
    """Places and labels of rows, and the values of complete ones."""

    places: Ints
    labels: Ints
    values: Ints

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.places)


@dataclass(frozen=True, slots=True, eq=False)
class _Recipients:
    """The incomplete rows of one place, and where the order of their donors ends."""

    place: int
    rows: Ints  # which incomplete rows
    whole: Ints  # complete rows that are donors of all of them
    block: Ints  # complete rows of the last place in the order, of which `take` are donors, by label
    take: int
    distance: int  # of the block, or endless while a further complete row would be a donor anywhere
    last: int  # the block's place, if it has one


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
        found = np.full((incomplete.size, self.k), -1, dtype=np.int64)
        for each in self._classes(complete, incomplete):
            taken = len(each.whole)
            found[each.rows, :taken] = each.whole
            if each.take:
                chosen = self._choose_donors(
                    complete.labels[each.block], incomplete.labels[each.rows], each.take
                )
                found[each.rows, taken : taken + each.take] = each.block[chosen]
        return found

    def max_changed(self, complete: MatchedRows, *, incomplete: MatchedRows) -> int:
        """Return L₁: how many imputed rows change, at most, when one row comes or leaves, the row itself included.

        Exact in all cases: a complete row leaves; one comes where there are complete rows, where there are only
        incomplete ones, or where there is none; an incomplete row comes or leaves. Proof: docs/proofs/nearest.md
        """
        donors = self.donors(complete, incomplete=incomplete)
        left = np.bincount(donors[donors >= 0], minlength=1)
        return max(1, int(left.max()), self._most_taken(complete, incomplete))

    def _most_taken(self, complete: MatchedRows, incomplete: MatchedRows) -> int:
        """Return how many incomplete rows a further complete row can become a donor of."""
        classes = list(self._classes(complete, incomplete))
        everywhere = sum(len(each.rows) for each in classes if each.distance == _INFINITE)
        near = _NewDonor(
            scheme=self,
            classes=[each for each in classes if each.distance < _INFINITE],
            complete=complete,
            incomplete=incomplete,
        )
        return everywhere + near.most()

    def _choose_donors(self, block: Ints, labels: Ints, take: int) -> Ints:
        """Return which of a block's labels, in order, come first for rows with these labels."""
        start = (
            np.searchsorted(block, labels, side="right")
            if self.ties is TieBreak.NEXT
            else np.zeros_like(labels)
        )
        return (start[:, None] + np.arange(take)) % len(block)

    def _classes(self, complete: MatchedRows, incomplete: MatchedRows) -> Iterator[_Recipients]:
        """Split incomplete rows by place, and find where the order of their donors ends."""
        homes, stock = _group_by_place(complete)
        wanting, groups = _group_by_place(incomplete)
        step = max(1, _MAX_DISTANCE_CELLS // max(1, len(homes)))
        for start in range(0, len(wanting), step):
            chunk = wanting[start : start + step]
            distances = self.space.distances(chunk, homes)
            for place, rows, row in zip(chunk, groups[start : start + step], distances, strict=True):
                yield self._class(int(place), rows, row, homes=homes, stock=stock)

    def _class(
        self, place: int, rows: Ints, distances: Ints, *, homes: Ints, stock: list[Ints]
    ) -> _Recipients:
        nearest = _smallest(distances, self.k)  # nearest places, by distance and place: k of them hold k rows
        full = np.cumsum([len(stock[one]) for one in nearest])
        none = np.empty(0, dtype=np.int64)
        if not len(full) or full[-1] < self.k:
            return _Recipients(place, rows, np.concatenate([none, *stock]), none, 0, _INFINITE, -1)
        end = int(np.searchsorted(full, self.k))
        last = nearest[end]
        whole = np.concatenate([none, *(stock[one] for one in nearest[:end])])
        take, distance = self.k - len(whole), int(distances[last])
        return _Recipients(place, rows, whole, stock[last], take, distance, int(homes[last]))


@dataclass(frozen=True, eq=False, kw_only=True)
class _NewDonor:
    """Incomplete rows with enough donors: which of them a further complete row, at any place, becomes a donor of.

    A row with k donors at its own place is only reached from there. The others are hungry: all places may reach them.
    """

    scheme: NearestNeighbours
    classes: list[_Recipients]
    complete: MatchedRows
    incomplete: MatchedRows

    @cached_property
    def hungry(self) -> list[_Recipients]:
        """Classes whose donors end at another place."""
        return [each for each in self.classes if each.distance]

    @cached_property
    def _fed(self) -> tuple[Ints, list[_Recipients]]:
        """The places of the others, in order, and these classes."""
        fed = sorted((each for each in self.classes if not each.distance), key=lambda each: each.place)
        return np.array([each.place for each in fed], dtype=np.int64), fed

    def most(self) -> int:
        """Return the most rows that one complete row, added anywhere, becomes a donor of."""
        if not self.hungry:
            return max((self._by_label([each]) for each in self.classes), default=0)
        places, step = self.scheme.space.places, max(1, _MAX_DISTANCE_CELLS // len(self.hungry))
        chunks = (np.arange(start, min(start + step, places)) for start in range(0, places, step))
        return max(self._most_at(chunk) for chunk in chunks)

    def _most_at(self, places: Ints) -> int:
        """Return the same for some consecutive places."""
        low = int(places[0])
        ends, lasts, sizes = self._limits
        distances = self.scheme.space.distances(np.array([each.place for each in self.hungry]), places)
        reached = sizes @ ((distances < ends) | ((distances == ends) & (places < lasts)))
        # Where a row would stand among the last donors, labels decide.
        by_label: dict[int, list[_Recipients]] = {}
        for one, where in zip(*np.nonzero(places == lasts), strict=True):
            by_label.setdefault(int(where), []).append(self.hungry[one])
        homes, fed = self._fed
        for one in range(*np.searchsorted(homes, [low, low + len(places)])):
            by_label.setdefault(int(homes[one]) - low, []).append(fed[one])
        for where, classes in by_label.items():
            reached[where] += self._by_label(classes)
        return int(reached.max())

    @cached_property
    def _limits(self) -> tuple[Ints, Ints, Ints]:
        ends = np.array([[each.distance] for each in self.hungry], dtype=np.int64)
        lasts = np.array([[each.last] for each in self.hungry], dtype=np.int64)
        return ends, lasts, np.array([len(each.rows) for each in self.hungry], dtype=np.int64)

    def _by_label(self, classes: list[_Recipients]) -> int:
        """Return the most rows for which one label comes before the last label that is a donor.

        A label below all others comes first for everyone. Under NEXT a row with label a, whose last donor has b, is
        reached by labels between a and b or, if b ≤ a, by those above a and those below b.
        """
        if self.scheme.ties is TieBreak.LOWEST:
            return sum(len(each.rows) for each in classes)
        own = np.concatenate([self.incomplete.labels[each.rows] for each in classes])
        last = np.concatenate([self._last_labels(each) for each in classes])
        marks = np.unique(np.concatenate([own, last]))
        # Gap g is below marks[g]; the last one is above all marks.
        begin, end = np.searchsorted(marks, own) + 1, np.searchsorted(marks, last) + 1
        change = np.bincount(begin, minlength=len(marks) + 2) - np.bincount(end, minlength=len(marks) + 2)
        change[0] += np.count_nonzero(last <= own)
        return int(np.cumsum(change[: len(marks) + 1]).max())

    def _last_labels(self, each: _Recipients) -> Ints:
        block = self.complete.labels[each.block]
        chosen = self.scheme._choose_donors(block, self.incomplete.labels[each.rows], each.take)
        return block[chosen[:, -1]]


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
