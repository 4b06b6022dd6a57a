"""Rows of lazy frames, batch by batch: the library that holds them never collects them all for us."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from populace.schema.codec.cell_texts import Array

ToArrow = Callable[[Any], Array]


def stream_batches(frame: Any, *, rows: int, to_arrow: ToArrow) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a lazy frame of narwhals in batches of about so many rows.

    `to_arrow` turns a column of an eager frame into one Arrow array.
    """
    import narwhals as nw

    kinds = frame.collect_schema()
    # Arrow has no whole numbers of 128 bits and no type for what a library calls by names of its own; both have texts.
    odd = (nw.Int128, nw.UInt128, nw.Unknown)
    frame = frame.select(
        nw.col(name).cast(nw.String) if kind in odd else nw.col(name) for name, kind in kinds.items()
    )
    native = frame.to_native()
    library = frame.implementation
    if library.is_polars() and hasattr(native, "collect_batches"):
        for part in native.collect_batches(chunk_size=rows, maintain_order=True):
            yield _to_batch(nw.from_native(part, eager_only=True), to_arrow)
    elif library.is_duckdb():
        yield from _stream_duckdb(native, rows=rows)
    elif library.is_pyspark() or library.is_pyspark_connect():
        yield from _stream_spark(native)
    else:
        eager = frame.collect()
        for start in range(0, len(eager), rows):
            yield _to_batch(eager[start : start + rows], to_arrow)


def sort_by_unit(frame: Any, *, key: str) -> Any:
    """Return a lazy frame sorted by a key and by all that its rows hold.

    Which of its rows a unit keeps must follow from these rows alone. A file has an order; what a query returns has one
    that may change with the rows of others. Texts are ordered by their bytes: a collation may call texts equal that are
    not.
    """
    import narwhals as nw

    kinds = frame.collect_schema()
    names = [key, *(name for name, kind in kinds.items() if name != key and kind != nw.Object)]
    texts = {name for name in names if kinds[name] == nw.String}
    library, native = frame.implementation, frame.to_native()
    if library.is_duckdb():
        return nw.from_native(_sort_duckdb(native, names, texts=texts))
    if library.is_pyspark() or library.is_pyspark_connect():
        return nw.from_native(_sort_spark(native, names, texts=texts))
    return frame.sort(*names)


def _sort_duckdb(relation: Any, names: Sequence[str], *, texts: Collection[str]) -> Any:
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    # Not a cast to bytes: that one fails at a backslash.
    keys = [f"encode({quoted[name]})" if name in texts else quoted[name] for name in names]
    return relation.order(", ".join(f"{key} ASC NULLS FIRST" for key in keys))


def _sort_spark(frame: Any, names: Sequence[str], *, texts: Collection[str]) -> Any:
    from pyspark.sql import functions

    columns = {name: functions.col("`" + name.replace("`", "``") + "`") for name in names}
    keys = [columns[name].cast("binary") if name in texts else columns[name] for name in names]
    return frame.sort(*(key.asc_nulls_first() for key in keys))


def _to_batch(frame: Any, to_arrow: ToArrow) -> pa.RecordBatch:
    arrays = [to_arrow(frame.get_column(name)) for name in frame.columns]
    return pa.RecordBatch.from_arrays(arrays, names=frame.columns)


def _stream_duckdb(relation: Any, *, rows: int) -> Iterator[pa.RecordBatch]:
    # The older name was dropped when the newer came.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    yield from read(rows)


def _stream_spark(frame: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a Spark frame, partition by partition.

    Each batch comes as one cell of bytes, in Arrow's own format: rows of Python objects would take ten times as long.
    """

    # Sent to the workers by value, with nothing of this module: they need Arrow alone.
    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            packed = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([packed], names=["packed"])

    for row in frame.mapInArrow(pack, "packed binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row[0]) as reader:
            yield from reader
