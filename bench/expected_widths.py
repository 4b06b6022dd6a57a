"""How far the intervals that `populace estimate --expect` foresees are from those of runs: two surveys and two others.

    python bench/expected_widths.py [SEEDS]

For each query the expected margin of error of its median group, over the median of runs with rehearsed noise:

- alone: from the schema, the design, the queries and the number of rows;
- published: with what the report of an earlier round contains: `population` and `weighting_effect` in the design,
  --shares (percentages of single columns, of those who answered) and --published (standard errors of the same queries).
  Runs have the same design;
- by a public table: with `--like` the earlier round itself.

The earlier round is another survey of the invented population, whose PSUs have the numbers of those that were sampled,
and the first of the two cycles of NHANES, whose strata and PSUs are those of the second as well. Held out, never looked
at while defaults were chosen: clusters of the census of 1980 and of Maryland, of bench/cluster_coverage.py, whose
earlier round is another sample.
Twins are the invented survey and the same rows with employed and unemployed exchanged and a fifth of the income: all
that is public without a report is the same, and intervals are not.
Claims: published, within a factor of 1.3 for nine queries of ten; by a public table, too.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cluster_coverage import census, maryland
from interval_widths import load, surveys, width

from populace.api.estimate import estimate
from populace.planning.expected_estimates import PublicFacts, predict_errors
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.public_table import read_public_rows
from populace.schema.columns.column import CategoricalColumn
from populace.schema.schema import Schema
from populace.simulation.sample_survey import simulate_survey
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows

FACTOR = 1.3


@dataclass(frozen=True, kw_only=True)
class Case:
    """A survey, its queries, and an earlier round of it."""

    name: str
    table: pa.Table
    earlier: pa.Table
    schema: Schema
    design: Design
    queries: Queries
    epsilons: tuple[str, ...]


def earlier_round(name: str, table: pa.Table, design: Design) -> pa.Table:
    """Return rows that are public, with PSUs that the design lists."""
    if name == "nhanes":
        first = table.filter(pc.equal(table["SurveyYr"], "2009_10"))
        again = first.set_column(
            first.column_names.index("SDMVSTRA"), "SDMVSTRA", pc.add(first["SDMVSTRA"], 15)
        )
        return pa.concat_tables([first, again.cast(first.schema)])
    other = simulate_survey(draw=2)[0]
    listed = {stratum: list(psus) for stratum, psus in design.psus.items()}
    strata, psus = other["stratum"].to_pylist(), other["psu"].to_pylist()
    seen: dict[tuple[str, str], str] = {}
    for key in zip(strata, psus, strict=True):
        own = [each for each in seen if each[0] == key[0]]
        seen.setdefault(key, listed[key[0]][len(own) % len(listed[key[0]])])
    mapped = pa.array([seen[key] for key in zip(strata, psus, strict=True)])
    return other.set_column(other.column_names.index("psu"), "psu", mapped)


def examples() -> Iterator[Case]:
    for name, table in surveys():
        schema, design, queries = load(name)
        earlier = earlier_round(name, table, design)
        yield Case(
            name=name, table=table, earlier=earlier, schema=schema, design=design, queries=queries,
            epsilons=("1", "2"),
        )  # fmt: skip


def held_out() -> Iterator[Case]:
    for study, schema, _ in (census(), maryland()):
        table, earlier = (study.draw(np.random.default_rng(seed)) for seed in (11, 12))
        yield Case(
            name=study.name,
            table=table,
            earlier=earlier,
            schema=schema,
            design=Design.parse(study.design, schema=schema),
            queries=Queries.parse(study.queries, schema=schema),
            epsilons=tuple(study.epsilons),
        )


def publish(case: Case) -> tuple[Design, PublicFacts]:
    """Return what the report of the earlier round contains, to two or three digits."""
    rows, design = read_public_rows(case.earlier, schema=case.schema), case.design
    weights = np.ones(case.earlier.num_rows)
    if design.weights is not None:
        weights = np.minimum(np.nan_to_num(rows.numbers[design.weights]), float(design.weight_bound))
        some = weights[weights > 0]
        people = Fraction(f"{weights.sum() * case.table.num_rows / case.earlier.num_rows:.3g}")
        effect = Fraction(f"{1 + some.var() / some.mean() ** 2:.3g}")
        design = replace(design, population=people, weighting_effect=effect)
    shares: dict[str, dict[str, float]] = {}
    asked = {name for query in case.queries for name in case.schema.columns if _names(query, name)}
    for name, column in case.schema.columns.items():
        if name not in asked or name not in rows.codes or name == "SurveyYr":
            continue
        held = np.bincount(rows.codes[name], weights=weights, minlength=column.size)[: column.levels]
        texts = (
            column.values
            if isinstance(column, CategoricalColumn)
            else [f"{float(column.bounds(level)[0]):g}" for level in range(column.levels)]
        )
        shares[name] = {
            text: round(float(own / held.sum()), 3) for text, own in zip(texts, held, strict=True) if own
        }
    found = estimate_public_rows(case.earlier, design=case.design, queries=case.queries)
    errors = {}
    for query in case.queries:
        own = [row.sampling_error for row in found if row.query == query.name and row.sampling_error]
        scale = (case.earlier.num_rows / case.table.num_rows) ** 0.5
        errors[query.name] = float(f"{float(np.median(own)) * scale:.2g}")
    return design, PublicFacts(shares=shares, published=errors)


def _names(query: object, name: str) -> bool:
    words = [getattr(query, key, None) for key in ("column", "y", "that", "where")]
    return name in getattr(query, "by", ()) or any(word is not None and name in str(word) for word in words)


def run_margins(case: Case, design: Design, *, epsilon: str, seeds: int) -> dict[str, float]:
    """Return the median margin of error of each query over runs."""
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            rows = estimate(
                case.table,
                schema=case.schema,
                design=design,
                queries=case.queries,
                epsilon=epsilon,
                ledger=Path(folder) / "ledger.db",
                noise=ExactNoise(RehearsalEntropy(seed)),
            ).rows
        for query in case.queries:
            own = [width(row) / 2 for row in rows if row.query == query.name]
            found.setdefault(query.name, []).append(float(np.median(own)))
    return {name: float(np.median(own)) for name, own in found.items()}


def print_twins(*, seeds: int) -> None:
    """Run a survey and its twin, which has the same public files and number of rows: no forecast is near to both."""
    case = next(examples())
    swapped = {"employed": "unemployed", "unemployed": "employed"}
    work = [swapped.get(each, each) for each in case.table["work"].to_pylist()]
    income = [
        str(round(float(each) / 5)) if str(each).lstrip("-").isdigit() else each
        for each in case.table["income"].to_pylist()
    ]
    columns = case.table.column_names
    twin = case.table.set_column(columns.index("work"), "work", pa.array(work))
    twin = twin.set_column(columns.index("income"), "income", pa.array(income))
    for epsilon in case.epsilons:
        found = [
            run_margins(replace(case, table=table), case.design, epsilon=epsilon, seeds=seeds)
            for table in (case.table, twin)
        ]
        for query in case.queries:
            ratio = found[0][query.name] / found[1][query.name]
            apart = "apart" if max(ratio, 1 / ratio) > FACTOR**2 else ""
            print(f"twins, ε = {epsilon}: {query.name:34} {ratio:6.2f}  {apart}")
    print(f"apart: by more than {FACTOR**2:.2f}, so that no one number is within {FACTOR} of both\n")


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    heads = ("alone", "published", "by a public table")
    print_twins(seeds=seeds)
    for title, cases in (("The examples", examples()), ("Held out", held_out())):
        near, count = [0, 0, 0], 0
        print(f"{title}: expected over found margin, {', '.join(heads)}")
        for case in cases:
            declared, facts = publish(case)
            ways = (
                (case.design, PublicFacts()),
                (declared, facts),
                (case.design, PublicFacts(like=case.earlier)),
            )
            for epsilon in case.epsilons:
                ratios: dict[str, list[float]] = {}
                runs = {
                    id(design): run_margins(case, design, epsilon=epsilon, seeds=seeds)
                    for design in {id(case.design): case.design, id(declared): declared}.values()
                }
                for design, public in ways:
                    for each in predict_errors(
                        design=design,
                        queries=case.queries,
                        rows=case.table.num_rows,
                        epsilon=epsilon,
                        facts=public,
                    ):
                        exact = runs[id(design)][each.query]
                        ratios.setdefault(each.query, []).append((each.margin or np.inf) / exact)
                for query, own in ratios.items():
                    count += 1
                    near = [
                        some + (1 / FACTOR <= ratio <= FACTOR) for some, ratio in zip(near, own, strict=True)
                    ]
                    print(
                        f"{case.name}, ε = {epsilon}: {query:34}" + "".join(f"{ratio:8.2f}" for ratio in own)
                    )
                sys.stdout.flush()
        told = ", ".join(f"{head} {some}" for head, some in zip(heads, near, strict=True))
        print(f"within {FACTOR} of {count}: {told}\n")


if __name__ == "__main__":
    main()
