"""Which engine counts the rows of a source."""

from __future__ import annotations

from collections.abc import Callable

from populace.private.code_store import CodeStore
from populace.private.engine import Engine
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.read.databases.push_down import PushDownSource
from populace.private.read.rows_to_codes import read_counted_codes
from populace.private.read.sources import Source
from populace.schema.schema import Schema


def prepare_engine(source: Source, schema: Schema) -> Callable[[], Engine]:
    """Return what opens the engine over the rows of a source: read into a store of codes, or left where they are.

    The store is made here, before anything is charged; no row is read before the engine is opened.
    """
    if isinstance(source, PushDownSource):
        return source.open_engine
    store = CodeStore.of(schema)
    return lambda: MemoryEngine(read_counted_codes(source, schema, store), domain=schema.domain)
