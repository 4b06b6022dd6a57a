"""Every score of the rows of two files, in the order of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from populace.core.errors import UsageError
from populace.core.progress import Progress, silent
from populace.evaluation.compared_rows import ComparedRows, RowPair
from populace.evaluation.evaluation_result import (
    ColumnResult,
    Evaluation,
    GroupResult,
    PairResult,
    RuleResult,
    ShareBar,
)
from populace.evaluation.scores.conjunctions import draw_conjunctions, score_conjunctions
from populace.evaluation.scores.correlation_difference import (
    associate,
    score_associations,
    score_correlations,
)
from populace.evaluation.scores.equivalent_sample_size import CellShares, score_sample_size
from populace.evaluation.scores.income_gap import score_income_gap
from populace.evaluation.scores.marginal_distance import (
    Pair,
    TripleDistances,
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
from populace.evaluation.scores.score import Direction, Score
from populace.evaluation.scores.subgroup_distance import (
    GroupDistance,
    GroupSums,
    pair_distance_by_group,
    score_areas,
    score_groups,
)
from populace.evaluation.scores.train_on_synthetic import predict_targets, score_predictions
from populace.evaluation.weighted_scores import WITHOUT_WEIGHTS, score_weighted, weigh_rows
from populace.release.report.bars import group_largest_codes, group_ordered_codes

MAX_TRIPLES_LISTED = 100


def score_row_pair(
    rows: RowPair,
    *,
    areas: Sequence[str] = (),
    subgroups: Sequence[str] = (),
    income: str | None = None,
    gender: str | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Return every score of two files that were read, and what each is made of, the worst first."""
    codes, numbers = (rows.real.codes, rows.synthetic.codes), (rows.real.numbers, rows.synthetic.numbers)
    domain, notes = rows.domain, []
    progress("pairs", 0.2)
    columns, triples = column_total_variation(*codes, domain), triple_total_variation(*codes, domain)
    pairs, groups, scores, expected = _compare_pairs(rows, columns, triples)
    progress("areas", 0.4)
    within = groups.summarize(subgroups or domain)
    by_area = {area: pair_distance_by_group(*codes, domain, column=area) for area in areas}
    scores += [*score_groups(within), *score_areas(by_area)]
    progress("numbers and conjunctions", 0.5)
    number_scores, compared = score_quantiles(*numbers)
    scores += [*score_correlations(*numbers), *number_scores]
    if len(numbers[0]) < 2:
        notes.append("Correlations need two columns of numbers: the schema has fewer.")
    scores.append(score_conjunctions(*codes, draw_conjunctions(codes[0], domain, ordered=rows.ordered)))
    progress("regressions", 0.6)
    predictions = predict_targets(*codes, numbers, domain=domain)
    coefficients = fit_coefficients(*codes, numbers, domain=domain)
    scores += [*score_predictions(predictions), *score_regressions(coefficients)]
    progress("propensity", 0.8)
    scores += score_propensity(*codes, numbers, domain=domain, ordered=rows.ordered)
    weights_of = None if rows.real.weights is None else weigh_rows(rows)
    others: list[Score] = []
    if income or gender:
        find_gap = partial(_score_income_gap, rows, income=income, gender=gender, areas=areas)
        scores += find_gap()
        others += [] if weights_of is None else find_gap(weights=weights_of)
    scores += score_rules(
        rows.synthetic, [each.violating / each.rows for each in (rows.real, rows.synthetic)]
    )
    if weights_of is not None:
        progress("weighted scores", 0.9)
        others += score_rules(rows.synthetic, [rows.real.violating_share, rows.synthetic.violating_share])
        missing = [
            f"{each.name} ({WITHOUT_WEIGHTS[each.name]})" for each in scores if each.name in WITHOUT_WEIGHTS
        ]
        scores += score_weighted(rows, weights_of, within=within, areas=areas, others=others)
        notes += [f"Without a weighted version: {'; '.join(missing)}."] if missing else []
        if rows.synthetic.weights is None:
            notes.append("The synthetic file has no column of weights: its rows count the same.")
    return Evaluation(
        names=("real", "synthetic"),
        rows=(rows.real.rows, rows.synthetic.rows),
        weights=None,
        scores=tuple(scores),
        columns=_list_columns(rows, columns),
        pairs=tuple(sorted(pairs, key=lambda each: (-each.distance, each.columns))),
        triples=tuple(
            sorted(triples.distances.items(), key=lambda each: (-each[1], each[0]))[:MAX_TRIPLES_LISTED]
        ),
        groups=tuple(_describe_group(rows, each) for each in within),
        areas=tuple(_describe_group(rows, each) for found in by_area.values() for each in found),
        rules=list_rules(rows.real, rows.synthetic),
        numbers=tuple(sorted(compared, key=lambda each: (-each.quantiles, each.column))),
        predictions=tuple(sorted(predictions, key=lambda each: (each.synthetic - each.real, each.column))),
        coefficients=tuple(sorted(coefficients, key=lambda each: (each.overlap, each.outcome, each.feature))),
        expected=expected,
        notes=tuple(notes),
    )


