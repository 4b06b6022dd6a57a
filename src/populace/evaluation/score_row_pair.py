"""Every score of the rows of two files, in the order of the report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from populace.core.array_types import Floats
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
from populace.evaluation.scores.quantile_difference import NumberDifference, score_quantiles
from populace.evaluation.scores.regression_overlap import Coefficient, fit_coefficients, score_regressions
from populace.evaluation.scores.score import Direction, Score
from populace.evaluation.scores.subgroup_distance import (
    GroupDistance,
    GroupSums,
    pair_distance_by_group,
    score_areas,
    score_groups,
)
from populace.evaluation.scores.train_on_synthetic import TargetPrediction, predict_targets, score_predictions
from populace.release.report.bars import group_largest_codes, group_ordered_codes

MAX_TRIPLES_LISTED = 100


WITHOUT_WEIGHTS = {
    "equivalent_sampling_fraction": "weighted rows stand for many: no fraction of them was sampled",
    "findings_survive": "claims are about rows; populace estimate answers about the people that rows stand for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScoredRows:
    """The scores of two files, and what they are made of."""

    scores: list[Score]
    columns: Mapping[str, float]
    triples: TripleDistances
    pairs: Sequence[PairResult]
    groups: Sequence[GroupDistance]
    areas: Sequence[GroupDistance]
    numbers: Sequence[NumberDifference]
    predictions: Sequence[TargetPrediction]
    coefficients: Sequence[Coefficient]
    expected: tuple[tuple[int, float], ...]


def score_row_pair(
    rows: RowPair,
    *,
    areas: Sequence[str] = (),
    subgroups: Sequence[str] = (),
    income: str | None = None,
    gender: str | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Return every score of two files that were read, and what each is made of, the worst first.

    Rows with weights are scored once more, under names that end in `_weighted`.
    """
    gap = (income, gender) if income or gender else None
    found, notes = (
        _score_rows(rows, areas=areas, subgroups=subgroups or rows.domain, gap=gap, progress=progress),
        [],
    )
    scores = found.scores
    if len(rows.real.numbers) < 2:
        notes.append("Correlations need two columns of numbers: the schema has fewer.")
    if rows.real.weights is not None:
        progress("weighted scores", 0.9)
        missing = [
            f"{each.name} ({WITHOUT_WEIGHTS[each.name]})" for each in scores if each.name in WITHOUT_WEIGHTS
        ]
        weighted = _score_rows(rows, areas=areas, gap=gap, listed=found.groups, weights=_weigh_rows(rows))
        scores += [
            each.rename(f"{each.name}_weighted", title=f"{each.title}, weighted") for each in weighted.scores
        ]
        notes += [f"Without a weighted version: {'; '.join(missing)}."] if missing else []
        if rows.synthetic.weights is None:
            notes.append("The synthetic file has no column of weights: its rows count the same.")
    return Evaluation(
        names=("real", "synthetic"),
        rows=(rows.real.rows, rows.synthetic.rows),
        weights=None,
        scores=tuple(scores),
        columns=_list_columns(rows, found.columns),
        pairs=tuple(sorted(found.pairs, key=lambda each: (-each.distance, each.columns))),
        triples=tuple(
            sorted(found.triples.distances.items(), key=lambda each: (-each[1], each[0]))[:MAX_TRIPLES_LISTED]
        ),
        groups=tuple(_describe_group(rows, each) for each in found.groups),
        areas=tuple(_describe_group(rows, each) for each in found.areas),
        rules=list_rules(rows.real, rows.synthetic),
        numbers=tuple(sorted(found.numbers, key=lambda each: (-each.quantiles, each.column))),
        predictions=tuple(
            sorted(found.predictions, key=lambda each: (each.synthetic - each.real, each.column))
        ),
        coefficients=tuple(
            sorted(found.coefficients, key=lambda each: (each.overlap, each.outcome, each.feature))
        ),
        expected=found.expected,
        notes=tuple(notes),
    )


def _weigh_rows(rows: RowPair) -> Weights:
    """Return the weights of both files; rows of a file without any weigh the same."""
    held = [
        np.ones(each.rows) if each.weights is None else each.weights for each in (rows.real, rows.synthetic)
    ]
    return Weights(*held)


