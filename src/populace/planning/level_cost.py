"""What a hierarchical run takes: time, memory and files for each count and row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCostConfig:
    """What a run takes, fitted to whole runs (bench/census_runs.py): CPU, memory and bytes for each count and row.

    `count_…` are for each cell of each unit of every level, `measured_…` for each noisy count, `row_…` for each row
    or counted row that is released.
    """

    base_seconds: float = 2.0
    count_seconds: float = 2.2e-6
    row_seconds: float = 1.5e-6
    base_bytes: float = 270e6
    count_bytes: float = 120.0
    row_bytes: float = 80.0
    table_file_bytes: float = 5.0
    measured_file_bytes: float = 1.7
    row_file_bytes: float = 8.0
    field_file_bytes: float = 5.0


COST = LevelCostConfig()
# Members of a unit of linked tables, for average counts: about that of households in most countries.
ASSUMED_MEMBERS = 2.5
