"""k-anonymity, ℓ-diversity and t-closeness of a table, as they stand in the literature.

Sweeney 2002 (k-anonymity); Machanavajjhala and others 2007 (ℓ-diversity); Li, Li and Venkatasubramanian 2007
(t-closeness, with the ordered and the equal distance). None of them bounds what an attacker with other knowledge
learns; differential privacy does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.evaluation.disclosure.text_tables import TextTable

# Cells of classes × texts that are counted at once.
MAX_CELLS = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """How sensitive values vary within classes: the least over all classes.

    `distinct` counts values, `entropy` is e to the entropy of a class, and `frequency` is 1 over the largest share of
    a value: each is ℓ for the definition of that name.
    """

    distinct: int
    entropy: float
    frequency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """How far the sensitive values of a class are from those of the whole table at most: t, by which distance."""

    distance: str
    t: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Anonymity:
    """What a table says of its classes: rows that agree in all quasi-identifiers."""

    rows: int
    classes: int
    k: int
    unique_rows: int
    rows_below_5: int
    diversity: Mapping[str, Diversity]
    closeness: Mapping[str, Closeness]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)


def number_classes(table: TextTable, quasi: Sequence[str]) -> Ints:
    """Return for each row the number of its equivalence class."""
    if not quasi:
        return np.zeros(table.rows, dtype=np.int64)
    return np.unique(table.matrix(quasi), axis=0, return_inverse=True)[1].ravel()


def measure_anonymity(
    table: TextTable, *, quasi: Sequence[str], sensitive: Mapping[str, Floats | None]
) -> Anonymity:
    """Return k, ℓ and t of a table; `sensitive` has the order of each sensitive column's texts, or None."""
    classes = number_classes(table, quasi)
    sizes = np.bincount(classes)
    own = sizes[classes]
    diversity, closeness = {}, {}
    for name, places in sensitive.items():
        whole = np.bincount(table.codes[name])
        parts = list(count_values(classes, table.codes[name]))
        found = [measure_diversity(part) for part in parts]
        diversity[name] = Diversity(
            distinct=min(each.distinct for each in found),
            entropy=min(each.entropy for each in found),
            frequency=min(each.frequency for each in found),
        )
        closeness[name] = max(
            (measure_closeness(part, whole=whole, places=places) for part in parts), key=lambda each: each.t
        )
    return Anonymity(
        rows=table.rows,
        classes=len(sizes),
        k=int(sizes.min()),
        unique_rows=int((own == 1).sum()),
        rows_below_5=int((own < 5).sum()),
        diversity=diversity,
        closeness=closeness,
    )


def count_values(classes: Ints, codes: Ints) -> Iterator[Ints]:
    """Yield how often each text occurs in each class (classes × texts), some classes at a time."""
    texts, last = int(codes.max()) + 1, int(classes.max()) + 1
    step = max(1, MAX_CELLS // texts)
    order = np.argsort(classes, kind="stable")
    ends = np.searchsorted(classes[order], np.arange(0, last + step, step))
    for start, first, end in zip(range(0, last, step), ends, ends[1:], strict=False):
        rows = order[first:end]
        found = np.zeros((min(step, last - start), texts), dtype=np.int64)
        np.add.at(found, (classes[rows] - start, codes[rows]), 1)
        yield found


def measure_diversity(counts: Ints) -> Diversity:
    """Return ℓ by three definitions.

    >>> measure_diversity(np.array([[2, 1, 1], [0, 3, 3]]))
    Diversity(distinct=2, entropy=2.0, frequency=2.0)
    """
    shares = counts / counts.sum(axis=1, keepdims=True)
    entropies = -np.where(shares > 0, shares * np.log(np.where(shares > 0, shares, 1.0)), 0.0).sum(axis=1)
    return Diversity(
        distinct=int((counts > 0).sum(axis=1).min()),
        entropy=float(np.exp(entropies.min()).round(12)),
        frequency=float(1 / shares.max()),
    )


def measure_closeness(counts: Ints, *, whole: Ints, places: Floats | None) -> Closeness:
    """Return t: the earth mover's distance between a class and the whole table, the largest of all classes.

    Between values without an order every distance is 1, and t is the total variation. Between m ordered values the
    distance of the i-th and the j-th is |i − j|/(m − 1); rows without a value do not count.

    >>> measure_closeness(np.array([[1, 1], [0, 2]]), whole=np.array([1, 3]), places=None)
    Closeness(distance='equal', t=0.25)
    """
    if places is None:
        moved = counts / counts.sum(axis=1, keepdims=True) - whole / whole.sum()
        return Closeness(distance="equal", t=float(np.abs(moved).sum(axis=1).max() / 2))
    # Texts of equal rank, such as 5 and 5.0, are one value; values that no row has do not count.
    held = np.flatnonzero((whole > 0) & ~np.isnan(places[: len(whole)]))
    values, rank = np.unique(places[held], return_inverse=True)
    sizes = counts[:, held].sum(axis=1)
    if not len(values) or not sizes.any():
        return Closeness(distance="ordered", t=0.0)
    moved = counts[sizes > 0][:, held] / sizes[sizes > 0][:, None] - whole[held] / whole[held].sum()
    ordered = np.zeros((len(moved), len(values)))
    np.add.at(ordered.T, rank, moved.T)
    steps = np.abs(np.cumsum(ordered, axis=1)).sum(axis=1)
    return Closeness(distance="ordered", t=float(steps.max() / max(len(values) - 1, 1)))