def _compare_pairs(
    rows: RowPair, columns: Mapping[str, float], triples: TripleDistances
) -> tuple[list[PairResult], GroupSums, list[Score], tuple[tuple[int, float], ...]]:
    """Pass over the tables of all pairs once: distances, associations, groups, and cells for the sample size."""
    codes, domain = (rows.real.codes, rows.synthetic.codes), rows.domain
    distances: dict[Pair, float] = {}
    associations: tuple[dict[Pair, float], dict[Pair, float]] = {}, {}
    groups, found = GroupSums(domain), []
    expected: tuple[tuple[int, float], ...] = ()
    for pair, real, synthetic in pair_tables(*codes, domain):
        distances[pair] = total_variation(real, synthetic)
        both = associate(real), associate(synthetic)
        associations[0][pair], associations[1][pair] = both
        groups.add(pair, real, synthetic)
        known = None if any(map(math.isnan, both)) else both
        found.append(PairResult(columns=pair, distance=distances[pair], association=known))
    scores = score_marginals(columns, distances, triples)
    if distances:
        cells = CellShares.of((real for _, real, _ in pair_tables(*codes, domain)), rows=rows.real.rows)
        mean = math.fsum(distances.values()) / len(distances)
        scores += score_sample_size(codes[0], cells=cells, distance=mean, domain=domain)
        scores += score_associations(*associations)
        expected = cells.trace_expectation()
    return found, groups, scores, expected


def _score_income_gap(
    rows: RowPair,
    *,
    income: str | None,
    gender: str | None,
    areas: Sequence[str],
    weights: Weights | None = None,
) -> list[Score]:
    if income is None or gender is None or len(areas) != 1:
        raise UsageError(
            "the income-gap score needs a column of incomes, one of gender and one area.",
            hint="give --income, --gender and one --area, or none of --income and --gender",
        )
    if income not in rows.real.numbers:
        raise UsageError(f"column {income!r} holds no numbers.", hint="give --income a column of numbers")
    files = rows.real, rows.synthetic
    counts = np.bincount(rows.real.codes[gender], minlength=rows.domain[gender])
    first, second = sorted(np.argsort(-counts, kind="stable")[:2].tolist())
    return score_income_gap(
        (rows.real.numbers[income], rows.synthetic.numbers[income]),
        (files[0].codes[gender], files[1].codes[gender]),
        (files[0].codes[areas[0]], files[1].codes[areas[0]]),
        codes=(first, second),
        weights=(None, None) if weights is None else (weights.real, weights.synthetic),
    )


def score_rules(rows: ComparedRows, shares: Sequence[float]) -> list[Score]:
    """Return the score of rules that synthetic rows break, from the shares of real and synthetic rows that do."""
    if not rows.broken:
        return []
    return [
        Score(
            name="rule_violations",
            title="Rows that break a rule of the schema",
            value=shares[1],
            direction=Direction.LOWER,
            scale="0 (no row) to 1 (every row)",
            blind_to="rules that the schema does not declare",
            note=f"{len(rows.broken)} rules; of the real rows {shares[0]:.3g} break one",
        )
    ]


def _list_columns(rows: RowPair, distances: Mapping[str, float]) -> tuple[ColumnResult, ...]:
    """Return all columns with their shares, the worst first."""
    found = []
    for name, distance in distances.items():
        size, values = rows.domain[name], rows.values[name]
        counts = [np.bincount(each.codes[name], minlength=size) for each in (rows.real, rows.synthetic)]
        if name in rows.ordered:
            slots = group_ordered_codes(rows.ends[name], values=values)
        else:
            slots = group_largest_codes(rows.ends[name], values=values, counts=counts[0])
        shares = [[float(each[list(slot.codes)].sum()) / each.sum() for slot in slots] for each in counts]
        found.append(
            ColumnResult(
                name=name,
                distance=distance,
                codes=size,
                outside=(rows.real.outside.get(name, 0), rows.synthetic.outside.get(name, 0)),
                bars=tuple(
                    ShareBar(label=slot.label, real=first, synthetic=second)
                    for slot, first, second in zip(slots, *shares, strict=True)
                ),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.distance, each.name)))


def _describe_group(rows: RowPair, found: GroupDistance) -> GroupResult:
    return GroupResult(
        column=found.column,
        value=rows.label(found.column, found.code),
        rows=found.rows,
        synthetic_rows=found.synthetic_rows,
        distance=found.distance,
        by_chance=found.by_chance,
        small=found.small,
    )


def list_rules(real: ComparedRows, synthetic: ComparedRows) -> tuple[RuleResult, ...]:
    """Return how many rows of both files break each rule, the worst first."""
    found = [
        RuleResult(rule=rule, real=real.broken.get(rule, 0), synthetic=broken)
        for rule, broken in synthetic.broken.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.synthetic, each.rule)))
