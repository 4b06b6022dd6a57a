"""Which engine counts the rows of a source."""

from __future__ import annotations

from populace.private.engine import Engine
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.read.databases.push_down import PushDownSource
from populace.private.read.rows_to_codes import read_counted_codes
from populace.private.read.sources import Source
from populace.schema.schema import Schema


def open_engine(source: Source, schema: Schema) -> Engine:
    """Return the engine over the rows of a source: read into memory here, or left where they are."""
    if isinstance(source, PushDownSource):
        return source.open_engine()
    return MemoryEngine(*read_counted_codes(source, schema), domain=schema.domain)
