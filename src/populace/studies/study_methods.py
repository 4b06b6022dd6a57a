"""What answers the queries of a study: one function for each kind of method, all of them on the street of a release."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.api.estimate import estimate
from populace.api.synthesize import synthesize
from populace.core.errors import UsageError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.split_key import Split, SplitKey
from populace.schema.toml_table import TomlTable
from populace.studies.rehearsal_noise import make_noise
from populace.studies.study import StudyMethod, StudyQuery
from populace.studies.truths import Truth
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design
from populace.survey.design.design_reader import read_design_tables, read_groupings
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries, Query, Statistic
from populace.survey.variance.public_estimates import estimate_public_rows
from populace.survey.variance.sampled_rows import SampledRows

# Without noise a method still plans for a budget: one so large that nothing is suppressed or merged on its account.
NOISELESS_EPSILON = Fraction(10**6)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSurvey:
    """One survey of the population, as a method sees it: rows, design, queries, its budget and the seed of its noise.

    A survey without a seed is answered without noise: sampling error and nonresponse are all that is left.
    """

    truth: Truth
    table: pa.Table
    design: Design
    queries: tuple[StudyQuery, ...]
    epsilon: Fraction
    delta: Fraction
    method: StudyMethod
    noise_seed: int | None

    @classmethod
    def of(
        cls,
        table: pa.Table,
        method: StudyMethod,
        *,
        truth: Truth,
        fields: Mapping[str, Any],
        queries: tuple[StudyQuery, ...],
        seed: int,
    ) -> SimulatedSurvey:
        """Return the survey of a method, without noise: a piece of the sample where it asks for one."""
        if method.pieces > 1:
            table = table.filter(pa.array(draw_piece(table.num_rows, method.pieces, truth=truth, seed=seed)))
        return cls(
            truth=truth,
            table=table,
            design=build_design(method, truth=truth, fields=fields),
            queries=queries,
            epsilon=NOISELESS_EPSILON,
            delta=Fraction(0),
            method=method,
            noise_seed=None,
        )

    def ask(self, queries: tuple[Query, ...]) -> tuple[Estimate, ...]:
        """Return estimates from the street of a release, with rehearsal noise and a ledger that is thrown away."""
        schema = self.truth.schema
        with tempfile.TemporaryDirectory(prefix="populace-study-") as folder:
            return estimate(
                self.table,
                schema=schema,
                design=self.design,
                queries=Queries(schema=schema, queries=queries),
                epsilon=self.epsilon,
                delta=self.delta,
                ledger=Path(folder) / "ledger.db",
                noise=make_noise(self.noise_seed),
            ).rows


def draw_piece(rows: int, pieces: int, *, truth: Truth, seed: int) -> Any:
    """Say which rows are in the first of so many secret pieces."""
    split = Split(shares=(Fraction(1, pieces),) * pieces, neighbours=truth.schema.unit.neighbours)
    labels = [number.to_bytes(8, "big") for number in range(rows)]
    return split.pieces(labels, key=SplitKey.draw(RehearsalEntropy(seed))) == 0


def build_design(method: StudyMethod, *, truth: Truth, fields: Mapping[str, Any]) -> Design:
    """Return the design that a method declares; what it does not say of sampling is that of the sample drawn.

    Totals without counts are counted in the population: they are what the public knows of it.
    """
    tables = dict(method.tables.items)
    if "totals" in tables:
        tables["totals"] = [count_totals(each, truth=truth) for each in method.tables.tables("totals")]
    own = read_design_tables(TomlTable(method.tables.place, tables), schema=truth.schema)
    if "design" not in tables:
        own |= fields
        if method.pieces > 1:
            own["base"] = (own["base"] or Fraction(1)) * method.pieces
    return Design(schema=truth.schema, **own)


def count_totals(table: TomlTable, *, truth: Truth) -> Mapping[str, object]:
    """Return the table of a control total with the counts of the population, where it has none."""
    if "counts" in table:
        return table.items
    names = table.texts("by")
    scales = {name: columns.scale(truth.schema, name, place=table.place) for name in names}
    groupings = read_groupings(table, scales)
    groups = {
        name: np.array(groupings[name].groups if name in groupings else range(scales[name].size))
        for name in names
    }
    shape = [int(each.max()) + 1 for each in groups.values()]
    cells = [groups[name][truth.rows.codes(name)] for name in names]
    counts = np.bincount(np.ravel_multi_index(cells, shape), minlength=int(np.prod(shape))).reshape(shape)
    wanted = [range(int(groups[name][: scales[name].levels].max()) + 1) for name in names]
    rows = []
    for cell in product(*wanted):
        texts = {
            name: scales[name].text(int(np.argmax(groups[name] == group)))
            for name, group in zip(names, cell, strict=True)
        }
        rows.append(texts | {"count": int(counts[cell])})
    found: object = {row[names[0]]: row["count"] for row in rows} if len(names) == 1 else rows
    return {**table.items, "counts": found}


def answer_by_design(survey: SimulatedSurvey) -> tuple[Estimate, ...]:
    """Return what `populace estimate` says: by the design, its missing values and its control totals."""
    return survey.ask(tuple(each.query for each in survey.queries))


def answer_by_known_size(survey: SimulatedSurvey) -> tuple[Estimate, ...]:
    """Return counts as a proportion of the sample times the public size of the subpopulation it lies within."""
    asked = []
    for each in survey.queries:
        if each.query.statistic is not Statistic.COUNT or each.query.where is None or each.query.by:
            raise UsageError(
                f"{each.query.place} is no count of a condition, which a known size needs.",
                hint='ask for statistic = "count" with where, and within for the group of known size',
            )
        asked.append(
            replace(each.query, statistic=Statistic.PROPORTION, that=each.query.where, where=each.within)
        )
    found = []
    for row, each in zip(survey.ask(tuple(asked)), survey.queries, strict=True):
        size = survey.truth.count(each.within)

        def scale(number: float | None, size: int = size) -> float | None:
            return None if number is None else number * size

        found.append(replace(row, estimate=scale(row.estimate), low=scale(row.low), high=scale(row.high)))
    return tuple(found)


def answer_by_global_sensitivity(survey: SimulatedSurvey) -> tuple[Estimate, ...]:
    """Return imputed answers with Laplace noise for as many changed rows as there are missing answers.

    **Not private**: the number of missing answers is private itself. For simulations alone.
    """
    exact = replace(survey, noise_seed=None, epsilon=NOISELESS_EPSILON, delta=Fraction(0))
    rows = answer_by_design(exact)
    if survey.noise_seed is None:
        return rows
    rng = np.random.default_rng(survey.noise_seed)
    sample = SampledRows(survey.table, Design(schema=survey.truth.schema))
    shares = Queries(schema=survey.truth.schema, queries=tuple(each.query for each in survey.queries)).shares
    found = []
    for row, each, share in zip(rows, survey.queries, shares, strict=True):
        query = each.query
        missing = sum(int((~sample.known(name)).sum()) for name in query.known)
        low, high = (
            query.span(query.column, survey.truth.schema) if query.column else (Fraction(0), Fraction(1))
        )
        moved = float(high - low) * (1 + missing) / max(1, int(sample.meets(query.where).sum()))
        noise = rng.laplace(scale=moved / float(survey.epsilon * share))
        value = None if row.estimate is None else row.estimate + float(noise)
        found.append(replace(row, estimate=value, low=None, high=None))
    return tuple(found)


def answer_by_synthesis(survey: SimulatedSurvey) -> tuple[Estimate, ...]:
    """Return the answers of a synthetic table; without noise, those of the sample itself."""
    schema = survey.truth.schema
    queries = Queries(schema=schema, queries=tuple(each.query for each in survey.queries))
    table, design = survey.table, replace_fpc(survey.design)
    if survey.noise_seed is not None:
        with tempfile.TemporaryDirectory(prefix="populace-study-") as folder:
            table = synthesize(
                survey.table,
                schema=survey.method.schema or schema,
                epsilon=survey.epsilon,
                delta=survey.delta,
                method=survey.method.method,
                seed=survey.noise_seed % 2**32,
                ledger=Path(folder) / "ledger.db",
                noise=make_noise(survey.noise_seed),
            ).table
    return tuple(estimate_public_rows(table, design=design, queries=queries))


def replace_fpc(design: Design) -> Design:
    """Return a design without the size of the finite population: synthetic rows may be more than it has."""
    return Design(schema=design.schema, base=design.base, strata=design.strata, weights=design.weights)


Answer = Callable[[SimulatedSurvey], tuple[Estimate, ...]]

METHOD_KINDS: Mapping[str, Answer] = {
    "estimate": answer_by_design,
    "known_size": answer_by_known_size,
    "global_sensitivity": answer_by_global_sensitivity,
    "synthesize": answer_by_synthesis,
}
