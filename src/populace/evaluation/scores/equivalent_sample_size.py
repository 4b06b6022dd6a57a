"""Equivalent sample size: how large a random sample of the real rows would be as far from them as the synthetic rows.

The expected total variation of a sample is known exactly. A count of a cell of share p in a sample of n rows drawn with
replacement is binomial, and its mean absolute deviation is 2·m·C(n, m)·pᵐ·(1 − p)ⁿ⁻ᵐ⁺¹ with m = ⌊np⌋ + 1 (de Moivre
1730; Diaconis and Zabell 1991). Without replacement the count is hypergeometric, and its mean absolute deviation is
2·m·(N − K − n + m)/N · P(X = m) (Ramasubban 1958). The sample size is where the mean over all pairs is what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Domain
from populace.evaluation.scores.marginal_distance import CodeArrays, sample_distances
from populace.evaluation.scores.score import Direction, Score

# No file is that large: whoever is closer than a sample of so many rows is as good as the real rows.
MAX_SAMPLE = 10**12
# Samples that are drawn to see how much the distance of one sample varies, and 95 % of Student's t for so many.
SIMULATED_SAMPLES, STUDENT_95 = 100, 1.9842169515086827
MIN_SIMULATED_ROWS, MAX_SIMULATED_ROWS = 20, 200_000
# Beyond this variance of a count the normal distribution gives its mean absolute deviation to six digits.
MIN_NORMAL_VARIANCE = 1e6


def binomial_deviation(rows: int, shares: Floats) -> Floats:
    """Return the mean absolute deviation of binomial counts from their means.

    >>> binomial_deviation(2, np.array([0.5, 1.0])).tolist()      # 0, 1 or 2 with shares ¼, ½, ¼
    [0.5, 0.0]
    """
    from scipy.special import gammaln

    variance = rows * shares * (1 - shares)
    inner = np.where((shares > 0) & (shares < 1), shares, 0.5)
    above = np.minimum(np.floor(rows * inner) + 1, rows)
    logarithm = (
        np.log(above)
        + gammaln(rows + 1.0)
        - gammaln(above + 1)
        - gammaln(rows - above + 1)
        + above * np.log(inner)
        + (rows - above + 1) * np.log1p(-inner)
    )
    exact = 2 * np.exp(logarithm)
    normal = np.sqrt(2 * variance / math.pi)
    found = np.where(variance > MIN_NORMAL_VARIANCE, normal, exact)
    return np.where((shares > 0) & (shares < 1), found, 0.0)


def hypergeometric_deviation(sample: int, counts: Floats, *, rows: int) -> Floats:
    """Return the mean absolute deviation of counts in a sample without replacement from their means.

    >>> hypergeometric_deviation(1, np.array([1.0, 2.0]), rows=2).tolist()      # one of two rows; all rows are alike
    [0.5, 0.0]
    """
    from scipy.special import gammaln

    inside = (counts > 0) & (counts < rows)
    held = np.where(inside, counts, 1.0)
    above = np.floor(sample * held / rows) + 1
    rest = rows - held - sample + above
    possible = inside & (above <= np.minimum(held, sample)) & (rest > 0)
    above = np.where(possible, above, 1.0)
    rest = np.where(possible, rest, 1.0)

    def choose(whole: Any, part: Any) -> Any:
        return gammaln(whole + 1.0) - gammaln(part + 1.0) - gammaln(np.maximum(whole - part, 0.0) + 1.0)

    logarithm = choose(held, above) + choose(rows - held, sample - above) - choose(float(rows), float(sample))
    return np.where(possible, 2 * above * rest / rows * np.exp(np.where(possible, logarithm, 0.0)), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellShares:
    """The cells of all pairs of a file: the shares that occur, and how many cells have each."""

    shares: Floats
    cells: Floats
    pairs: int
    rows: int
    whole: bool

    @classmethod
    def of(cls, tables: Iterable[npt.NDArray[Any]], *, rows: int) -> CellShares:
        """Collect the cells of the tables of all pairs of a file; with weights there are shares and no counts."""
        parts, numbers, pairs, whole = [], [], 0, True
        for table in tables:
            counts, cells = np.unique(table[table > 0], return_counts=True)
            whole &= table.dtype.kind == "i"
            parts.append(counts / table.sum())
            numbers.append(cells)
            pairs += 1
        shares, places = np.unique(np.concatenate(parts), return_inverse=True)
        summed: Floats = np.bincount(places, weights=np.concatenate(numbers)).astype(np.float64)
        return cls(shares=shares, cells=summed, pairs=pairs, rows=rows, whole=whole)

    def expect_distance(self, sample: int) -> float:
        """Return the expected mean total variation of a sample with replacement."""
        deviations = binomial_deviation(sample, self.shares)
        return float((self.cells * deviations).sum()) / (2 * sample * self.pairs)

    def trace_expectation(self, *, points: int = 25) -> tuple[tuple[int, float], ...]:
        """Return sample sizes from ten to ten times the file, and the distance that each would have."""
        sizes = np.unique(np.rint(np.geomspace(10, 10 * max(self.rows, 10), points)).astype(np.int64))
        return tuple((int(size), self.expect_distance(int(size))) for size in sizes)

    def expect_distance_without_replacement(self, sample: int) -> float:
        """Return the expected mean total variation of a sample of distinct rows."""
        counts = np.rint(self.shares * self.rows)
        deviations = hypergeometric_deviation(sample, counts, rows=self.rows)
        return float((self.cells * deviations).sum()) / (2 * sample * self.pairs)


def solve_sample_size(distance: float, *, expect: Callable[[int], float], most: int = MAX_SAMPLE) -> int:
    """Return the sample size whose expected distance is nearest to one; expectations fall as samples grow.

    >>> solve_sample_size(0.25, expect=lambda rows: 1 / rows)
    4
    """
    low, high = 1, most
    if distance >= expect(low):
        return low
    if distance <= expect(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expect(middle) > distance else (low, middle)
    return low if expect(low) - distance < distance - expect(high) else high


def simulate_relative_error(
    real: CodeArrays, domain: Domain, *, sample: int, weights: Floats | None = None
) -> float:
    """Return by how much the distance of one sample differs from sample to sample, relative to its mean.

    Samples are drawn from the real rows with a fixed seed, with weights in proportion to them.
    """
    rows = len(next(iter(real.values())))
    below = None if weights is None else np.cumsum(weights) / weights.sum()
    size = min(max(sample, MIN_SIMULATED_ROWS), MAX_SIMULATED_ROWS)
    rng = np.random.default_rng(0)
    samples = [
        rng.integers(0, rows, size=size) if below is None else _draw_places(below, size, rng=rng)
        for _ in range(SIMULATED_SAMPLES)
    ]
    pairs = list(combinations(domain, 2))
    distances = np.array([sample_distances(pair, real, samples, domain, weights=weights) for pair in pairs])
    means = distances.mean(axis=0)
    # Samples of a file whose rows are all alike do not differ from it.
    return float(np.std(means, ddof=1) / np.mean(means)) if means.any() else 0.0


def _draw_places(below: Floats, size: int, *, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return rows drawn with replacement, from cumulated shares."""
    found: npt.NDArray[np.int64] = np.searchsorted(below, rng.random(size), side="right")
    return np.minimum(found, len(below) - 1)


