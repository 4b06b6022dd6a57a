"""Rows that stand for several units: how the cells of a frequency column are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from populace.core.array_types import Ints
from populace.core.limits import LIMITS
from populace.schema.codec.cell_texts import Array, to_floats


def read_frequencies(cells: Array, *, decimal: str = ".") -> Ints:
    """Return for how many units each row stands.

    Whatever is no whole number of 0 or more stands for none, and what is above a limit for as many as the limit: one
    unit more or less moves the count of its row by at most one. Proof: docs/proofs/frequency.md.

    >>> read_frequencies(pa.array(["3", "2.5", "-1", None, "many"])).tolist()
    [3, 0, 0, 0, 0]
    """
    values = to_floats(
        cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells, decimal=decimal
    )
    whole = (values >= 0) & (values == np.floor(values))
    counted: Ints = np.where(whole, np.minimum(values, LIMITS.max_frequency), 0).astype(np.int64)
    return counted
