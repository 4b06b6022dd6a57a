"""The last stage: synthetic rows drawn from a fitted model, as a release. It costs no budget."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from populace.api.request import RowRequest
from populace.core.errors import ReleaseError, ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.progress import Progress, silent
from populace.inference.constraints.conditional_model import (
    check_condition_possible,
    condition_model,
)
from populace.inference.gls.count_intervals import intervals
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurements
from populace.methods.method import Method
from populace.methods.request_checks import check_inference
from populace.private.capacity import check_capacity, max_synthetic_rows
from populace.release.bundle import Release
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.row_selection import RowSelection, expected_row_count
from populace.release.streamed_table import StreamedTable, can_stream
from populace.release.synthetic_rows import SyntheticRows, draw_tables
from populace.release.table_files import (
    count_column,
    find_frame_library,
    parse_table_format,
    table_format_like,
)
from populace.sampling.row_blocks import MAX_BLOCK_ROWS
from populace.schema.exact_numbers import MAX_EXACT_INTEGER
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema

# Below this share of a model's rows, there is nothing but noise.
MIN_KNOWN_SHARE = 1e-9
# How wide the interval of the total may be, as a share of it, where more rows are drawn than memory holds.
MAX_TOTAL_SPREAD = 0.1


def generate(
    model: Model,
    *,
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    like: Any = None,
    ledger: Path | str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Draw synthetic rows from a fitted model and return them as a release.

    Without `rows` there are as many as the model's noisy total says. With `where`, the rows are those of the model
    given that the condition holds. `implicates` draws as many tables, of which the first is the same for any number
    of them. `seed` makes the drawing repeatable. `like` names the kind of frame wanted, and `ledger` where saving books
    the digests of the release: by default the kind that was measured, and the ledger that paid.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> measurements = pp.measure(
    ...     people, schema=pp.Schema.from_sizes({"smokes": 2}), epsilon=1, delta=0, dataset="smokers"
    ... )
    >>> pp.generate(pp.fit(measurements), rows=300)
    Release of “smokers”: 300 synthetic rows, 1 column
      ε = 1, δ = 0 for one row
    """
    request = RowRequest(rows=rows, where=where, implicates=implicates, seed=seed)
    check_row_count(request)
    return draw_release(model, request, like=like, ledger=ledger, progress=progress)


