"""Tables whose rows may not leave the place where they are: they are counted there, and never read here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from populace.core.errors import InternalError, UsageError
from populace.private.engine import Engine
from populace.private.engines.spark_engine import SparkEngine
from populace.private.read.databases.postgres_source import PostgresSource
from populace.private.read.rows_to_codes import check_header, open_source
from populace.private.read.sources import FrameSource
from populace.schema.schema import Schema


class PushDownSource:
    """A table whose header is known and whose rows are not for us; what cannot be counted there is refused."""

    kind: Literal["frame"] = "frame"
    decimal = "."

    def __init__(self, data: Any, *, schema: Schema) -> None:
        source = open_source(data)
        check_header(source, schema)
        self.names = source.names
        if isinstance(source, PostgresSource):
            self.open_engine = source.open_engine(schema)
        else:
            self.open_engine = _open_spark_engine(source, schema)

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return nothing: the types were looked at when the table was opened."""
        del columns
        return []

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Refuse to read a row."""
        raise InternalError(f"rows of {len(columns)} columns that may not leave their place were to be read.")


def _open_spark_engine(source: object, schema: Schema) -> Callable[[], Engine]:
    frame = source.spark_frame if isinstance(source, FrameSource) else None
    if frame is None:
        raise UsageError(
            "rows are counted where they are by Spark and by PostgreSQL alone.",
            hint="leave --push-down out: a file, a DuckDB table or a Polars frame is read in this process anyway",
        )
    if schema.unit.id is not None and schema.frequency is not None:
        raise UsageError(
            "a row that stands for several units cannot have an id as well where rows are counted on a cluster.",
            hint="leave --push-down out",
        )
    return lambda: SparkEngine(frame, schema=schema)
