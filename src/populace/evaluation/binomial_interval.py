"""The interval of Clopper and Pearson for a share that was counted."""

from __future__ import annotations

LEVEL = 0.95


def clopper_pearson(successes: int, trials: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Return an interval that covers the probability of a success at least so often, whatever it is.

    Clopper and Pearson 1934.

    >>> [round(end, 4) for end in clopper_pearson(0, 10)]
    [0.0, 0.3085]
    >>> [round(end, 4) for end in clopper_pearson(5, 10)]
    [0.1871, 0.8129]
    """
    from scipy.special import betaincinv

    outside = (1 - level) / 2
    low = 0.0 if not successes else float(betaincinv(successes, trials - successes + 1, outside))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - outside))
    return low, high
