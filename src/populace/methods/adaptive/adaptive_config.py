"""The numbers by which `adaptive` is tuned; docs/decisions/adaptive.md says what they were compared with."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConfig:
    """Shares of the budget, and when a table is worth measuring."""

    first_share: Fraction = Fraction(10, 100)
    """Of the budget, for all columns at first: they decide which pairs can be worth their noise."""
    score_share: Fraction = Fraction(2, 100)
    """Of the budget, for one noisy score of every pair."""
    score_deviations: float = 1.0
    """A score this many standard deviations of its noise above 0 is no better than one of 0."""
    clear_score: float = 0.03
    """Scores are clear when the standard deviation of their noise is this part of all rows."""
    max_score_rounds: int = 2
    """How often pairs are scored while noise hides what matters."""
    max_public_share: Fraction = Fraction(10, 100)
    """Whether to trust a public table is worth more of a budget where one score would not decide."""
    max_saving_size: int = 100
    """Two columns of two codes and any third, or columns of 2, 3 and fewer than 6: no other triples save anything."""
    max_saving_triples: int = 5000
    """Triples that are measured in place of three pairs."""
    residual_rank: float = 2.0
    """A denoised pair errs as if its residual had this rank: of the noise of m × n cells, rank·(m + n) is left."""
    precise_pairs: float = 0.01
    """When pairs err by less than this on average, in total variation, triples are scored."""
    triple_share: Fraction = Fraction(30, 100)
    """Of what pairs would get, for triples."""
    triple_score_share: Fraction = Fraction(10, 100)
    """Of what triples get, for scoring them."""


ADAPTIVE_CONFIG = AdaptiveConfig()
