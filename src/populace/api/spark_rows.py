"""Synthetic rows drawn by the workers of a Spark cluster, from a saved model. It costs no budget."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from populace.api.generate import check_row_count
from populace.api.request import RowRequest
from populace.core.errors import ReleaseError, UsageError
from populace.inference.model import Model
from populace.release.row_selection import expected_row_count
from populace.release.synthetic_rows import count_parts, draw_part
from populace.schema.codec.decoder import arrow_type
from populace.schema.schema import Schema


def generate_on_spark(model: Model, session: Any, *, rows: int | None = None, seed: int | None = None) -> Any:
    """Return a Spark frame of synthetic rows of a model, drawn by the workers as they are needed.

    The same seed gives the rows that `generate` draws with it, whatever the number of workers or partitions, and also
    where a task is repeated: a task draws the blocks of one fitted block. Workers need populace.
    The frame is no release folder: keep the statement of the measurements beside what is written of it.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> schema = pp.Schema.from_sizes({"smokes": 2})
    >>> model = pp.fit(pp.measure(people, schema=schema, epsilon=1, delta=0, dataset="smokers"))
    >>> frame = pp.generate_on_spark(model, session, rows=300, seed=1)  # doctest: +SKIP
    """
    check_row_count(RowRequest(rows=rows, seed=seed))
    measurements = model.measurements
    if measurements is None:
        raise ReleaseError(
            "the measurements that the model was fitted to are not at hand.",
            hint="load it from the folder that holds both",
        )
    if measurements.record.rehearsal or model.rehearsal:
        raise ReleaseError(
            "rows of a rehearsal are released with a stamp, and a frame has no place for one.",
            hint="use pp.generate, whose files are stamped, or measure without `noise`",
        )
    schema = measurements.schema
    if schema.geography is not None or schema.linked is not None or schema.totals:
        raise UsageError(
            "rows that together meet public counts, units or links are drawn in one place.",
            hint="use pp.generate",
        )
    total = expected_row_count(schema, model.total) if rows is None else rows
    first = secrets.randbits(63) if seed is None else seed
    types = pa.schema([(name, _spark_type(arrow_type(column))) for name, column in schema.columns.items()])
    files = _read_folder(model)

    def draw(batches: Iterator[Any]) -> Iterator[Any]:
        held, own = _load_folder(files)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for drawn in draw_part(own, held, rows=total, number=number, seed=first):
                    yield from drawn.cast(types).to_batches()

    from pyspark.sql.pandas.types import from_arrow_schema

    parts = count_parts(total)
    return session.range(0, parts, 1, parts).mapInArrow(draw, from_arrow_schema(types))


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for cells: moments in microseconds, and times of the day as texts."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    return pa.string() if pa.types.is_time(kind) else kind


def _read_folder(model: Model) -> dict[str, bytes]:
    """Return the files of a saved model: they go to the workers as they are, and nothing is unpickled there."""
    with TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _load_folder(files: dict[str, bytes]) -> tuple[Model, Schema]:
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        model = Model.load(folder)
    if model.measurements is None:
        raise ReleaseError("the model has no measurements.", hint="save it with them")
    return model, model.measurements.schema
