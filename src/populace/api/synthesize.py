"""The whole street: private rows → measurements → model → synthetic rows → release.

Only here, in `evaluate` and in the CLI do the private side and the post-processing meet.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa

from populace.api.reservation import (
    as_schema,
    default_dataset,
    list_private_datasets,
    reserve,
    resolve_ledger,
)
from populace.core.errors import ReleaseError, UsageError
from populace.core.progress import Progress, silent
from populace.core.run_state import current_state, run_state
from populace.inference.constraints.conditional_model import (
    ConditionalModel,
    check_condition_possible,
    condition_model,
)
from populace.inference.constraints.public_totals import check_constraints
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurements
from populace.methods.discovery.domain_discovery import (
    build_grids,
    discover_domains,
    discovery_delta_share,
    largest_schema,
    with_grid_bins,
    with_grid_columns,
)
from populace.methods.fit_measurements import fit
from populace.methods.measurement_transcript import MeasurementTranscript, RecordingOracle
from populace.methods.registry import find_method
from populace.methods.request_checks import (
    check_inference,
    check_method,
    check_noise_fits,
    check_public,
    check_query_rounds,
    preload_inference,
)
from populace.methods.workload import Workload, resolve_workload
from populace.privacy.accounting.budget import Budget, Number, parse_delta, parse_epsilon
from populace.privacy.ledger.run_record import PublicTable
from populace.privacy.noise.noise_source import NoiseSource
from populace.private.barrier import Barrier
from populace.private.capacity import check_capacity, max_synthetic_rows
from populace.private.private_table import PrivateTable
from populace.private.public_table import check_not_same_table, read_public
from populace.release.bundle import Release
from populace.release.row_selection import MAX_IMPLICATES, RowSelection, expected_row_count
from populace.release.synthetic_rows import draw_tables
from populace.schema.exact_numbers import MAX_EXACT_INTEGER
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema

# Below this share of a model's rows, there is nothing but noise.
MIN_KNOWN_SHARE = 1e-9


@run_state()
def synthesize(
    data: Any,
    *,
    schema: Schema | Path | str,
    epsilon: Number,
    delta: Number,
    method: str = "auto",
    workload: Workload | Path | str | None = None,
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    public: Any = None,
    inference: str = "tree",
    progress: Progress | None = None,
    noise: NoiseSource | None = None,
) -> Release:
    """Return a synthetic table with an (epsilon, delta) guarantee for the unit named in the schema.

    `data` is a path or any frame that narwhals understands; the release's table is of the same kind.
    The budget is reserved in the ledger before a row is read, and stays spent whatever happens later.
    `workload` says which marginals should be accurate: "pairs", "triples", a TOML file or a `Workload`.
    `public` is a table of the same schema that everybody may know, such as last year's release: a path or a frame. It
    must never be a part of `data`. `where` keeps rows that meet a condition, `implicates` draws as many tables: both
    are done with the fitted model and cost nothing. `inference` says how rows come from what was measured: "tree", or
    "gum", the gradual update method. `seed` makes the drawing of rows repeatable, never the noise.
    `noise` other than the operating system's is for rehearsals and stamps the release as not private.
    What fails after the budget was reserved raises an exception whose notes say what was booked. It holds what was
    measured by then, as `measurements`.
    """
    schema = as_schema(schema)
    check_generation(
        schema, method=method, inference=inference, rows=rows, where=where, implicates=implicates
    )
    measurements = measure(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        workload=workload,
        ledger=ledger,
        dataset=dataset,
        public=public,
        progress=progress,
        noise=noise,
    )
    return complete(
        measurements,
        inference=inference,
        rows=rows,
        where=where,
        implicates=implicates,
        seed=seed,
        like=data,
        ledger=resolve_ledger(ledger).absolute(),
        progress=progress,
    )


def check_generation(
    schema: Schema, *, method: str, inference: str, rows: int | None, where: str | None, implicates: int
) -> None:
    """Refuse, from public facts alone and before anything is spent, rows that could not be drawn afterwards."""
    check_inference(inference, method=find_method(method), where=where)
    check_row_count(rows, implicates=implicates)
    drawn = rows if rows is not None or implicates == 1 else schema.max_rows
    if rows is None and schema.totals:
        drawn = expected_row_count(schema, 0.0)
    check_capacity(schema, rows=None if drawn is None else drawn * implicates)
    if where is not None:
        parse_where(where, schema=schema)


def complete(
    measurements: Measurements,
    *,
    inference: str = "tree",
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    like: Any = None,
    ledger: Path | None = None,
    progress: Progress | None = None,
) -> Release:
    """Fit a model to measurements that are paid for, and draw rows from it. Nothing more is spent.

    `ledger` is where saving the release books its digests.
    """
    model = fit(measurements, inference=inference, progress=progress)
    given, selection = _condition_model(model, where, schema=measurements.schema)
    return _release(
        measurements,
        model,
        given=given,
        selection=selection,
        rows=rows,
        implicates=implicates,
        seed=seed,
        like=like,
        ledger=ledger,
        progress=progress,
    )


@run_state()
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
) -> Measurements:
    """Return the noisy measurements of one method, paid for from the account of the dataset.

    Everything that can be refused from public facts is refused before the budget is reserved. Domains that the
    schema leaves open are learnt first; the measurements then carry the schema as it was learnt.
    A `public` table is read as it is; what the method takes from it is kept beside the measurements.
    An exception after the reservation holds what was measured by then, as `measurements`, and all other answers.
    """
    spent, offered = parse_epsilon(epsilon), parse_delta(delta)
    chosen = find_method(method)
    wanted = resolve_workload(workload)
    schema = as_schema(schema)
    slack = chosen.usable_delta(offered, epsilon=spent, unit=schema.unit)
    account = dataset or schema.dataset or default_dataset(data)
    path = resolve_ledger(ledger)
    check_public(chosen, given=public is not None)
    if public is not None:
        check_not_same_table(public, data=data, accounts={account, *list_private_datasets(path)})
    check_method(chosen, schema, epsilon=spent, delta=slack)
    keys = discovery_delta_share(schema, delta=slack)
    check_capacity(largest_schema(schema))
    grids = build_grids(schema)
    seen = with_grid_bins(schema, grids=grids)
    if schema.columns_to_learn:
        check_capacity(with_grid_columns(schema, grids=grids))
    check_constraints(ModelSpace.of(seen))
    wish = wanted(seen)
    check_query_rounds(chosen, wish, domain=seen.domain)
    aside = chosen.reserved_delta(slack, discovery=keys)
    check_noise_fits(
        chosen, wish, domain=seen.domain, budget=Budget.of(spent, slack - aside, unit=schema.unit)
    )
    preload_inference(chosen, rules=seen.rules)
    table = PrivateTable.of(data, schema=seen)
    known = None if public is None else read_public(public, schema=seen)
    run, source = reserve(
        account,
        ledger=path,
        noise=noise,
        epsilon=spent,
        delta=slack,
        schema=schema,
        method=chosen.name,
        keys=aside,
        workload=None if workload is None else wish.label,
        public=None if known is None else PublicTable(known.name, known.digest),
    )
    progress = progress or silent
    transcript = MeasurementTranscript(run, schema=schema)
    current_state().paid = transcript.collect
    if schema.columns_to_learn:

        def opened(draft: Schema) -> RecordingOracle:
            barrier = Barrier(PrivateTable.of(data, schema=draft), run=run, noise=source)
            return RecordingOracle(barrier, transcript=transcript)

        schema, transcript.learnt = discover_domains(
            opened, schema, grids=grids, progress=progress, keys=keys
        )
        transcript.schema = schema
        table = PrivateTable.of(data, schema=schema)
        wish = wanted(schema)
        known = None if public is None else read_public(public, schema=schema)
    oracle = RecordingOracle(Barrier(table, run=run, noise=source, public=known), transcript=transcript)
    transcript.final = chosen.measure(oracle, workload=wish, progress=progress)
    run.finish()
    return transcript.measurements()


def release_from(
    measurements: Measurements,
    model: Model,
    *,
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    like: Any = None,
    ledger: Path | None = None,
    progress: Progress | None = None,
) -> Release:
    """Draw synthetic rows from a fitted model and return them as a release.

    Without `rows` there are as many as the model's noisy total says. With `where`, the rows are those of the model
    given that the condition holds. `implicates` draws as many tables, of which the first is the same for any number
    of them. `like` names the kind of frame wanted, and `ledger` is where saving books the digests of the release.
    """
    check_row_count(rows, implicates=implicates)
    if model.measurements != measurements.digest:
        raise ReleaseError(
            "the model was fitted to other measurements.", hint="fit it again to these with `populace fit`"
        )
    given, selection = _condition_model(model, where, schema=measurements.schema)
    if selection is not None:
        _check_selection_likely(selection, expected=selection.share * model.total, rows=rows)
    return _release(
        measurements,
        model,
        given=given,
        selection=selection,
        rows=rows,
        implicates=implicates,
        seed=seed,
        like=like,
        ledger=ledger,
        progress=progress,
    )


def _release(
    measurements: Measurements,
    model: Model,
    *,
    given: ConditionalModel | None,
    selection: RowSelection | None,
    rows: int | None,
    implicates: int,
    seed: int | None,
    like: Any,
    ledger: Path | None,
    progress: Progress | None,
) -> Release:
    """Draw rows from a model, or from what it is given a condition, and return them as a release of the whole model."""
    schema = measurements.schema
    seed = secrets.randbits(63) if seed is None else seed
    count = rows
    if count is None:
        count = expected_row_count(schema, model.total, selection=selection)
        if not schema.totals:
            # Noise may ask for more rows than any machine holds.
            count = min(count, max_synthetic_rows(schema, tables=implicates))
    none_told = measurements.released_rows is not None and not len(measurements.released_rows.counts)
    if none_told or (given is not None and not given.parts):
        # What was asked for cannot be drawn, and what was paid for is not to be lost.
        rows, count = None, 0
    tables: list[pa.Table] = []
    drawn = draw_tables(schema, model, given=given, rows=count, implicates=implicates, seed=seed)
    for number in range(implicates):
        (progress or silent)("drawing rows", number / implicates)
        tables.append(next(drawn))
    return Release.made(
        table=tables[0],
        measurements=measurements,
        model=model,
        seed=seed,
        rows_asked=rows,
        selection=selection,
        further=tuple(tables[1:]),
        like=like,
        ledger=ledger,
    )


def parse_where(text: str, *, schema: Schema) -> RowFilter:
    """Return a condition on released rows; refuse what the schema cannot decide, and what no row can meet."""
    where = RowFilter.of(text, schema=schema)
    check_condition_possible(where, ModelSpace.of(schema))
    return where


def _condition_model(
    model: Model, where: str | None, *, schema: Schema
) -> tuple[ConditionalModel | None, RowSelection | None]:
    """Return a model given a condition, and which of all rows these are; nothing where nothing was asked."""
    if where is None:
        return None, None
    asked = parse_where(where, schema=schema)
    found = condition_model(model, asked.rules, text=asked.text)
    return found, RowSelection(where=asked.text, share=float(f"{found.share:.6g}"))


def _check_selection_likely(selection: RowSelection, *, expected: float, rows: int | None) -> None:
    """Refuse rows of which the model knows nothing. Only where nothing was spent for them just now."""
    if rows is None and expected < 0.5:
        raise UsageError(
            f"the model expects fewer than one row where {selection.where} (about {expected:.2g}).",
            hint="ask for rows that are more common, or give --rows to draw some all the same",
        )
    if rows and selection.share < MIN_KNOWN_SHARE:
        raise UsageError(
            f"the model knows nothing of rows where {selection.where}: their share of it is {selection.share:.2g}.",
            hint="ask for rows that are more common",
        )


def check_row_count(rows: int | None, *, implicates: int = 1) -> None:
    """Refuse a number of rows that cannot be drawn, or too many tables of them."""
    if rows is not None and not 0 <= rows <= MAX_EXACT_INTEGER:
        raise UsageError(
            f"{rows} rows cannot be drawn.", hint=f"give --rows 0 to {MAX_EXACT_INTEGER}, or leave it out"
        )
    if not 1 <= implicates <= MAX_IMPLICATES:
        raise UsageError(
            f"{implicates} implicates cannot be drawn.", hint=f"give --implicates 1 to {MAX_IMPLICATES}"
        )
