"""Where private rows come from: a Parquet or Arrow file or a frame, read batch by batch after the header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from populace.core.errors import DataError
from populace.private.read.databases.lazy_frames import sort_by_unit, stream_batches
from populace.private.read.databases.missing_library import require_library
from populace.private.redact import redact_open_errors, redact_row_errors
from populace.schema.codec.cell_texts import Array, has_no_text, to_texts
from populace.schema.imports.embedded.file_metadata import FileMetadata

BATCH_ROWS = 2**16


class Source(Protocol):
    """A table whose header is known and whose rows have not been read."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""

    @property
    def decimal(self) -> str:
        """The mark between whole and broken part that its numbers may have beside the point."""

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have: lists and the like."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""


class FileSource(Source, Protocol):
    """A table in a file."""

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types that the file declares for its columns; nothing where it declares none, as text files do."""

    @property
    def metadata(self) -> FileMetadata | None:
        """The labels and missing codes that the file declares, where it is one of SPSS, Stata or SAS."""


class ParquetSource:
    """A Parquet file."""

    decimal = "."
    metadata = None

    def __init__(self, path: Path) -> None:
        self._path = path
        with redact_open_errors(str(path)):
            schema = pq.read_schema(path)
        self.names = tuple(schema.names)
        self.types: Mapping[str, pa.DataType] = {field.name: field.type for field in schema}
        # Repeated texts stay a dictionary on their way in.
        self._texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have: lists and the like."""
        return [name for name in columns if has_no_text(self.types[name])]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        with redact_row_errors(str(self._path)), self._path.open("rb") as handle:
            file = pq.ParquetFile(handle, read_dictionary=[name for name in columns if name in self._texts])
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns))


