"""Two files, or two pairs of linked files, and what is scored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from populace.core.errors import UsageError
from populace.core.progress import Progress, silent
from populace.evaluation.claims.findings import Finding, compare_findings
from populace.evaluation.compared_rows import read_row_pair
from populace.evaluation.evaluation_result import (
    Evaluation,
)
from populace.evaluation.input_files import check_columns, find_synthetic, refuse_same_file, release_of
from populace.evaluation.linked_evaluation import evaluate_linked
from populace.evaluation.score_row_pair import WITHOUT_WEIGHTS, score_row_pair
from populace.evaluation.scores.score import Direction, Score
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
    _refuse_mistaken_files(real, synthetic)
    described = schema if isinstance(schema, Schema) else Schema.load(Path(schema))
    progress = progress or silent
    synthetic = find_synthetic(synthetic, schema=described)
    names = _name(real, "real"), _name(synthetic, "synthetic")
    if described.linked is not None:
        if weights or income or gender or claims is not None:
            raise UsageError(
                "weights, income gaps and claims belong to one table, and the schema links two.",
                hint="compare one of them alone, with a schema of its columns, or leave these options out",
            )
        found = evaluate_linked(
            real, synthetic, schema=described, areas=areas, subgroups=subgroups, progress=progress
        )
        return replace(found, names=names)
    given = Claims.load(Path(claims), schema=described) if isinstance(claims, str | PathLike) else claims
    check_columns(described.columns, [*areas, *subgroups, *(name for name in (income, gender) if name)])
    progress("reading both files", 0.0)
    rows = read_row_pair(real, synthetic, schema=described, weights=weights)
    found = score_row_pair(
        rows, areas=areas, subgroups=subgroups, income=income, gender=gender, progress=progress
    )
    notes, scores = list(found.notes), list(found.scores)
    findings: tuple[Finding, ...] = ()
    if given is not None:
        findings = compare_findings(real, synthetic, schema=described, claims=given).findings
        scores += _score_findings(findings)
        if rows.real.weights is not None:
            notes.append(f"findings_survive has no weighted version: {WITHOUT_WEIGHTS['findings_survive']}.")
    if described.frequency is not None:
        notes.append(f"A row counts as often as its column {described.frequency!r} says.")
    left = [name for name in described.columns if name not in rows.domain]
    if left:
        notes.append(f"Not in both files, and left out: {', '.join(left)}.")
    progress("done", 1.0)
    return replace(
        found,
        names=names,
        weights=weights,
        scores=tuple(scores),
        notes=tuple(notes),
        findings=tuple(sorted(findings, key=lambda each: each.survives is not False)),
    )


def _refuse_mistaken_files(real: Any, synthetic: Any) -> None:
    """Refuse one file for both, and a release in the place of the real rows; of frames nothing is known."""
    firsts, seconds = (
        [*each.values()] if isinstance(each, Mapping) else [each] for each in (real, synthetic)
    )
    for first in firsts:
        for second in seconds:
            refuse_same_file(
                first,
                second,
                what="the real and the synthetic table",
                hint="give the file that a tool made second",
            )
    released = [[release_of(each) for each in some] for some in (firsts, seconds)]
    if any(released[0]) and not any(released[1]):
        raise UsageError(
            f"the real table is given as a file of the release {next(filter(None, released[0]))}, and the synthetic "
            "one as a file that is in no release.",
            hint="the real table comes first: exchange the two",
        )


def _name(data: Any, otherwise: str) -> str:
    if isinstance(data, Mapping):
        return " and ".join(dict.fromkeys(_name(each, otherwise) for each in data.values()))
    return Path(data).name if isinstance(data, str | PathLike) else otherwise


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
