"""From noisy counts of stretches and classes to the law of values inside bins. All of it is post-processing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from populace.inference.fit.projection import project_to_simplex
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Weights are kept as whole numbers that sum to about this.
WEIGHT_SCALE = 10**7


def reconcile_counts(counts: Floats, *, variance: float, total: float, spread: float) -> Floats:
    """Return non-negative counts of parts whose total is known from elsewhere, too, with variance `spread`.

    Where some stand out of the noise, those that do not are empty: rows that noise puts far out in a tail do more
    harm there than the few that are missing.
    """
    own = variance * len(counts)
    whole = max((total * own + counts.sum() * spread) / (own + spread), 0.0)
    seen = counts > DISCOVERY_CONFIG.visible_deviations * variance**0.5
    if not seen.any():
        return project_to_simplex(counts, total=whole)
    found = np.zeros(len(counts))
    found[seen] = project_to_simplex(counts[seen], total=whole)
    return found


def shrink_counts(counts: Floats, *, widths: Floats, variance: float, total: float) -> Floats | None:
    """Return the counts of parts of a stretch with much of their noise taken out, or None where nothing is seen but it.

    What stands out keeps its count. The rest moves towards an even spread, the nearer the less it differs from one
    by more than noise (James and Stein 1961).
    """
    if len(counts) < 2 or total <= 0:
        return None
    spread = widths / widths.sum()
    even = total * spread
    heaps = np.zeros(len(counts), dtype=np.bool_)
    # What heaps hold is missing from the rest, which makes further heaps visible.
    for _ in range(len(counts) - 1):
        more = ~heaps & (counts - even > DISCOVERY_CONFIG.heap_deviations * variance**0.5)
        if not more.any():
            break
        heaps |= more
        left = max(total - float(counts[heaps].sum()), 0.0)
        even = np.where(heaps, counts, left * spread / max(float(spread[~heaps].sum()), 1e-300))
    rest = ~heaps
    size = int(rest.sum())
    power = float(((counts - even)[rest] ** 2).sum())
    kept = max(0.0, 1 - (size - 2) * variance / power) if size > 2 and power > 0 else 0.0
    if not heaps.any() and kept < 0.05:
        return None
    found = np.where(rest, even + kept * (counts - even), counts)
    return project_to_simplex(found, total=total)


def shrink_class_shares(
    counts: Floats, there: npt.NDArray[np.bool_], rows: Floats, *, variance: float
) -> Floats:
    """Return for every bin (a row) the rows in each class, noise taken out by what other bins say of the class.

    The share of a class moves towards its mean over all bins that have it, the nearer the less these differ by more
    than noise.
    """
    rows = np.maximum(rows, 1.0)
    shares = counts / rows[:, None]
    noise = variance / rows**2
    found = np.zeros(counts.shape)
    for kind in range(counts.shape[1]):
        here = there[:, kind]
        if not here.any():
            continue
        own, doubt = shares[here, kind], noise[here]
        mean = float(np.average(own, weights=1 / doubt))
        between = max(float(((own - mean) ** 2 - doubt).mean()), 0.0)
        kept = between / (between + doubt) if here.sum() > 2 else np.ones(len(own))
        clean = mean + kept * (own - mean)
        # What noise alone could be is taken for none: cut at 0, it would add up.
        left = kept * doubt + (1 - kept) / float((1 / doubt).sum())
        found[here, kind] = np.where(clean > np.sqrt(left), clean, 0.0)
    empty = found.sum(axis=1) <= 0
    found[empty] = np.where(there[empty], np.maximum(shares[empty], 0.0), 0.0)
    whole = found.sum(axis=1, keepdims=True)
    return np.asarray(rows[:, None] * np.divide(found, whole, out=np.zeros(found.shape), where=whole > 0))


def integer_weights(weights: Floats, *, total: float) -> tuple[int, ...]:
    """Return weights as whole numbers, in about ten-millionths of the total."""
    scale = WEIGHT_SCALE / max(total, 1.0)
    return tuple(int(each) for each in np.rint(np.maximum(weights, 0.0) * scale))
