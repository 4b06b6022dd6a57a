"""What candidates are chosen by: integers that follow from exact counts, and move as far as scores do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from populace.core.marginals import Candidates, Counts

# From the scores of candidates to those of what can be told: each of them, and perhaps none.
Rank = Callable[[Counts], Counts]


def score_candidates(exact: Sequence[Counts], candidates: Candidates) -> Counts:
    """Return the weighted distances of exact counts from the estimates, less the penalties.

    Proof: docs/proofs/score.md.
    """
    parts = zip(exact, candidates.estimates, candidates.penalties, candidates.weights, strict=True)
    scores = [weight * np.abs(c - estimate).sum() - penalty for c, estimate, penalty, weight in parts]
    return np.array(scores, dtype=np.int64)


def append_none(scores: Counts) -> Counts:
    """Return scores with the public weight of choosing none: a zero for each candidate."""
    return np.append(scores, np.zeros_like(scores))


def score_firsts(scores: Counts) -> Counts:
    """Return for each candidate, and last for none, by how much it is the first whose score is above 0.

    That is the least of its own score and of how far the scores before it lie below 0; of none, how far all of them do.
    Each is the least of numbers that move as far as scores do, so it moves no farther.
    Proof: docs/proofs/find-far.md.

    >>> score_firsts(np.array([-5, 3, 9])).tolist()
    [-5, 3, -3, -9]
    """
    before = -np.maximum.accumulate(scores)
    return np.concatenate([scores[:1], np.minimum(scores[1:], before[:-1]), before[-1:]])
