"""A table of synthetic rows that is never whole in memory: its blocks are drawn, or read, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from populace.core.untrusted_files import check_memory
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedTable:
    """Rows by blocks; `open_blocks` gives the same blocks every time.

    >>> blocks = [pa.table({"a": [1, 2]}), pa.table({"a": [3]})]
    >>> table = StreamedTable(num_rows=3, types={"a": pa.int64()}, open_blocks=lambda: iter(blocks))
    >>> table.slice(0, 1).to_pylist(), table.read_all()["a"].to_pylist()
    ([{'a': 1}], [1, 2, 3])
    """

    num_rows: int
    types: Mapping[str, pa.DataType]
    open_blocks: Callable[[], Iterator[pa.Table]]

    @property
    def column_names(self) -> list[str]:
        """The names of its columns."""
        return list(self.types)

    def first_block(self) -> pa.Table:
        """Return its first rows, a block of them."""
        blocks = self.open_blocks()
        try:
            return next(blocks)
        finally:
            # A generator holds threads and files until it is closed.
            getattr(blocks, "close", lambda: None)()

    def slice(self, start: int, count: int) -> pa.Table:
        """Return some rows of its first block."""
        return self.first_block().slice(start, count)

    def read_all(self) -> pa.Table:
        """Return the whole table; refuse one for which there is no memory."""
        check_memory("the synthetic table", size=8 * self.num_rows * len(self.types))
        return pa.concat_tables(self.open_blocks()).combine_chunks()


def can_stream(schema: Schema) -> bool:
    """Say whether rows of a schema can be drawn block by block: not where all of them together meet public counts.

    Those of a geography are known one by one from its integer tables; counted ones are never more than cells.
    """
    counted = schema.geography is not None and schema.frequency is not None
    return schema.linked is None and not counted and not schema.totals


def iterate_blocks(table: pa.Table | StreamedTable) -> Iterator[pa.Table]:
    """Yield the blocks of a table; a table in memory is one."""
    if isinstance(table, StreamedTable):
        yield from table.open_blocks()
    else:
        yield table


def read_whole(table: pa.Table | StreamedTable) -> pa.Table:
    """Return a table in memory."""
    return table.read_all() if isinstance(table, StreamedTable) else table


def cut_blocks(parts: Iterator[pa.Table], sizes: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the rows of parts of any size in blocks of these sizes; what is left over is a block too many.

    >>> parts = (pa.table({"a": [1, 2]}), pa.table({"a": [3]}))
    >>> [block["a"].to_pylist() for block in cut_blocks(iter(parts), [1, 2])]
    [[1], [2, 3]]
    """
    held: list[pa.Table] = []
    rows, left = 0, list(sizes)
    for part in parts:
        held.append(part)
        rows += part.num_rows
        while left and rows >= left[0]:
            joined = pa.concat_tables(held)
            yield joined.slice(0, left[0]).combine_chunks()
            held = [joined.slice(left[0])]
            rows -= left.pop(0)
    if rows:
        yield pa.concat_tables(held).combine_chunks()
