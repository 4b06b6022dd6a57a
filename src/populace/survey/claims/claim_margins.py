"""Claims as signs: each is one number or more, made of sums over rows, that lie above 0 just where the claim holds.

A mean is compared with a threshold t without dividing: mean(x | A) > t where the sum of x − t over A is above 0. It is
one sum, to which a row adds a bounded number. Counts and totals are such sums themselves. What compares several means,
correlations or coefficients is a smooth function of sums, and is linearized where noise is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from populace.core.array_types import Floats
from populace.survey.claims.claim_rows import Moments
from populace.survey.claims.claim_syntax import (
    Statistic,
)

# A count or a variance that is not so many deviations of its noise above 0 is divided by nowhere.
MIN_SIZE_Z = 4.0


class Margin(Protocol):
    """A number that is above 0 where a claim, or a part of it, holds, and below where it does not."""

    @property
    def worth(self) -> float:
        """How much of the margin one unit of the claim's statistic is."""
        ...

    def value(self, totals: Floats) -> float:
        """Return the margin for the totals of all sums; NaN where there is none."""
        ...

    def gradient(self, totals: Floats, *, steps: Floats) -> Floats:
        """Return its derivatives; `steps` are small changes of the totals."""
        ...

    def is_clear(self, totals: Floats, *, deviations: Floats) -> bool:
        """Say whether noise with such deviations is small enough for the gradient to tell its effect."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearMargin:
    """A weighted sum of totals, and a number: its noise is known exactly."""

    coefficients: Floats
    constant: float = 0.0
    worth: float = 1.0

    def value(self, totals: Floats) -> float:
        """Return the margin."""
        return float(self.coefficients @ totals) + self.constant

    def gradient(self, totals: Floats, *, steps: Floats) -> Floats:
        """Return the coefficients."""
        del totals, steps
        return self.coefficients

    def is_clear(self, totals: Floats, *, deviations: Floats) -> bool:
        """Say yes: it is linear everywhere."""
        del totals, deviations
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothTerm:
    """A weighted quantity as a function of some of the totals, from `start` on."""

    weight: float
    statistic: Statistic
    start: int
    centres: tuple[float, ...]

    @property
    def products(self) -> list[tuple[int, int]]:
        """The pairs of variables whose products it takes."""
        return self.statistic.list_products(len(self.centres))

    @property
    def width(self) -> int:
        """How many totals it takes."""
        return 1 if self.statistic.additive else 1 + len(self.centres) + len(self.products)

    def moments(self, totals: Floats) -> Moments:
        """Return the moments behind its totals."""
        held = totals[self.start : self.start + self.width].tolist()
        return Moments.from_totals(held, centres=self.centres, products=self.products)

    def value(self, totals: Floats) -> float:
        """Return the quantity, times its weight."""
        if self.statistic.additive:
            return self.weight * float(totals[self.start])
        return self.weight * self.moments(totals).value(self.statistic)

    def is_clear(self, totals: Floats, *, deviations: Floats) -> bool:
        """Say whether counts and variances stand out from their noise."""
        if self.statistic.additive:
            return True
        count = float(totals[self.start])
        if not count > MIN_SIZE_Z * deviations[self.start]:
            return False
        spread, first = self.moments(totals).covariance, self.start + 1 + len(self.centres)
        return all(
            spread[i][i] * count > MIN_SIZE_Z * deviations[place]
            for place, (i, j) in enumerate(self.products, start=first)
            if i == j
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothMargin:
    """A combination of quantities, or its opposite, and a number: linearized at the totals that were released."""

    terms: tuple[SmoothTerm, ...]
    constant: float
    sign: float = 1.0
    worth: float = 1.0

    def value(self, totals: Floats) -> float:
        """Return the margin; NaN where a quantity has no value."""
        with np.errstate(all="ignore"):
            found = sum(term.value(totals) for term in self.terms)
        return self.sign * found + self.constant

    def gradient(self, totals: Floats, *, steps: Floats) -> Floats:
        """Return central differences over one step to both sides."""
        found = np.zeros(len(totals))
        for place, step in enumerate(steps):
            moved = np.zeros(len(totals))
            moved[place] = step
            found[place] = (self.value(totals + moved) - self.value(totals - moved)) / (2 * step)
        return found

    def is_clear(self, totals: Floats, *, deviations: Floats) -> bool:
        """Say whether all that is divided by stands out from its noise."""
        return all(term.is_clear(totals, deviations=deviations) for term in self.terms)
