"""How long a run will take and how much memory it will need, from public quantities and what a rehearsal asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.measurements import Measurement
from populace.schema.schema import Schema

# CPU seconds, by bench/plan.py: for the start and the report, per value read and written, per table, per million
# cells of measured tables, and per row and table that it is fitted to.
START, PER_VALUE, PER_TABLE, PER_CELLS, PER_FIT = 2.5, 4e-7, 3e-3, 4.0, 2.5e-8
# Bytes likewise: for libraries and report, per value, and per cell of all pairs together.
BASE_BYTES, VALUE_BYTES, CELL_BYTES = 260e6, 14.0, 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """CPU seconds and bytes of memory at their peak."""

    seconds: float
    memory: float


def effort(schema: Schema, *, rows: int, items: Sequence[Measurement], seconds: float) -> Effort:
    """Return the effort of a run that measures such tables; `seconds` is what asking for them took here."""
    tables = {item.marginal: item.counts.size for item in items if len(item.marginal.clique) > 1}
    cells = float(np.sum(list(tables.values()), dtype=np.float64)) if tables else 0.0
    values = float(rows) * len(schema.domain)
    spent = START + seconds + PER_VALUE * values + PER_TABLE * len(tables) + PER_CELLS * cells / 1e6
    spent += PER_FIT * rows * len(tables)
    return Effort(seconds=spent, memory=BASE_BYTES + VALUE_BYTES * values + CELL_BYTES * cells)
