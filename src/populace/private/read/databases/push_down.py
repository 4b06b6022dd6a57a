"""Which engine counts rows that may not leave the place where they are."""

from __future__ import annotations

from collections.abc import Callable

from populace.core.errors import UsageError
from populace.private.engine import Engine
from populace.private.read.databases.postgres_source import PostgresSource
from populace.private.read.sources import FrameSource, Source
from populace.schema.schema import Schema


def open_push_down(source: Source, schema: Schema) -> Callable[[], Engine]:
    """Return what opens the engine over the rows once they are paid for; refuse what cannot be counted there."""
    if isinstance(source, PostgresSource):
        return source.open_engine(schema)
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

    def open_engine() -> Engine:
        from populace.private.engines.spark_engine import SparkEngine

        return SparkEngine(frame, schema=schema)

    return open_engine