def score_sample_size(
    real: CodeArrays,
    *,
    cells: CellShares,
    distance: float,
    domain: Domain,
    relative_error: float | None = None,
    weights: Floats | None = None,
) -> list[Score]:
    """Return the equivalent sample size with its interval, and the sampling fraction without replacement.

    A sample of n rows has a distance within a factor 1 ± t·r of its expectation 95 % of the time; the interval holds
    every n for which the distance that was found is such a distance. With weights of the real rows the sample is one of
    the population that they stand for: rows are drawn in proportion to their weights, and then weigh the same.
    """
    size = solve_sample_size(distance, expect=cells.expect_distance)
    if size == MAX_SAMPLE:
        # Whoever is that close has no interval to speak of.
        relative_error = 0.0
    elif relative_error is None:
        relative_error = simulate_relative_error(real, domain, sample=size, weights=weights)
    margin = min(STUDENT_95 * relative_error, 0.99)
    ends = distance / (1 - margin), distance / (1 + margin)
    low, high = (solve_sample_size(end, expect=cells.expect_distance) for end in ends)
    at_most = " or more: no sample is as close" if size == MAX_SAMPLE else ""
    blind = "which rows are wrong, and dependence among more than two columns"
    interval_of = "95 %, for the size of a random sample with this distance"
    found = [
        Score(
            name="equivalent_sample_size",
            title="Equivalent sample size",
            value=size,
            interval=(min(low, size), max(high, size)),
            interval_of=interval_of,
            direction=Direction.HIGHER,
            scale=f"rows of a random sample with replacement; the real file has {cells.rows}",
            blind_to=blind,
            note=f"{size}{at_most}" if at_most else "",
        )
    ]
    if cells.whole:
        part, *outer = (
            solve_sample_size(each, expect=cells.expect_distance_without_replacement, most=cells.rows)
            / cells.rows
            for each in (distance, *ends)
        )
        found.append(
            Score(
                name="equivalent_sampling_fraction",
                title="Equivalent sampling fraction",
                value=part,
                interval=(min(part, *outer), max(part, *outer)),
                interval_of="95 %, for the fraction of a random sample without replacement with this distance",
                direction=Direction.HIGHER,
                scale="0 to 1 (all rows of the real file), without replacement",
                blind_to=blind,
            )
        )
    return found
