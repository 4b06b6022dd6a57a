"""The Spark engine: rows are encoded and counted by the workers, and only counts come to the driver.

Workers run the codec and the counters that every other engine runs, so counts are the same. Encoded rows are kept by
the cluster: a method that asks again and again does not read the table again. A task that is repeated, because a worker
was lost, is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace._native import kernels
from populace.core.marginals import Counts, Domain, Grouping, Marginal
from populace.core.run_state import current_state
from populace.private.engines.kept_counts import KeptCounts
from populace.private.engines.memory_engine import count_in_chunks
from populace.private.read.value_counts import cells_to_texts
from populace.private.redact import redact_row_errors
from populace.schema.codec.frequencies import read_frequencies
from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema

# A row of codes as bytes, the first column first and the highest byte first: sorted as codes are.
_ROW_TYPE = np.dtype(">u4")
_FREQUENCY = "frequency"
_UNIT = "unit"


class SparkEngine(KeptCounts):
    """Counts marginals over the rows of a Spark frame, on its cluster."""

    def __init__(self, frame: Any, *, schema: Schema) -> None:
        super().__init__(schema.domain)
        with redact_row_errors("the frame"):
            self._encoded = _encode(frame, schema).persist()
        current_state().opened.callback(self._encoded.unpersist)

    def tally(self) -> tuple[npt.NDArray[Any], Counts]:
        """Return the rows that occur, sorted, a row of codes each, and how often."""
        domain = self._domain

        def tally_rows(batches: Iterator[Any]) -> Iterator[Any]:
            for codes, frequencies in _unpack(batches):
                rows = _to_bytes([codes[name] for name in domain])
                numbers = np.ones(len(rows), dtype=np.int64) if frequencies is None else frequencies
                yield pa.record_batch({"codes": rows, "number": pa.array(numbers, pa.int64())})

        with redact_row_errors("the frame"):
            found = _collect_sums(
                self._encoded.mapInArrow(tally_rows, "codes binary, number bigint"), "codes"
            )
        # Rows that stand for nobody do not occur.
        numbers = dict(zip(*(found.column(name).to_pylist() for name in ("codes", "number")), strict=True))
        keys = sorted(key for key, number in numbers.items() if number > 0)
        small = np.result_type(*(np.min_scalar_type(size - 1) for size in domain.values()))
        rows = np.frombuffer(b"".join(keys), _ROW_TYPE).reshape(len(keys), len(domain)).astype(small)
        return rows, np.array([numbers[key] for key in keys], dtype=np.int64)

    def _count_cells(self, marginals: Sequence[Marginal]) -> tuple[npt.NDArray[Any], ...]:
        domain = self._domain

        def count_rows(batches: Iterator[Any]) -> Iterator[Any]:
            found = [np.zeros(marginal.shape(domain), dtype=np.int64) for marginal in marginals]
            for codes, frequencies in _unpack(batches):
                counted = _count_batch(codes, frequencies, marginals, domain)
                found = [whole + part for whole, part in zip(found, counted, strict=True)]
            for number, counts in enumerate(found):
                cells = np.flatnonzero(counts)
                yield pa.record_batch(
                    {
                        "marginal": pa.array(np.full(len(cells), number), pa.int32()),
                        "cell": pa.array(cells, pa.int64()),
                        "number": pa.array(counts.ravel()[cells], pa.int64()),
                    }
                )

        with redact_row_errors("the frame"):
            partial = self._encoded.mapInArrow(count_rows, "marginal int, cell bigint, number bigint")
            table = _collect_sums(partial, "marginal", "cell")
        return tuple(table.column(name).to_numpy() for name in ("marginal", "cell", "number"))


def _count_batch(
    codes: Mapping[str, npt.NDArray[Any]],
    frequencies: Counts | None,
    marginals: Sequence[Marginal],
    domain: Domain,
) -> list[Counts]:
    """Return the counts of each marginal in one batch of rows, by the loops of the memory engine."""
    columns = [
        [_group(codes[name], marginal.grouping(name)) for name in marginal.clique] for marginal in marginals
    ]
    shapes = [marginal.shape(domain) for marginal in marginals]
    rows = len(next(iter(codes.values())))
    if frequencies is not None or not kernels.compiled() or not all(columns):
        return count_in_chunks(columns, shapes, rows=rows, frequencies=frequencies)
    return [kernels.count_columns(held, sizes=shape) for held, shape in zip(columns, shapes, strict=True)]


def _group(codes: npt.NDArray[Any], grouping: Grouping | None) -> npt.NDArray[Any]:
    if grouping is None:
        return codes
    grouped: npt.NDArray[Any] = grouping.lookup.astype(np.min_scalar_type(max(grouping.size - 1, 0)))[codes]
    return grouped


def _encode(frame: Any, schema: Schema) -> Any:
    """Return the codes of a frame, a batch of rows in a cell; of a unit, the first rows in the order of their codes."""
    codec, unit, frequency = TableCodec(schema), schema.unit, schema.frequency
    domain = schema.domain

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            codes = codec.encode({name: batch.column(name) for name in codec.input_columns})
            extra = {}
            if frequency is not None:
                extra[_FREQUENCY] = read_frequencies(batch.column(frequency), decimal=".")
            yield _pack({name: codes[name] for name in domain} | extra)

    def encode_units(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            codes = codec.encode({name: batch.column(name) for name in codec.input_columns})
            texts = cells_to_texts(batch.column(unit.id)).cast(pa.string())
            yield pa.record_batch({_UNIT: texts, "codes": _to_bytes([codes[name] for name in domain])})

    def pack_units(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = np.frombuffer(b"".join(batch.column("codes").to_pylist()), _ROW_TYPE)
            columns = rows.reshape(batch.num_rows, len(domain)).T
            yield _pack(
                {n: c.astype(np.min_scalar_type(domain[n] - 1)) for n, c in zip(domain, columns, strict=True)}
            )

    if unit.id is None:
        return frame.mapInArrow(encode, "packed binary")
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    # A row without an id belongs to nobody.
    rows = frame.mapInArrow(encode_units, f"{_UNIT} string, codes binary").where(f"{_UNIT} <> ''")
    place = sql.row_number().over(Window.partitionBy(_UNIT).orderBy("codes"))
    kept = rows.withColumn("place", place).where(sql.col("place") <= unit.rows)
    return kept.select("codes").mapInArrow(pack_units, "packed binary")


def _pack(columns: Mapping[str, npt.NDArray[Any]]) -> pa.RecordBatch:
    batch = pa.record_batch({name: pa.array(column) for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.record_batch({"packed": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Counts | None]]:
    for batch in batches:
        for cell in batch.column(0):
            with pa.ipc.open_stream(cell.as_buffer()) as reader:
                for part in reader:
                    held = {name: part.column(name).to_numpy() for name in part.schema.names}
                    frequencies = held.pop(_FREQUENCY, None)
                    yield held, frequencies


def _to_bytes(columns: Any) -> pa.Array:
    """Return rows of codes, given by column, as bytes of one length."""
    rows = np.ascontiguousarray(np.column_stack(list(columns)).astype(_ROW_TYPE))
    width = rows.shape[1] * _ROW_TYPE.itemsize
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(rows)])
    return fixed.cast(pa.binary())


def _collect_sums(frame: Any, *keys: str) -> pa.Table:
    from pyspark.sql import functions as sql

    return frame.groupBy(*keys).agg(sql.sum("number").alias("number")).toArrow()