class ArrowSource:
    """An Arrow file, which is what Feather is today, or a stream of Arrow in a file."""

    decimal = "."
    metadata = None

    def __init__(self, path: Path, *, streamed: bool) -> None:
        self._path, self._streamed = path, streamed
        with redact_open_errors(str(path)), pa.OSFile(str(path)) as handle:
            schema = (pa.ipc.open_stream if streamed else pa.ipc.open_file)(handle).schema
        self.names = tuple(schema.names)
        self.types: Mapping[str, pa.DataType] = {field.name: field.type for field in schema}

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have: lists and the like."""
        return [name for name in columns if has_no_text(self.types[name])]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        with redact_row_errors(str(self._path)), pa.OSFile(str(self._path)) as handle:
            places = [self.names.index(name) for name in columns]
            for batch in self._read(handle):
                chosen = pa.RecordBatch.from_arrays([batch.column(at) for at in places], names=list(columns))
                for start in range(0, len(chosen), BATCH_ROWS):
                    yield chosen.slice(start, BATCH_ROWS)

    def _read(self, handle: Any) -> Iterator[pa.RecordBatch]:
        if self._streamed:
            yield from pa.ipc.open_stream(handle)
            return
        file = pa.ipc.open_file(handle)
        yield from (file.get_batch(number) for number in range(file.num_record_batches))


class FrameSource:
    """A frame of any library that narwhals speaks; the rows of a lazy one come batch by batch, each time anew.

    The names and the types of its columns are public, as a file's header is: whoever made the frame chose them.
    """

    decimal = "."

    def __init__(
        self, data: Any, *, title: str = "the frame", close: Callable[[], None] = lambda: None
    ) -> None:
        self._title = title
        self.close = close
        self._key: str | None = None
        # Files need nothing of it.
        import narwhals as nw
        from narwhals.exceptions import DuplicateError

        try:
            frame: Any = nw.from_native(data)
            # The names alone: to tell the type of a column of Python objects, cells would have to be looked at.
            columns = frame.columns
            # Frames may have numbers for names; a schema has texts.
            self._frame = frame.rename({name: str(name) for name in columns if not isinstance(name, str)})
        except DuplicateError:
            raise DataError(
                "the frame has two columns of the same name.", hint="rename or remove one of them"
            ) from None
        except Exception:
            raise DataError(
                f"a {type(data).__name__} is not a table that can be read.",
                hint="give the path of a CSV or Parquet file, or a pandas, Polars or Arrow frame",
            ) from None
        self.names = tuple(str(name) for name in columns)
        if self.spark_frame is not None:
            # Spark asks for it when rows come, which is too late.
            require_library("pandas", extra="spark")

    @property
    def spark_frame(self) -> Any:
        """The frame of Spark that this is; None where it is none."""
        library = self._frame.implementation
        return self._frame.to_native() if library.is_pyspark() or library.is_pyspark_connect() else None

    def sort_by_unit(self, key: str) -> FrameSource:
        """Return the same frame; what a unit keeps of a lazy one follows from the unit's rows, not from their order."""
        found = copy(self)
        found._key = key
        return found

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have: lists and the like."""
        with redact_open_errors(self._title):
            return [name for name in columns if _declares_no_text(self._frame, name)]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch."""
        import narwhals as nw

        with redact_row_errors(self._title):
            chosen = self._frame.select(list(columns))
            if isinstance(chosen, nw.LazyFrame):
                chosen = chosen if self._key is None else sort_by_unit(chosen, key=self._key)
                yield from stream_batches(chosen, rows=BATCH_ROWS, to_arrow=_to_arrow)
                return
            for start in range(0, len(chosen), BATCH_ROWS):
                part = chosen[start : start + BATCH_ROWS]
                arrays = [_to_arrow(part.get_column(name)) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _declares_no_text(frame: Any, name: str) -> bool:
    """Say whether the declared type of a column can be no text, number or date. Python objects declare nothing."""
    import narwhals as nw

    if isinstance(frame, nw.LazyFrame):
        kind = frame.collect_schema()[name]
        return bool(kind.is_nested() or kind == nw.Duration)
    # No row of it: a type is there without any.
    return has_no_text(_to_arrow(frame.get_column(name)[:0]).type)


# Cells of these very types that are equal have one text. Moments in two time zones may be equal and have two: the first
# of them must not speak for the others.
_ALIKE = (bool, int, float, date)


def _to_arrow(column: Any) -> Array:
    """Return a column of a frame as one Arrow array.

    Columns of Python objects go cell by cell, because Arrow would choose their type from all cells together.
    """
    native = column.to_native()
    if isinstance(native, pa.ChunkedArray):
        try:
            return native.combine_chunks()
        except pa.ArrowException:
            # Some types cannot be joined; their texts can.
            return pa.chunked_array(map(to_texts, native.chunks), pa.string()).combine_chunks()
    if not _holds_objects(column):
        try:
            found = column.to_arrow()
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        except MemoryError:
            raise
        except Exception:
            # Libraries fail in ways of their own over types that Arrow does not have.
            pass
    cells = column.to_list()
    try:
        return pa.array(cells, pa.string(), from_pandas=True)
    except Exception:
        # Objects may fail in any way: then each for itself.
        known: dict[Any, str | None] = {}
        return pa.array([cell_text(cell, known) for cell in cells], pa.string())


def _holds_objects(column: Any) -> bool:
    """Say whether cells are Python objects, from the declared type: narwhals would guess from the first cells."""
    import narwhals as nw

    return str(getattr(column.to_native(), "dtype", "")) == "object" or bool(column.dtype == nw.Object)


def cell_text(cell: Any, known: dict[Any, str | None]) -> str | None:
    """Return the text of one Python object: what Arrow makes of it alone, or nothing."""
    try:
        if isinstance(cell, str):
            return cell.encode(errors="replace").decode()
        if type(cell) not in _ALIKE:
            return _lone_text(cell)
        # 1, 1.0 and True are one key to a dictionary.
        key = (type(cell), cell)
        if key not in known:
            known[key] = _lone_text(cell)
        return known[key]
    except Exception:
        # Objects may fail at anything.
        return None


def _lone_text(cell: Any) -> str | None:
    if isinstance(cell, int) and abs(cell) >= 2**63:
        return str(cell) if abs(cell) < 10**4000 else ("inf" if cell > 0 else "-inf")
    text: str | None = to_texts(pa.array([cell], from_pandas=True)).to_pylist()[0]
    return text
