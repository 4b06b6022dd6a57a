"""The scores that count rows by a column of weights, under names that end in `_weighted`, and why others have none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from populace.evaluation.compared_rows import RowPair
from populace.evaluation.scores.conjunctions import draw_conjunctions, score_conjunctions
from populace.evaluation.scores.correlation_difference import (
    associate,
    score_associations,
    score_correlations,
)
from populace.evaluation.scores.equivalent_sample_size import CellShares, score_sample_size
from populace.evaluation.scores.marginal_distance import (
    Pair,
    Weights,
    column_total_variation,
    pair_tables,
    score_marginals,
    total_variation,
    triple_total_variation,
)
from populace.evaluation.scores.propensity import score_propensity
from populace.evaluation.scores.quantile_difference import score_quantiles
from populace.evaluation.scores.regression_overlap import fit_coefficients, score_regressions
from populace.evaluation.scores.score import Score
from populace.evaluation.scores.subgroup_distance import (
    GroupDistance,
    GroupSums,
    pair_distance_by_group,
    score_areas,
    score_groups,
)
from populace.evaluation.scores.train_on_synthetic import predict_targets, score_predictions

WITHOUT_WEIGHTS = {
    "equivalent_sampling_fraction": "weighted rows stand for many: no fraction of them was sampled",
    "findings_survive": "claims are about rows; populace estimate answers about the people that rows stand for",
}


def weigh_rows(rows: RowPair) -> Weights:
    """Return the weights of both files; rows of a file without any weigh the same."""
    held = [
        np.ones(each.rows) if each.weights is None else each.weights for each in (rows.real, rows.synthetic)
    ]
    return Weights(*held)


def score_weighted(
    rows: RowPair,
    weights: Weights,
    *,
    within: Sequence[GroupDistance],
    areas: Sequence[str],
    others: Sequence[Score],
) -> list[Score]:
    """Return all weighted scores; `within` are the groups that are listed, `others` scores that were weighed before."""
    codes, domain = (rows.real.codes, rows.synthetic.codes), rows.domain
    distances: dict[Pair, float] = {}
    associations: tuple[dict[Pair, float], dict[Pair, float]] = {}, {}
    groups = GroupSums(domain)
    for pair, real, synthetic in pair_tables(*codes, domain, weights=weights):
        distances[pair] = total_variation(real, synthetic)
        associations[0][pair], associations[1][pair] = associate(real), associate(synthetic)
        groups.add(pair, real, synthetic)
    found = score_marginals(
        column_total_variation(*codes, domain, weights=weights),
        distances,
        triple_total_variation(*codes, domain, weights=weights),
    )
    if distances:
        tables = (real for _, real, _ in pair_tables(*codes, domain, weights=weights))
        found += score_sample_size(
            codes[0],
            cells=CellShares.of(tables, rows=rows.real.rows),
            distance=math.fsum(distances.values()) / len(distances),
            domain=domain,
            weights=weights.real,
        )
    by_area = {area: pair_distance_by_group(*codes, domain, column=area, weights=weights) for area in areas}
    found += [*score_groups(_weigh_groups(groups, within)), *score_areas(by_area)]
    numbers, both = (rows.real.numbers, rows.synthetic.numbers), (weights.real, weights.synthetic)
    found += [*score_associations(*associations), *score_correlations(*numbers, weights=both)]
    found += score_quantiles(*numbers, weights=both)[0]
    found += _score_conditions(rows, weights)
    found += score_predictions(predict_targets(*codes, numbers, domain=domain, weights=weights))
    found += score_regressions(fit_coefficients(*codes, numbers, domain=domain, weights=weights))
    found += score_propensity(*codes, numbers, domain=domain, ordered=rows.ordered, weights=weights)
    found += others
    return [each.rename(f"{each.name}_weighted", title=f"{each.title}, weighted") for each in found]


def _weigh_groups(groups: GroupSums, within: Sequence[GroupDistance]) -> list[GroupDistance]:
    """Return groups with their weighted distances; which are small, their rows say and not their weights."""
    columns = list(dict.fromkeys(each.column for each in within))
    weighed: Mapping[tuple[str, int], float] = {
        (each.column, each.code): each.distance for each in groups.summarize(columns)
    }
    places = [(each, (each.column, each.code)) for each in within]
    return [replace(each, distance=weighed[place]) for each, place in places if place in weighed]


def _score_conditions(rows: RowPair, weights: Weights) -> list[Score]:
    """Return the score of conditions that are drawn around real rows of some weight."""
    codes, heavy = (rows.real.codes, rows.synthetic.codes), weights.real > 0
    around = {name: column[heavy] for name, column in codes[0].items()}
    drawn = draw_conjunctions(around, rows.domain, ordered=rows.ordered)
    return [score_conjunctions(*codes, drawn, weights=weights)]
