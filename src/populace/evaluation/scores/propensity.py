"""Propensity: how well a regression tells synthetic rows from real ones.

Source: Woo et al. 2009; Snoke et al. 2018. For two independent samples of one population the mean squared error of k
parameters has the expectation (k − 1)·c·(1 − c) / N, with N rows in all and a share c of synthetic ones: it is χ² of
k − 1 degrees of freedom times c·(1 − c) / N. For rows drawn from the real rows it is 1 − c times that (Snoke et al.).
Weights of mean 1 that say nothing of the columns multiply it by c·d + (1 − c)·e, with d and e the mean squares of the
real and of the synthetic weights (Kish's design effects): so much more do weighted sums of the two files vary.
Beside all columns the regression has indicators of conjunctions of two to four columns, so that dependence among
several columns is seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Domain
from populace.evaluation.scores.conjunctions import Conjunction, draw_conjunctions, meets
from populace.evaluation.scores.feature_matrix import build_features, choose_features, choose_rows
from populace.evaluation.scores.logistic_regression import fit_logistic
from populace.evaluation.scores.marginal_distance import CodeArrays, Weights, scale_to_rows
from populace.evaluation.scores.score import NORMAL_95, Direction, Score

MAX_ROWS, MAX_CODES = 20_000, 8
# Conjunctions of two, three and four columns.
CONJUNCTIONS = {2: 30, 3: 40, 4: 40}


def score_propensity(
    real: CodeArrays,
    synthetic: CodeArrays,
    numbers: tuple[Mapping[str, Floats], Mapping[str, Floats]],
    *,
    domain: Domain,
    ordered: Mapping[str, int],
    weights: Weights | None = None,
) -> list[Score]:
    """Return the mean squared error of propensities, and its ratio to what a sample of the population would have."""
    features = choose_features(real, numbers[0], domain, max_codes=MAX_CODES, powers=2)
    conjunctions = [
        each
        for columns, count in CONJUNCTIONS.items()
        if columns <= len(domain)
        for each in draw_conjunctions(real, domain, ordered=ordered, count=count, columns=columns)
    ]
    held = (None, None) if weights is None else (weights.real, weights.synthetic)
    parts, shares = [], []
    for codes, values, some in zip((real, synthetic), numbers, held, strict=True):
        rows = choose_rows(len(next(iter(codes.values()))), MAX_ROWS, seed=1)
        shares.append(np.ones(len(rows)) if some is None else scale_to_rows(some[rows]))
        plain = build_features(features, codes, values, rows)
        parts.append(np.hstack([plain, _indicators({n: c[rows] for n, c in codes.items()}, conjunctions)]))
    design = np.vstack(parts)
    design = design[:, design.std(axis=0) > 0]
    outcome = np.repeat([0.0, 1.0], [len(part) for part in parts])
    each = np.concatenate(shares)
    model = fit_logistic(design, outcome, weights=each)
    share = float(outcome.mean())
    error = float((each * (model.predict(design) - share) ** 2).mean())
    freedom = max(model.parameters - 1, 1.0)
    effects = [float((some**2).mean()) for some in shares]
    effect = share * effects[0] + (1 - share) * effects[1]
    expected = effect * freedom * (1 - share) * share / len(outcome)
    ratio = error / expected
    # A multiple of a non-central χ² of so many degrees of freedom.
    spread = math.sqrt(2 * (freedom + 2 * max(ratio - 1, 0.0) * freedom)) / freedom
    low, high = max(ratio - NORMAL_95 * spread, 0.0), ratio + NORMAL_95 * spread
    used = f"{len(outcome)} rows, {freedom:.0f} parameters"
    blind = "dependence among more columns than its features have, and rows that were copied"
    return [
        Score(
            name="propensity_mse",
            title="Propensity: mean squared error (pMSE)",
            value=error,
            interval=(low * expected, min(high * expected, 1.0)),
            interval_of="95 %, for other rows of the same two populations",
            direction=Direction.LOWER,
            scale="0 (nothing tells the files apart) to 0.25 (every row is told apart), for files of equal size",
            blind_to=blind,
            note=used,
        ),
        Score(
            name="propensity_ratio",
            title="Propensity: ratio to the pMSE of a sample of the same population",
            value=ratio,
            interval=(low, high),
            interval_of="95 %, for other rows of the same two populations",
            direction=Direction.LOWER,
            scale="about 1 for an independent sample of the same population, ½ for rows drawn from real ones, 0 for "
            "a copy; upwards without limit",
            blind_to=blind,
            note=used,
        ),
    ]


def _indicators(codes: CodeArrays, conjunctions: Sequence[Conjunction]) -> Floats:
    rows = len(next(iter(codes.values())))
    found = np.empty((rows, len(conjunctions)), order="F")
    for place, each in enumerate(conjunctions):
        found[:, place] = meets(codes, each)
    return found
