"""A table without rows, told exactly: what it is asked can be asked of any table, and what it refuses, all refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from populace.errors import UsageError
from populace.marginals import Counts
from populace.privacy.budget import Budget
from populace.privacy.distributions import LARGEST_SCALE
from populace.privacy.mechanisms import DiscreteLaplace, Exponential, Noise
from populace.privacy.smooth_noise import SmoothNoise
from populace.schema.schema import Schema
from populace.survey.oracle import SumBatch
from populace.survey.questions import BinChoice, SmoothQuestion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Empty:
    """An oracle about no rows. Nothing is charged, for nothing is read."""

    schema: Schema
    budget: Budget

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums of nothing."""
        for _, noise in batches:
            _check(noise)
        domain = self.schema.domain
        return tuple(np.zeros(each.by.shape(domain), dtype=np.int64) for sums, _ in batches for each in sums)

    def smooth(self, question: SmoothQuestion, *, law: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return an answer about nothing."""
        del question, law, lattice
        return Fraction(0)

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Return the size of the bound of nothing."""
        del question
        _check(noise)
        return 0

    def choose_bins(self, question: BinChoice, *, law: Exponential) -> int:
        """Return the first set of bins."""
        del question, law
        return 0


def _check(noise: Noise) -> None:
    """Refuse noise that could not be drawn once it is paid for."""
    wide = (
        noise.scale > LARGEST_SCALE
        if isinstance(noise, DiscreteLaplace)
        else noise.variance > LARGEST_SCALE**2
    )
    if wide:
        raise UsageError(
            "epsilon is too small for so many questions: their noise could not be drawn.",
            hint="ask for less, or with a larger epsilon",
        )
