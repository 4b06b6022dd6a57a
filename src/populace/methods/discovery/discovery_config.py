"""The numbers by which the learning of domains is tuned; docs/decisions/learnt-domains.md gives their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryConfig:
    """Shares of the budget and of δ, and how finely columns of numbers are looked at."""

    values_share: Fraction = Fraction(6, 100)
    """Of the budget, for the values of one column."""
    base_share: Fraction = Fraction(1, 4)
    """Of the budget, for all columns together at most."""
    extra_share: Fraction = Fraction(9, 100)
    """So much more for all together, over the standard deviation of noise in rows: the less noise, the more."""
    max_share: Fraction = Fraction(2, 5)
    """Never more of the budget than this for all together."""
    base_numeric_share: Fraction = Fraction(8, 100)
    """Of the budget, for a column of numbers."""
    extra_numeric_share: Fraction = Fraction(19, 100)
    """So much more for a column of numbers, over the standard deviation of noise in rows."""
    delta_share: Fraction = Fraction(1, 10)
    """The part of δ that is set aside where values are learnt."""
    sketch_parts: tuple[Fraction, ...] = (Fraction(8, 100), Fraction(4, 100), Fraction(4, 100))
    """Of a column's share, for each round of its sketch."""
    bin_part: Fraction = Fraction(24, 100)
    """Of a column's share, for the table of its bins, which the model uses as well."""
    coarse_part: Fraction = Fraction(32, 100)
    """Of a column's share, for ranges inside its bins."""
    fine_part: Fraction = Fraction(18, 100)
    """Of a column's share, for finer ranges where rows are many."""
    class_part: Fraction = Fraction(10, 100)
    """Of a column's share, for how round values are in each bin."""
    coarse_ranges: int = 4
    """Every bin is cut into so many ranges."""
    fine_ranges: int = 12
    """A range that holds rows is cut into so many again."""
    heavy_share: float = 1 / 20
    """A range that holds more than this part of all rows is sketched again."""
    fan_out: int = 16
    """A heavy range is sketched in so many parts."""
    certain_deviations: float = 4.0
    """A range stands out of its noise by so many standard deviations."""
    target_bins: int = 26
    """As many bins of one weight are aimed at."""
    max_bins: int = 32
    """So many bins are the most."""
    heap_deviations: float = 3.5
    """A count this many standard deviations above those beside it is a heap, and is kept as it is."""
    visible_deviations: float = 2.0
    """A count below this many standard deviations could be noise alone."""


DISCOVERY_CONFIG = DiscoveryConfig()
