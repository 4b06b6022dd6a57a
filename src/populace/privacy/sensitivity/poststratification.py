"""Post-stratification: how heavy one respondent's weight can get, and which set of bins keeps weights low.

In a bin S of public population N̂ a respondent x has the weight N̂·b(x)/Σ b over S, where b are base weights of the
design. The functions here look at private counts and are exact; what leaves the barrier is a choice among sets of bins
by the exponential mechanism, and answers with noise that follows `smooth_weight_bound`.
Proof: docs/proofs/binning.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from populace.core.array_types import Floats, Ints
from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import ball

# Far above the rounding errors of doubles here: what is this much lower cannot be the highest.
_NEARLY_ONE = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bin:
    """Respondents who share a weight's denominator, by base weights: whole numbers of a public unit up to `largest`.

    Equal base weights are all 1. `total` is the population of the bin, which is public.

    >>> Bin(total=Fraction(1000), weights=np.ones(5)).highest(1)
    Fraction(250, 1)
    >>> Bin(total=Fraction(1000), weights=np.array([1, 1, 2]), largest=4).highest(0)
    Fraction(500, 1)
    """

    total: Fraction
    weights: npt.NDArray[Any]
    largest: int = 1

    def __post_init__(self) -> None:
        _check_positive(self.total, name="the population of a bin")
        _check_positive(self.largest, name="the largest base weight")
        # Only rows within the design come here; how it is kept is the reader's business.
        heaviest_first = np.sort(np.clip(self.weights, 1, self.largest).astype(np.int64))[::-1]
        object.__setattr__(self, "weights", heaviest_first)

    def highest(self, steps: int) -> Fraction:
        """Return the highest weight that anyone in the bin has, or could have, so many rows away.

        It is the greatest of three: the bin emptied, the heaviest left alone, the heaviest possible added.
        """
        if steps >= len(self.weights):
            return self.total
        heaviest = int(self.weights[0])
        beside = int(self.weights[steps + 1 :].sum())  # the heaviest stays, the next k leave
        # The k heaviest leave, and the heaviest possible would come.
        without = beside + int(self.weights[steps])
        return self.total * max(
            Fraction(heaviest, heaviest + beside), Fraction(self.largest, self.largest + without)
        )

    def heights(self) -> Floats:
        """Return about `highest(k)` for k up to the number of respondents."""
        if not len(self.weights):
            return np.array([float(self.total)])
        # The sum of base weights after the 0, 1, … heaviest, and 0 twice at the end.
        rest = np.append(self.weights.sum() - np.append(0, np.cumsum(self.weights)), 0).astype(np.float64)
        heaviest = float(self.weights[0])
        kept = heaviest / (heaviest + rest[1:])
        added = self.largest / (self.largest + rest[:-1])
        return float(self.total) * np.maximum(kept, added)


def smooth_weight_bound(bins: Sequence[Bin], *, beta: Fraction) -> arb:
    """Enclose SS_β = max over k of e^−βk·W_k at the working precision: a β-smooth bound on a weighted count.

    W_k is the highest weight that anyone has, or could have, k rows away from the sample. Proof: docs/proofs/binning.md

    >>> bins = [Bin(total=Fraction(1000), weights=np.ones(2))]
    >>> print(smooth_weight_bound(bins, beta=Fraction(1)))
    500.000000000000
    """
    _check_positive(beta, name="beta")
    found = [
        np.exp(-float(beta) * np.arange(len(heights))) * heights
        for heights in (each.heights() for each in bins)
    ]
    least = _NEARLY_ONE * max(float(values.max()) for values in found)
    near = (
        ball(each.highest(int(steps))) * (-ball(beta) * int(steps)).exp()
        for each, values in zip(bins, found, strict=True)
        for steps in np.flatnonzero(values >= least)
    )
    return reduce(arb.max, near)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binning:
    """A set of bins: each is a group of base bins, and each base bin is in one of them.

    >>> Binning(name="minors", bins=((0, 1), (2,))).totals([100, 200, 300])
    (Fraction(300, 1), Fraction(300, 1))
    """

    name: str
    bins: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        numbers = sorted(chain.from_iterable(self.bins))
        if not numbers or numbers != list(range(len(numbers))) or not all(self.bins):
            raise UsageError(
                f"the bins of {self.name!r} do not hold every base bin once.",
                hint="number base bins from 0 and put each into exactly one bin",
            )

    def bin_of_base(self) -> Ints:
        """Return the number of the bin that each base bin is in."""
        found = np.zeros(sum(map(len, self.bins)), dtype=np.int64)
        for number, group in enumerate(self.bins):
            found[list(group)] = number
        return found

    def totals(self, populations: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
        """Return the population of each bin from those of the base bins, some of which may be 0."""
        if len(populations) != sum(map(len, self.bins)):
            raise UsageError(
                f"{self.name!r} has other base bins than the populations.",
                hint="give one population per base bin",
            )
        if min(populations) < 0:
            raise UsageError("a population is below 0.", hint="give numbers of 0 or more")
        return tuple(sum((Fraction(populations[base]) for base in group), Fraction(0)) for group in self.bins)


def score_binning(bins: Sequence[Bin]) -> Fraction:
    """Return |S|/W₀: many bins are good, high weights are not."""
    return len(bins) / max(each.highest(0) for each in bins)


def binning_score_sensitivity(
    strategy: Sequence[Binning], *, populations: Sequence[int | Fraction]
) -> Fraction:
    """Return the most by which one row moves a score: Δ = max over sets of bins of |S|/min N̂.

    It holds for any base weights. Proof: docs/proofs/binning.md

    >>> alone = Binning(name="alone", bins=((0,), (1,)))
    >>> binning_score_sensitivity([alone], populations=[100, 400])
    Fraction(1, 50)
    """
    if not strategy:
        raise UsageError("no set of bins is given.", hint="give at least one")
    for binning in strategy:
        for total in binning.totals(populations):
            _check_positive(total, name="the population of a bin")
    return max(len(binning.bins) / min(binning.totals(populations)) for binning in strategy)


def _check_positive(number: Fraction | int, *, name: str) -> None:
    if not number > 0:
        raise UsageError(f"{name} is {number}.", hint="give a number above 0")
