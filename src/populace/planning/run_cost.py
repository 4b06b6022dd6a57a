"""How long a run will take and how much memory it will need, from public quantities and what a rehearsal asked.

Constants were fitted to runs of bench/plan.py on one machine; the part that a rehearsal measures is that of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema

# CPU seconds: for the start, per column and its report, per value that is read and written, per table that a model is
# made of, of which many take less each, and per row and table that it is fitted to.
START, PER_COLUMN, PER_VALUE, PER_TABLE, TABLES, PER_FIT = 0.4, 0.071, 2e-7, 0.041, 0.8, 5.1e-8
# Bytes likewise.
BASE_BYTES, COLUMN_BYTES, VALUE_BYTES = 174e6, 0.77e6, 13.6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """CPU seconds and bytes of memory at their peak."""

    seconds: float
    memory: float


def estimate_run_cost(schema: Schema, *, rows: int, items: Sequence[Measurement], seconds: float) -> RunCost:
    """Return the effort of a run that measures such tables; `seconds` is what asking for them took here."""
    columns = len(schema.domain)
    tables = len({item.marginal for item in items if len(item.marginal.clique) > 1})
    spent = START + seconds + PER_COLUMN * columns + PER_TABLE * tables**TABLES
    spent += PER_VALUE * rows * columns + PER_FIT * rows * tables
    return RunCost(seconds=spent, memory=BASE_BYTES + COLUMN_BYTES * columns + VALUE_BYTES * rows * columns)
