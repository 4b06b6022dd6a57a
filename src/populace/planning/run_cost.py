"""How long a run will take and how much memory it will need, from public quantities and what a simulation asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCostConfig:
    """CPU seconds and bytes, fitted to runs of bench/plan.py on one machine.

    Seconds are those of the start, of a column and its report, of a value that is read and written, of a table of the
    model, of which many take less each, and of a row in the fit to a table.
    """

    start_seconds: float = 0.4
    column_seconds: float = 0.071
    value_seconds: float = 2e-7
    table_seconds: float = 0.041
    table_power: float = 0.8
    fit_seconds: float = 5.1e-8
    start_bytes: float = 174e6
    column_bytes: float = 0.77e6
    value_bytes: float = 13.6


COST = RunCostConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """CPU seconds, and bytes of memory at their peak."""

    seconds: float
    memory: float


def estimate_run_cost(schema: Schema, *, rows: int, items: Sequence[Measurement], seconds: float) -> RunCost:
    """Return the cost of a run that measures such tables; `seconds` is what asking for them took here."""
    columns = len(schema.domain)
    tables = len({item.marginal for item in items if len(item.marginal.clique) > 1})
    spent = COST.start_seconds + seconds + COST.column_seconds * columns
    spent += COST.table_seconds * tables**COST.table_power
    spent += COST.value_seconds * rows * columns + COST.fit_seconds * rows * tables
    memory = COST.start_bytes + COST.column_bytes * columns + COST.value_bytes * rows * columns
    return RunCost(seconds=spent, memory=memory)
