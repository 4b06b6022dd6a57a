"""The smallest ε with which a predicted error meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from populace.core.errors import UsageError
from populace.core.progress import Progress, silent


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """Where ε is searched for, in how many steps at most, and to which part of the target."""

    min_epsilon: float = 0.001
    max_epsilon: float = 100.0
    max_steps: int = 12
    tolerance: float = 0.02


SEARCH = SearchConfig()


def find_epsilon(
    error: Callable[[Fraction], float], *, target: float, progress: Progress = silent
) -> Fraction | None:
    """Return the smallest ε, to two digits, at which an error that falls with it meets a target; None if none does.

    >>> find_epsilon(lambda epsilon: 0.01 / float(epsilon), target=0.05)
    Fraction(1, 5)
    """
    if not 0 < target < 1:
        raise UsageError(f"the target error is {target}.", hint="give a share between 0 and 1, such as 0.02")
    if error(Fraction(SEARCH.max_epsilon)) > target:
        return None
    best, low = Fraction(SEARCH.max_epsilon), math.log(SEARCH.min_epsilon)
    slope, tried = -1.0, 0.0
    for step in range(SEARCH.max_steps):
        progress("searching for an epsilon", step / SEARCH.max_steps)
        # Near where a straight line leads that was right so far, but never close to an end of what is left.
        high = math.log(best)
        margin = 0.1 * (high - low)
        spent = _round_up(min(max(tried, low + margin), high - margin))
        if spent >= best:
            break
        found = error(spent)
        tried = math.log(spent) + math.log(target / max(found, 1e-12)) / slope
        if found <= target:
            best = spent
            if found > target * (1 - SEARCH.tolerance):
                break
        else:
            low = math.log(spent)
            tried += SEARCH.tolerance / 2
    return best


def _round_up(log: float) -> Fraction:
    """Return e to a power, rounded up to two digits.

    >>> _round_up(math.log(0.1234))
    Fraction(13, 100)
    """
    value = math.exp(log) * (1 - 1e-9)
    digits = 1 - math.floor(math.log10(value))
    return Fraction(math.ceil(value * 10**digits)) / Fraction(10) ** digits
