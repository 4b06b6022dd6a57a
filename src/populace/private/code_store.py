"""Codes of private rows: in memory up to a bound, beyond it in a private file that is mapped into memory by blocks.

The file has no name from the moment it is made, so it is gone when the process is, however that ends, and nobody else
can open it. A block holds some rows, column after column. The file is made before anything is charged, whether or not
it will be needed; where the schema says how many rows there are at most, so is the room for all of them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import ResourceError
from populace.core.memory_limit import memory_limit
from populace.schema.schema import Schema

Columns = Mapping[str, npt.NDArray[Any]]

# The column that says for how many units a row stands; no variable has this name.
FREQUENCY = ""
# Codes take this part of the memory that the process may use: a method needs the rest.
MEMORY_SHARE = 4
BLOCK_BYTES = 2**24
# Rows of a block are a multiple of this, so that each block begins on a page.
ROWS_STEP = 2**12
# A file whose length nobody knows grows by so much at a time.
GROWTH_BYTES = 2**28


class CodeStore:
    """Columns of codes that grow batch by batch, and are read back in blocks.

    >>> store = CodeStore({"a": np.dtype(np.uint8)}, memory=2)
    >>> for _ in range(3):
    ...     store.append({"a": np.array([1, 2], np.uint8)})
    >>> [block["a"].tolist() for block in store.blocks()]
    [[1, 2, 1, 2, 1, 2]]
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_capacity",
        "_end",
        "_file",
        "_filled",
        "_kinds",
        "_memory",
        "_parts",
        "_row_bytes",
        "_rows",
        "_spare",
        "_whole",
    )

    def __init__(
        self, kinds: Mapping[str, np.dtype[Any]], *, memory: int, max_rows: int | None = None
    ) -> None:
        self._kinds = dict(kinds)
        self._memory = memory
        self._row_bytes = sum(kind.itemsize for kind in self._kinds.values())
        # Rows of a block; rows so far; rows in the block that is being filled.
        self._whole = max(1, BLOCK_BYTES // (max(self._row_bytes, 1) * ROWS_STEP)) * ROWS_STEP
        self._rows = self._filled = self._end = self._capacity = 0
        self._parts: list[Columns] = []
        self._buffer: dict[str, npt.NDArray[Any]] = {}
        # Descriptors of the file in use, and of one that is there if it comes to that; neither has a name.
        self._file: int | None = None
        self._spare: int | None = None
        if max_rows is not None and max_rows * self._row_bytes > memory:
            self._open_file()
            self._allocate(-(-max_rows // self._whole) * self._block_bytes, declared=True)

    @classmethod
    def of(cls, schema: Schema) -> CodeStore:
        """Return a store for the codes of a schema's variables, within the memory that this process may use.

        Whether a file can be made is found out here: later it would depend on the number of rows.
        """
        kinds = {name: np.min_scalar_type(size - 1) for name, size in schema.domain.items()}
        if schema.frequency is not None:
            kinds[FREQUENCY] = np.dtype(np.int64)
        found = cls(kinds, memory=memory_limit() // MEMORY_SHARE, max_rows=schema.max_rows)
        if found.is_in_memory:
            found._spare = found._make_file()
        return found

    @property
    def is_in_memory(self) -> bool:
        """Whether its rows are one block that stays in memory."""
        return self._file is None

    @property
    def _block_bytes(self) -> int:
        return self._whole * self._row_bytes

    def clear(self) -> None:
        """Forget all rows: a reading that broke off begins anew, and counts none of them twice."""
        self._rows = self._filled = self._end = 0
        self._parts = []

    def append(self, batch: Columns) -> None:
        """Add rows."""
        rows = len(next(iter(batch.values()), ()))
        self._rows += rows
        if self._file is None:
            self._parts.append(batch)
            if self._rows * self._row_bytes > self._memory:
                self._open_file()
                parts, self._parts = self._parts, []
                for part in parts:
                    self._fill(part)
            return
        self._fill(batch)

    def blocks(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Yield the rows, all at once if they are in memory; those of a file are mapped while they are looked at.

        No rows are one block without any: whoever counts must not tell them from a few.
        """
        if self._file is None:
            self._parts = [self._join()]
            yield dict(self._parts[0])
            return
        for start in range(0, self._rows - self._filled, self._whole):
            offset = start // self._whole * self._block_bytes
            # It is unmapped when the last array of the block is gone.
            yield self._views(
                mmap.mmap(self._file, self._block_bytes, access=mmap.ACCESS_READ, offset=offset)
            )
        if self._filled or not self._rows:
            yield {name: column[: self._filled] for name, column in self._buffer.items()}

    def keep(self, kept: npt.NDArray[np.bool_]) -> CodeStore:
        """Return a store of some of the rows. In a file, they take the place of others: this store is lost."""
        found = CodeStore(self._kinds, memory=self._memory)
        if self._file is not None:
            found._use_file(found._hold(os.dup(self._file)))
            found._capacity = self._capacity
        start = 0
        for block in self.blocks():
            rows = len(next(iter(block.values()), ()))
            chosen = kept[start : start + rows]
            found.append({name: column[chosen] for name, column in block.items()})
            start += rows
        return found

    def _join(self) -> dict[str, npt.NDArray[Any]]:
        if len(self._parts) == 1:
            return dict(self._parts[0])
        parts = [dict(part) for part in self._parts]
        self._parts = []
        # Column by column: never all of them twice.
        return {
            name: np.concatenate([np.empty(0, kind), *(part.pop(name) for part in parts)])
            for name, kind in self._kinds.items()
        }

    def _views(self, space: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of one block in its bytes."""
        found, at = {}, 0
        for name, kind in self._kinds.items():
            found[name] = np.frombuffer(space, dtype=kind, count=self._whole, offset=at)
            at += self._whole * kind.itemsize
        return found

    def _fill(self, batch: Columns) -> None:
        rows, start = len(next(iter(batch.values()))), 0
        while start < rows:
            here = min(rows - start, self._whole - self._filled)
            for name, column in self._buffer.items():
                column[self._filled : self._filled + here] = batch[name][start : start + here]
            self._filled += here
            start += here
            if self._filled == self._whole:
                self._write_block()

    def _write_block(self) -> None:
        if self._file is None:
            raise TypeError("only a file has blocks")
        if self._end + self._block_bytes > self._capacity:
            self._allocate(self._capacity + max(GROWTH_BYTES, self._block_bytes), declared=False)
        for column in self._buffer.values():
            left = column.data.cast("B")
            while left:
                written = os.pwrite(self._file, left, self._end)
                self._end += written
                left = left[written:]
        self._filled = 0

    def _open_file(self) -> None:
        self._use_file(self._make_file() if self._spare is None else self._spare)

    def _make_file(self) -> int:
        """Make a file that only this process can reach: readable by its owner alone, and without a name."""
        try:
            with tempfile.TemporaryFile(prefix="populace-") as unnamed:
                return self._hold(os.dup(unnamed.fileno()))
        except OSError as error:
            raise ResourceError(
                f"no file for codes can be made in the folder of temporary files: {error.strerror}.",
                hint="set TMPDIR to a folder that can be written to",
            ) from None

    def _hold(self, number: int) -> int:
        """Close a descriptor when this store is gone."""
        weakref.finalize(self, os.close, number)
        return number

    def _use_file(self, number: int) -> None:
        self._file = number
        self._buffer = {name: np.empty(self._whole, dtype=kind) for name, kind in self._kinds.items()}

    def _allocate(self, size: int, *, declared: bool) -> None:
        """Take room on the disk. What is said is the same for every table, and before a charge how much it takes."""
        if self._file is None:
            raise TypeError("only a file takes room")
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, 0, size)
            else:
                # Where the system cannot take room ahead, at least the length is given.
                os.ftruncate(self._file, size)
        except OSError:
            folder = tempfile.gettempdir()
            if declared:
                raise ResourceError(
                    f"the codes of max_rows rows take {size / 2**30:.1f} GiB, which {folder} does not have.",
                    hint="declare fewer max_rows, allow more --memory, or set TMPDIR to a larger disk",
                ) from None
            raise ResourceError(
                f"the codes of the rows do not fit into {folder}. What was charged stays charged.",
                hint="set TMPDIR to a larger disk; with max_rows in the schema, room is made before anything is spent",
            ) from None
        self._capacity = size
