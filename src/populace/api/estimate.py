"""The street of estimates: private rows → noisy sums → estimates with their errors → release."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.api.request import RunRequest
from populace.api.reservation import reserve
from populace.core.errors import SchemaError, UsageError
from populace.core.progress import Progress, silent
from populace.core.run_state import current_state, run_state
from populace.core.table_address import refuse_push_down
from populace.privacy.accounting.budget import Number
from populace.privacy.ledger.run_record import Adaptivity
from populace.private.barrier import Barrier
from populace.private.capacity import check_capacity
from populace.private.dry_run import check_answerable
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot
from populace.release.estimates_bundle import Estimates
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.hints import quote_names
from populace.schema.linked.linked_tables import refuse_linked
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_queries
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_transcript import SurveyRecorder

if TYPE_CHECKING:
    from populace.privacy.noise.noise_source import NoiseSource


def estimate(
    data: Any,
    *,
    schema: Schema | Path | str,
    design: Design | Path | str,
    queries: Queries | Path | str,
    epsilon: Number,
    delta: Number = 0,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
) -> Estimates:
    """Return estimates about the population of a survey, with an (epsilon, delta) guarantee for the schema's unit.

    `data` is a path, the address of a table in a database, or any frame that narwhals understands; `design` says how
    its rows were drawn and weighted, and `queries` what is asked: paths of TOML files, or a `Design` and `Queries`.
    Everything that can be refused from public facts is refused before the budget is reserved in the ledger, and that is
    done before a row is read. Where pure noise gives shorter intervals, none of `delta` is used.
    Each estimate comes with its sampling error, its privacy error and an interval for both.
    `noise` other than the operating system's is for rehearsals and stamps the estimates as not private.
    An exception after the reservation says in its notes what was booked, and holds the noisy answers, as `answers`.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> schema = asked["schema"]
    >>> queries = pp.Queries.parse('[[query]]\\nstatistic = "mean"\\ncolumn = "smokes"\\n', schema=schema)
    >>> found = pp.estimate(people, design=pp.Design(schema=schema), queries=queries, **asked)
    >>> bool(abs(found.rows[0].estimate - 0.25) < 0.1)
    True
    """
    request = RunRequest.of(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=None,
        ledger=ledger,
        dataset=dataset,
        noise=noise,
    )
    return estimate_request(request, design=design, queries=queries, progress=progress)


@run_state()
def estimate_request(
    request: RunRequest,
    *,
    design: Design | Path | str,
    queries: Queries | Path | str,
    progress: Progress | None = None,
) -> Estimates:
    """Return the estimates that a request asks for; see `estimate`."""
    schema = request.schema
    refuse_linked(
        schema.linked,
        what="estimates are made of one",
        hint="give a schema of that table alone; with an id and rows_per_unit it can use the same account",
    )
    refuse_push_down(request.data, what="estimates need the rows")
    check_estimable(schema)
    for key, given, kind in (("design", design, Design), ("queries", queries, Queries)):
        if not isinstance(given, kind | str | Path):
            raise UsageError(
                f"{key} is a {type(given).__name__}.",
                hint=f"give a path, or pp.{kind.__name__}(schema=schema, …)",
            )
    design = design if isinstance(design, Design) else Design.load(design, schema=schema)
    queries = queries if isinstance(queries, Queries) else Queries.load(queries, schema=schema)
    if design.schema != schema or queries.schema != schema:
        raise UsageError(
            "the design or the queries were read with another schema.",
            hint="read all of them with one schema",
        )
    check_capacity(schema, numbers=len(numeric_column_names(schema)))
    plan, delta = QueryPlan.narrowest(design, queries, epsilon=request.epsilon, delta=request.delta)
    check_answerable(plan)
    table = PrivateTable.of(open_snapshot(request.data), schema=schema)
    run, source = reserve(
        request,
        delta=delta,
        plan=Adaptivity.FIXED if plan.fixed else Adaptivity.ADAPTIVE,
    )
    (progress or silent)("adding up", 0.0)
    oracle = SurveyRecorder(Barrier(table, run=run, noise=source))
    rows: tuple[Estimate, ...] = ()

    def collect() -> Mapping[str, Any]:
        """Return what is to be kept: all answers, and the estimates where they were made."""
        found: dict[str, Any] = {"answers": oracle.transcript}
        if rows:
            # A ledger that cannot be read just now has no record for estimates; the answers need none.
            with suppress(Exception):
                if not run.record().finished:
                    run.finish()
            with suppress(Exception):
                found["estimates"] = Estimates(
                    design=design,
                    queries=queries,
                    rows=rows,
                    transcript=oracle.transcript,
                    record=run.record(),
                )
        return found

    current_state().paid = collect
    rows = answer_queries(oracle, plan=plan)
    run.finish()
    return Estimates(
        design=design,
        queries=queries,
        rows=rows,
        transcript=oracle.transcript,
        record=run.record(),
        ledger=request.ledger.absolute(),
    )


def check_estimable(schema: Schema) -> None:
    """Refuse domains to be learnt, rows that stand for several units, and columns that are levels."""
    if schema.columns_to_learn:
        raise SchemaError(
            f"the domain of {quote_names(schema.columns_to_learn)} is to be learnt, which estimates do not do.",
            hint="declare its values or bins, or leave the column out of the schema",
        )
    if schema.frequency is not None:
        raise SchemaError(
            f"a row stands for as many {schema.unit.word} units as {schema.frequency!r} says; estimates take rows of "
            "single units.",
            hint="give a file with one row per unit, and take frequency out of the schema",
        )
    if schema.geography is not None:
        raise SchemaError(
            "the schema has a [geography], which estimates do not use.",
            hint="declare its levels as categorical columns instead, or run `populace synth` for tables of all units",
        )
