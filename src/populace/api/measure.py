"""The first stage, and the only one that reads private rows: noisy measurements, paid for before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.api.earlier_releases import load_earlier
from populace.api.notices import describe_questions, note_unread_columns
from populace.api.request import RunRequest, list_private_datasets
from populace.api.reservation import reserve
from populace.api.rule_measurement import measure_rules
from populace.core.memory_limit import limit_memory
from populace.core.progress import Progress, silent
from populace.core.run_state import current_state, run_state
from populace.core.table_address import refuse_push_down
from populace.inference.constraints.public_totals import check_constraints
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurements, RunContext
from populace.methods.discovery.domain_discovery import (
    build_grids,
    discover_domains,
    discovery_delta_share,
    largest_schema,
    with_grid_columns,
)
from populace.methods.measurement_transcript import MeasurementTranscript, RecordingOracle
from populace.methods.request_checks import (
    check_earlier,
    check_method,
    check_noise_fits,
    check_public,
    check_query_rounds,
    preload_inference,
)
from populace.methods.workload import Workload, resolve_workload
from populace.privacy.accounting.budget import Budget, Number
from populace.privacy.ledger.run_record import Adaptivity, PublicTable
from populace.privacy.noise.noise_source import NoiseSource
from populace.private.barrier import Barrier
from populace.private.capacity import check_capacity
from populace.private.private_table import PrivateTable
from populace.private.public_table import check_not_same_table, read_public
from populace.private.read.databases.open_database import open_snapshot
from populace.private.rule_table import rule_table
from populace.release.table_files import find_frame_library, table_format_like
from populace.schema.columns.unknown_columns import UnknownBins, UnknownValues
from populace.schema.linked.linked_tables import refuse_linked
from populace.schema.schema import Schema


def measure(
    data: Any,
    *,
    schema: Schema | Path | str,
    epsilon: Number,
    delta: Number,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    public: Any = None,
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
    memory: int | str | None = None,
    check_rules: bool = False,
    earlier: Sequence[Path | str] = (),
) -> Measurements:
    """Return the noisy measurements of one method, paid for from the account of the dataset.

    Everything that can be refused from public facts is refused before the budget is reserved. Domains that the
    schema leaves open are learnt first; the measurements then carry the schema as it was learnt.
    A `public` table is read as it is; what the method takes from it is kept beside the measurements.
    `earlier` are folders of earlier releases of the account: their tables are used beside those of this run.
    With `check_rules` a twentieth of the budget counts the rows that break each rule of the schema.
    An exception after the reservation holds what was measured by then, as `measurements`, and all other answers.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> pp.measure(people, schema=pp.Schema.from_sizes({"smokes": 2}), epsilon=1, delta=0, dataset="smokers")
    Measurements of “smokers”: number of rows, 1 column
      paid for with ε = 1, δ = 0
    """
    run = (data, schema, epsilon, delta, method, workload, ledger, memory)
    given = {"dataset": dataset, "public": public, "noise": noise, "check_rules": check_rules}
    request = RunRequest.of(*run, **given, earlier=earlier)
    return measure_request(request, progress=progress)


@run_state()
def measure_request(request: RunRequest, *, progress: Progress | None = None) -> Measurements:
    """Return the measurements that a request asks for; see `measure`."""
    with limit_memory(request.memory):
        return _measure(request, progress=progress)


def _measure(request: RunRequest, *, progress: Progress | None) -> Measurements:
    method, schema, data = request.synthesizer, request.schema, request.data
    check_earlier(method, given=bool(request.earlier))
    earlier = load_earlier(
        request.earlier, ledger=request.ledger, dataset=request.dataset, schema=request.schema
    )
    if earlier:
        # Domains that an earlier run learnt are known.
        schema = earlier[0][0].schema
    resolve = resolve_workload(request.workload)
    delta = method.usable_delta(request.delta, epsilon=request.epsilon, unit=schema.unit)
    check_public(method, given=request.public is not None)
    if request.public is not None:
        refuse_linked(
            schema.linked, what="a public table is compared with one", hint="leave the public table out"
        )
        private = {request.dataset, *list_private_datasets(request.ledger)}
        check_not_same_table(request.public, data=data, accounts=private)
    check_method(method, schema, epsilon=request.epsilon, delta=delta)
    keys = Fraction(0) if earlier else discovery_delta_share(schema, delta=delta)
    check_capacity(largest_schema(schema))
    if schema.linked is not None:
        refuse_push_down(data, what="linked tables are joined here")
    if any(isinstance(column, UnknownValues) for column in schema.columns.values()):
        refuse_push_down(data, what="values are learnt from the texts of cells")
    if request.check_rules:
        refuse_push_down(data, what="rules are checked here")
    grids = build_grids(schema)
    # Columns of unknown bins have the finest bins that learning looks at.
    open_bins = {name: grid for name, grid in grids.items() if isinstance(schema.columns[name], UnknownBins)}
    seen = schema.replace_columns({name: grid.column for name, grid in open_bins.items()})
    if schema.columns_to_learn:
        check_capacity(with_grid_columns(schema, grids=grids))
    check_constraints(ModelSpace.of(seen))
    workload = resolve(seen)
    check_query_rounds(method, workload, domain=seen.domain)
    aside = method.reserved_delta(delta, discovery=keys)
    budget = Budget.of(request.epsilon, delta - aside, unit=schema.unit)
    check_noise_fits(method, workload, domain=seen.domain, budget=budget)
    preload_inference(method, rules=seen.rules)
    data = open_snapshot(data)
    table = PrivateTable.of(data, schema=seen)
    if request.check_rules:
        rule_table(data, schema=seen)
    known = None if request.public is None else read_public(request.public, schema=seen)
    if request.noise is None:
        note_unread_columns(data, schema)
    context = RunContext(
        library=find_frame_library(request.data),
        table_format=str(table_format_like(request.data)),
        ledger=request.ledger.absolute(),
    )
    run, source = reserve(
        request,
        delta=delta,
        plan=Adaptivity.FIXED if method.fixed_plan else Adaptivity.ADAPTIVE,
        keys=aside,
        workload=None if request.workload is None else workload.label,
        public=None if known is None else PublicTable(known.name, known.digest),
        questions=describe_questions(request),
    )
    progress = progress or silent
    transcript = MeasurementTranscript(run, schema=schema, context=context)
    transcript.earlier = earlier
    current_state().paid = transcript.collect
    if schema.columns_to_learn:

        def open_draft(draft: Schema) -> RecordingOracle:
            barrier = Barrier(PrivateTable.of(data, schema=draft), run=run, noise=source)
            return RecordingOracle(barrier, transcript=transcript)

        schema, transcript.learnt = discover_domains(
            open_draft, schema, grids=grids, progress=progress, keys=keys
        )
        transcript.schema = schema
        table = PrivateTable.of(data, schema=schema)
        workload = resolve(schema)
        known = None if request.public is None else read_public(request.public, schema=schema)
    if request.check_rules:
        rules = Barrier(rule_table(data, schema=schema), run=run, noise=source)
        transcript.rule_checks = measure_rules(rules, schema=schema)
    oracle = RecordingOracle(Barrier(table, run=run, noise=source, public=known), transcript=transcript)
    transcript.final = method.measure(oracle, workload, progress)
    current_state().opened.close()
    run.finish(returned=run.record().compute_unneeded() if method.fixed_plan else None)
    return transcript.measurements()
