"""The numbers of the DPSyn entry to the NIST challenge of 2020, and those that keep it apt for small tables."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class DpsynConfig:
    """Parts of ε for every row θ that one unit moves, and how rows are counted out by area."""

    min_total_epsilon: Fraction = Fraction(1, 35)
    """From this ε/θ on, the number of rows is measured; below, the partition alone."""
    total_epsilon: Fraction = Fraction(1, 1400)
    """ε₀/θ, for the number of rows."""
    partition_epsilon: Fraction = Fraction(1, 50)
    """ε₁/θ, for the partition at least."""
    max_partition_epsilon: Fraction = Fraction(1, 25)
    """ε₃/θ, for the partition at most."""
    column_rows: int = 1500
    """τ₁·Ñ/θ: columns are worth their noise from ε = so many rows over all rows on."""
    pairs_factor: int = 6
    """τ₂/τ₁: pairs need so many times what columns do."""
    public_group_columns: int = 3
    """Declared groups of so many columns are taken from the public table; larger ones are known by their pairs."""
    min_area_rows: int = 300
    """Small areas are raised to so many rows."""
    step_public: int = 10
    """Rows by area are rounded to multiples of this beside public tables alone."""
    step_measured: int = 100
    """Rows by area are rounded to multiples of this beside measured tables."""
    moved_row_in: int = 20
    """Neither raising nor rounding moves more than one row in so many, unless the schema says so."""


DPSYN_CONFIG = DpsynConfig()
