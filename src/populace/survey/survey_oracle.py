"""What an estimate sees of the private rows: questions it can pay for, and their noisy answers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from populace.core.marginals import Counts
from populace.privacy.accounting.mechanisms import Exponential, Noise
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.survey.smooth_questions import BinChoice, SmoothQuestion
from populace.survey.sums import Sum

SumBatch = tuple[Sequence[Sum], Noise]


class SurveyOracle(Protocol):
    """The survey questions of the barrier. Each is charged before it is answered, and refused if it cannot be paid."""

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return noisy sums in steps, each in the shape of its marginal; all are charged together, or none."""

    def smooth(self, question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return a number with noise that follows a smooth bound, rounded to a public lattice."""

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Return a noisy logarithm of a smooth bound: ⌈`LOG_STEPS`·(log of the bound)/t⌉ plus integer noise.

        t is the question's own, `question.smoothness`.
        """

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        """Return the number of one set of bins."""
