"""The model of rows that were released one by one: each as often as its noisy count says, and no other."""

from __future__ import annotations

import numpy as np

from populace.core.marginals import Clique, Domain, Grouping
from populace.inference.factor import Table
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import unused_name
from populace.measurements.measurements import ReleasedRows
from populace.methods.histogram.histogram_model import MIN_TOTAL

# All tables of rows by codes together, 8 bytes a cell and a few copies.
MAX_ROW_CELLS = 2**26


def released_rows_model(released: ReleasedRows, *, domain: Domain) -> Model:
    """Return the model whose rows are those that were released.

    A hidden variable numbers the rows, and every column follows from it: one table of rows by codes for each column,
    in which the codes that no row has are one group. Where these tables would be too large, the most frequent rows
    are kept. If no row was released, the model expects none, and a release has none.
    """
    kept = _most_frequent(released)
    if not len(kept):
        return _empty_model(domain)
    counts, hidden = released.counts[kept], unused_name("row", domain)
    potentials: dict[Clique, Table] = {(hidden,): np.log(counts)}
    groupings: dict[str, Grouping] = {}
    within: dict[str, Table] = {}
    for name, codes in zip(released.columns, released.codes[kept].T, strict=True):
        used, place = np.unique(codes, return_inverse=True)
        size = domain[name]
        if len(used) < size - 1:
            groups = np.full(size, len(used))
            groups[used] = np.arange(len(used))
            groupings[name] = Grouping(name, tuple(groups.tolist()))
            within[name] = 1 / np.bincount(groups)[groups]
            size = len(used) + 1
            codes = place.reshape(-1)
        table = np.full((size, len(counts)), FORBIDDEN)
        table[codes, np.arange(len(counts))] = 0.0
        potentials[(name, hidden)] = table
    return Model(
        domain=domain,
        groupings=groupings,
        potentials=potentials,
        total=float(counts.sum()),
        within=within,
        hidden={hidden: len(counts)},
    )


def _empty_model(domain: Domain) -> Model:
    """Return a model that expects no rows; each column is one group, however large."""
    return Model(
        domain=domain,
        groupings={name: Grouping(name, (0,) * size) for name, size in domain.items()},
        potentials={},
        total=MIN_TOTAL,
        within={name: np.full(size, 1 / size) for name, size in domain.items()},
    )


def _most_frequent(released: ReleasedRows) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the numbers of the rows that are kept, the most frequent ones first where not all fit."""
    codes = sum(len(np.unique(column)) + 1 for column in released.codes.T)
    most = max(1, MAX_ROW_CELLS // max(codes, 1))
    if len(released.counts) <= most:
        return np.arange(len(released.counts))
    return np.sort(np.argsort(-released.counts, kind="stable")[:most])
