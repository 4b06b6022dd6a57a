"""Every score of two files, in the order of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.errors import UsageError
from populace.core.progress import Progress, silent
from populace.evaluation.claims.findings import Finding, compare_findings
from populace.evaluation.compared_rows import RowPair, read_row_pair
from populace.evaluation.evaluation_result import (
    ColumnResult,
    Evaluation,
    GroupResult,
    PairResult,
    RuleResult,
    ShareBar,
)
from populace.evaluation.one_file import refuse_same_file
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
from populace.schema.hints import did_you_mean
from populace.schema.schema import Schema
from populace.survey.claims.claims import Claims

MAX_TRIPLES_LISTED = 100


def evaluate(
    real: Any,
    synthetic: Any,
    *,
    schema: Schema | str | PathLike[str],
    weights: str | None = None,
    areas: Sequence[str] = (),
    subgroups: Sequence[str] = (),
    income: str | None = None,
    gender: str | None = None,
    claims: Claims | str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a synthetic file against the real one, whichever tool made it. Nothing of the result is protected.

    Files are paths or frames. Columns are compared in the codes of the schema, numbers of more than 300 codes in 32
    bins of equal numbers of real rows. With `weights`, a column of the files, scores are added whose names end in
    `_weighted`. `areas` are columns within each value of which all pairs are compared; `subgroups` the columns whose
    groups are listed, all of them by default. `income`, `gender` and one area add the income-gap score of the 2018
    challenge. `claims` adds which of them hold in both files. The order of rows does not matter, and the same files
    give the same numbers to the last digit.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [0, 1, 2], "sex": [0, 1, 1]})
    >>> evaluate(table, table, schema=Schema.from_sizes({"age": 3, "sex": 2}))["k_marginal"].value
    1000.0
    """
    refuse_same_file(
        real, synthetic, what="the real and the synthetic table", hint="give the file that a tool made second"
    )
    described = schema if isinstance(schema, Schema) else Schema.load(Path(schema))
    progress = progress or silent
    given = Claims.load(Path(claims), schema=described) if isinstance(claims, str | PathLike) else claims
    _check_columns(described, [*areas, *subgroups, *(name for name in (income, gender) if name)])
    progress("reading both files", 0.0)
    rows = read_row_pair(real, synthetic, schema=described, weights=weights)
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
    scores += _score_rules(rows, [each.violating / each.rows for each in (rows.real, rows.synthetic)])
    findings: tuple[Finding, ...] = ()
    if given is not None:
        findings = compare_findings(real, synthetic, schema=described, claims=given).findings
        scores += _score_findings(findings)
    if weights_of is not None:
        progress("weighted scores", 0.9)
        others += _score_rules(rows, [rows.real.violating_share, rows.synthetic.violating_share])
        missing = [
            f"{each.name} ({WITHOUT_WEIGHTS[each.name]})" for each in scores if each.name in WITHOUT_WEIGHTS
        ]
        scores += score_weighted(rows, weights_of, within=within, areas=areas, others=others)
        notes += [f"Without a weighted version: {'; '.join(missing)}."] if missing else []
        if rows.synthetic.weights is None:
            notes.append("The synthetic file has no column of weights: its rows count the same.")
    left = [name for name in described.columns if name not in domain]
    if left:
        notes.append(f"Not in both files, and left out: {', '.join(left)}.")
    progress("done", 1.0)
    return Evaluation(
        names=(_name(real, "real"), _name(synthetic, "synthetic")),
        rows=(rows.real.rows, rows.synthetic.rows),
        weights=weights or described.frequency,
        scores=tuple(scores),
        columns=_list_columns(rows, columns),
        pairs=tuple(sorted(pairs, key=lambda each: (-each.distance, each.columns))),
        triples=tuple(
            sorted(triples.distances.items(), key=lambda each: (-each[1], each[0]))[:MAX_TRIPLES_LISTED]
        ),
        groups=tuple(_describe_group(rows, each) for each in within),
        areas=tuple(_describe_group(rows, each) for found in by_area.values() for each in found),
        rules=_list_rules(rows),
        numbers=tuple(sorted(compared, key=lambda each: (-each.quantiles, each.column))),
        predictions=tuple(sorted(predictions, key=lambda each: (each.synthetic - each.real, each.column))),
        coefficients=tuple(sorted(coefficients, key=lambda each: (each.overlap, each.outcome, each.feature))),
        expected=expected,
        notes=tuple(notes),
        findings=tuple(sorted(findings, key=lambda each: each.survives is not False)),
    )


def _name(data: Any, otherwise: str) -> str:
    return Path(data).name if isinstance(data, str | PathLike) else otherwise


def _check_columns(schema: Schema, names: Sequence[str]) -> None:
    for name in names:
        if name not in schema.columns:
            near = did_you_mean(name, schema.columns)
            raise UsageError(
                f"the schema has no column {name!r}.",
                hint=f"did you mean {near!r}?" if near else "name columns of the schema",
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


def _score_rules(rows: RowPair, shares: Sequence[float]) -> list[Score]:
    if not rows.synthetic.broken:
        return []
    return [
        Score(
            name="rule_violations",
            title="Rows that break a rule of the schema",
            value=shares[1],
            direction=Direction.LOWER,
            scale="0 (no row) to 1 (every row)",
            blind_to="rules that the schema does not declare",
            note=f"{len(rows.synthetic.broken)} rules; of the real rows {shares[0]:.3g} break one",
        )
    ]


def _score_findings(findings: Sequence[Finding]) -> list[Score]:
    decided = [each for each in findings if each.survives is not None]
    if not decided:
        return []
    return [
        Score(
            name="findings_survive",
            title="Claims that lead to the same conclusion",
            value=sum(each.survives is True for each in decided) / len(decided),
            direction=Direction.HIGHER,
            scale="0 (none) to 1 (all)",
            blind_to="how sure a conclusion is, and what nobody claimed",
            note=f"{len(decided)} of {len(findings)} claims can be decided in both files",
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


def _list_rules(rows: RowPair) -> tuple[RuleResult, ...]:
    found = [
        RuleResult(rule=rule, real=rows.real.broken.get(rule, 0), synthetic=broken)
        for rule, broken in rows.synthetic.broken.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.synthetic, each.rule)))