def release_from(
    measurements: Measurements,
    model: Model,
    *,
    rows: int | None = None,
    where: str | None = None,
    implicates: int = 1,
    seed: int | None = None,
    like: Any = None,
    ledger: Path | str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Return what `generate` does, for a model that was loaded without its measurements.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> measurements = pp.measure(
    ...     people, schema=pp.Schema.from_sizes({"smokes": 2}), epsilon=1, delta=0, dataset="smokers"
    ... )
    >>> pp.release_from(measurements, pp.fit(measurements), rows=300).table.num_rows
    300
    """
    return generate(
        model.with_measurements(measurements),
        rows=rows,
        where=where,
        implicates=implicates,
        seed=seed,
        like=like,
        ledger=ledger,
        progress=progress,
    )


def draw_release(
    model: Model,
    request: RowRequest,
    *,
    like: Any = None,
    ledger: Path | str | None = None,
    allow_empty: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Draw the rows that are asked for, and return them as a release of the whole model.

    Rows of which the model knows nothing are refused, unless empty tables are allowed: what was paid for just now is
    not to be lost.
    """
    measurements = model.measurements
    if measurements is None:
        raise ReleaseError(
            "the measurements that the model was fitted to are not at hand.",
            hint="load it from the folder that holds both, or use pp.release_from(measurements, model)",
        )
    schema, context = measurements.schema, measurements.context
    request = _fit_to_tables(request, schema=schema, total=round(model.total))
    rows = request.rows
    given, selection = None, None
    if request.where is not None:
        asked = parse_where(request.where, schema=schema)
        given = condition_model(model, asked.rules, text=asked.text)
        selection = RowSelection(where=asked.text, share=float(f"{given.share:.6g}"))
    if selection is not None and not allow_empty:
        _check_selection_likely(selection, expected=selection.share * model.total, rows=rows)
    seed = secrets.randbits(63) if request.seed is None else request.seed
    count = rows
    if count is None:
        count = expected_row_count(schema, model.total, selection=selection)
        if schema.geography is not None:
            _check_fits(count, model, measurements)
        elif not schema.totals:
            most = max_synthetic_rows(schema, tables=request.implicates)
            if count > most and not (can_stream(schema) and _is_total_known(measurements)):
                # Noise may ask for more rows than any machine holds.
                count = most
    found = measurements.released_rows
    none_released = found is not None and not len(found.counts)
    if none_released or (given is not None and not given.parts):
        # What was asked for cannot be drawn, and what was paid for is not to be lost.
        rows, count = None, 0
    tables: list[pa.Table | StreamedTable] = []
    held: SyntheticRows | None = None
    drawn = draw_tables(schema, model, given=given, rows=count, implicates=request.implicates, seed=seed)
    for number in range(request.implicates):
        (progress or silent)("drawing rows", number / request.implicates)
        each = next(drawn)
        held = each if held is None and isinstance(each, SyntheticRows) else held
        tables.append(each.table if isinstance(each, SyntheticRows) else each)
    return Release(
        synthetic=tables[0],
        drawn=held,
        measurements=measurements,
        model=model,
        seed=seed,
        rows_asked=rows,
        selection=selection,
        further=tuple(tables[1:]),
        library=context.library if like is None else find_frame_library(like),
        format=parse_table_format(context.table_format) if like is None else table_format_like(like),
        ledger=context.ledger if ledger is None else Path(ledger),
    )


def check_row_request(request: RowRequest, *, schema: Schema, method: Method) -> None:
    """Refuse, from public facts alone and before anything is spent, rows that could not be drawn afterwards."""
    check_inference(request.inference, method=method, where=request.where)
    check_row_count(request)
    _fit_to_tables(request, schema=schema)
    drawn = request.rows if request.rows is not None or request.implicates == 1 else schema.max_rows
    if request.rows is None and schema.totals:
        drawn = expected_row_count(schema, 0.0)
    if drawn is not None and drawn > LIMITS.max_streamed_rows:
        raise ResourceError(
            f"{drawn} synthetic rows would take days to draw; the most is {LIMITS.max_streamed_rows}.",
            hint="ask for fewer --rows",
        )
    if drawn is not None and can_stream(schema):
        # Block by block, a few of them at a time.
        drawn = min(drawn, MAX_BLOCK_ROWS)
    check_capacity(schema, rows=None if drawn is None else drawn * request.implicates)
    if request.where is not None:
        parse_where(request.where, schema=schema)


def _check_fits(count: int, model: Model, measurements: Measurements) -> None:
    """Refuse more rows of a geography than can be drawn; counted rows are never more than cells.

    Rows of linked tables are placed together, in memory. Others are drawn block by block, unless noise made them up.
    """
    schema = measurements.schema
    if count_column(schema) is not None or count <= max_synthetic_rows(schema):
        return
    if can_stream(schema) and count <= LIMITS.max_streamed_rows:
        shown = ReleasedHierarchy.of(measurements, model)
        if 2 * float(shown.margin((), level=0, units=slice(0, 1)).item()) <= MAX_TOTAL_SPREAD * count:
            return
    raise ResourceError(
        f"{count} rows of a geography do not fit in memory.",
        hint="use more memory: what was measured is kept, and `populace generate` goes on from there. Of one table, "
        'frequency = "n" under [table] releases counted rows, and more budget fewer that noise made up',
    )


def _is_total_known(measurements: Measurements) -> bool:
    """Say whether noise moves the number of rows by no more than a tenth: then so many rows there are."""
    total = intervals(measurements).of()
    return float(total.high) - float(total.low) <= MAX_TOTAL_SPREAD * float(total.estimate)


def check_row_count(request: RowRequest) -> None:
    """Refuse a number of rows that cannot be drawn, or too many tables of them."""
    if request.rows is not None and not 0 <= request.rows <= MAX_EXACT_INTEGER:
        raise UsageError(
            f"{request.rows} rows cannot be drawn.",
            hint=f"give --rows 0 to {MAX_EXACT_INTEGER}, or leave it out",
        )
    if not 1 <= request.implicates <= LIMITS.max_implicates:
        raise UsageError(
            f"{request.implicates} implicates cannot be drawn.",
            hint=f"give --implicates 1 to {LIMITS.max_implicates}",
        )


def _fit_to_tables(request: RowRequest, *, schema: Schema, total: int | None = None) -> RowRequest:
    """Return a request for the rows of a geography; refuse one for others than its integer tables have."""
    if schema.geography is None:
        return request
    if request.rows is not None and request.rows != total:
        raise UsageError(
            f"{request.rows} rows cannot be drawn: rows of a geography add up to its integer tables.",
            hint="leave --rows out",
        )
    if request.implicates > 1:
        raise UsageError(
            "implicates cannot be drawn: every table of a geography has the same counts in every cell.",
            hint="leave --implicates out; margins of error are in tables.parquet",
        )
    if request.where is not None:
        raise UsageError(
            "rows of a geography are released as a whole, so that they add up to its tables.",
            hint="leave --where out and filter the files of the release; `populace area` estimates any set of units",
        )
    return replace(request, rows=None)


def parse_where(text: str, *, schema: Schema) -> RowFilter:
    """Return a condition on released rows; refuse what the schema cannot decide, and what no row can meet."""
    where = RowFilter.of(text, schema=schema)
    check_condition_possible(where, ModelSpace.of(schema))
    return where


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