def _score_rows(
    rows: RowPair,
    *,
    areas: Sequence[str],
    subgroups: Iterable[str] = (),
    gap: tuple[str | None, str | None] | None,
    listed: Sequence[GroupDistance] | None = None,
    weights: Weights | None = None,
    progress: Progress = silent,
) -> _ScoredRows:
    """Return the scores of rows, counted by their weights if they have any; `gap` are columns of incomes and gender.

    `listed` are the groups without weights: which are small, their rows say and not their weights.
    """
    codes, numbers = (rows.real.codes, rows.synthetic.codes), (rows.real.numbers, rows.synthetic.numbers)
    domain, files = rows.domain, (rows.real, rows.synthetic)
    both = (None, None) if weights is None else (weights.real, weights.synthetic)
    progress("pairs", 0.2)
    columns = column_total_variation(*codes, domain, weights=weights)
    triples = triple_total_variation(*codes, domain, weights=weights)
    pairs, sums = [], GroupSums(domain)
    distances: dict[Pair, float] = {}
    associations: tuple[dict[Pair, float], dict[Pair, float]] = {}, {}
    for pair, real, synthetic in pair_tables(*codes, domain, weights=weights):
        distances[pair] = total_variation(real, synthetic)
        strength = associations[0][pair], associations[1][pair] = associate(real), associate(synthetic)
        sums.add(pair, real, synthetic)
        known = None if any(map(math.isnan, strength)) else strength
        pairs.append(PairResult(columns=pair, distance=distances[pair], association=known))
    scores = score_marginals(columns, distances, triples)
    expected: tuple[tuple[int, float], ...] = ()
    if distances:
        tables = (real for _, real, _ in pair_tables(*codes, domain, weights=weights))
        cells = CellShares.of(tables, rows=rows.real.rows)
        mean = math.fsum(distances.values()) / len(distances)
        scores += score_sample_size(codes[0], cells=cells, distance=mean, domain=domain, weights=both[0])
        scores += score_associations(*associations)
        expected = cells.trace_expectation() if weights is None else ()
    progress("areas", 0.4)
    groups = sums.summarize(subgroups) if listed is None else _weigh_groups(sums, listed)
    by_area = {area: pair_distance_by_group(*codes, domain, column=area, weights=weights) for area in areas}
    scores += [*score_groups(groups), *score_areas(by_area)]
    progress("numbers and conjunctions", 0.5)
    number_scores, compared = score_quantiles(*numbers, weights=both)
    scores += [*score_correlations(*numbers, weights=both), *number_scores]
    # Conditions are drawn around real rows of some weight.
    heavy = slice(None) if weights is None else weights.real > 0
    around = {name: column[heavy] for name, column in codes[0].items()}
    drawn = draw_conjunctions(around, domain, ordered=rows.ordered)
    scores.append(score_conjunctions(*codes, drawn, weights=weights))
    progress("regressions", 0.6)
    predictions = predict_targets(*codes, numbers, domain=domain, weights=weights)
    coefficients = fit_coefficients(*codes, numbers, domain=domain, weights=weights)
    scores += [*score_predictions(predictions), *score_regressions(coefficients)]
    progress("propensity", 0.8)
    scores += score_propensity(*codes, numbers, domain=domain, ordered=rows.ordered, weights=weights)
    if gap is not None:
        scores += _score_income_gap(rows, income=gap[0], gender=gap[1], areas=areas, weights=both)
    broken = [each.violating / each.rows if weights is None else each.violating_share for each in files]
    scores += score_rules(rows.synthetic, broken)
    return _ScoredRows(
        scores=scores,
        columns=columns,
        triples=triples,
        pairs=pairs,
        groups=groups,
        areas=[each for found in by_area.values() for each in found],
        numbers=compared,
        predictions=predictions,
        coefficients=coefficients,
        expected=expected,
    )


def _weigh_groups(sums: GroupSums, listed: Sequence[GroupDistance]) -> list[GroupDistance]:
    """Return the groups that are listed with their weighted distances."""
    columns = list(dict.fromkeys(each.column for each in listed))
    weighed = {(each.column, each.code): each.distance for each in sums.summarize(columns)}
    places = [(each, (each.column, each.code)) for each in listed]
    return [replace(each, distance=weighed[place]) for each, place in places if place in weighed]


def _score_income_gap(
    rows: RowPair,
    *,
    income: str | None,
    gender: str | None,
    areas: Sequence[str],
    weights: tuple[Floats | None, Floats | None],
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
        weights=weights,
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
