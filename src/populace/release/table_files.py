"""Synthetic tables as files and as the caller's kind of frame."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from populace.core.errors import ReleaseError, ResourceError, UsageError
from populace.core.memory_limit import memory_limit
from populace.core.untrusted_files import (
    altered_error,
    check_regular,
    count_parquet_rows,
    open_regular,
    read_parquet,
    read_row_groups,
    refuse_parse_errors,
)
from populace.release.folder.hidden_folder import hidden_folder
from populace.release.streamed_table import StreamedTable, can_stream, cut_blocks, iterate_blocks, read_whole
from populace.sampling.row_blocks import MAX_BLOCK_ROWS, split_rows
from populace.schema.codec.decoder import arrow_type
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.imports.embedded.file_metadata import find_stat_format
from populace.schema.imports.embedded.stat_formats import StatFormat
from populace.schema.schema import Schema

# Parquet knows no unit above milliseconds.
_STORED = {pa.timestamp("s"): pa.timestamp("ms"), pa.time32("s"): pa.time32("ms")}
_CSV_LINES = pyarrow.csv.ParseOptions(newlines_in_values=True)


class TableFormat(StrEnum):
    """The file formats of a synthetic table."""

    CSV = "csv"
    PARQUET = "parquet"
    SAV = "sav"
    DTA = "dta"
    XPT = "xpt"

    @property
    def stat(self) -> StatFormat | None:
        """The format of a statistical package that it is, if it is one."""
        return StatFormat(self.value) if self.value in list(StatFormat) else None


# Portable files of SPSS and files of SAS can be read and not written with all that belongs to them.
_LIKE = {
    StatFormat.SAV: TableFormat.SAV,
    StatFormat.POR: TableFormat.SAV,
    StatFormat.DTA: TableFormat.DTA,
    StatFormat.XPT: TableFormat.XPT,
    StatFormat.SAS: TableFormat.XPT,
}


def parse_table_format(name: str) -> TableFormat:
    """Return the file format of this name.

    >>> parse_table_format("csv")
    <TableFormat.CSV: 'csv'>
    """
    if name not in list(TableFormat):
        raise UsageError(f"there is no table format {name!r}.", hint=f"choose {', '.join(TableFormat)}")
    return TableFormat(name)


def table_format_like(data: object) -> TableFormat:
    """Return the format that goes with an input: CSV for CSV files and where nothing is known, else Parquet.

    A file of SPSS, Stata or SAS, recognized by its first bytes, goes with one of the same package.

    >>> table_format_like("people.csv").value, table_format_like("people.parquet").value, table_format_like(None).value
    ('csv', 'parquet', 'csv')
    """
    if isinstance(data, Mapping):
        # Linked tables are written alike: as the first of them.
        return table_format_like(next(iter(data.values()), None))
    if isinstance(data, str | Path):
        if (form := find_stat_format(Path(data))) is not None:
            return _LIKE[form]
        return TableFormat.PARQUET if Path(data).suffix.lower() in (".parquet", ".pq") else TableFormat.CSV
    return TableFormat.CSV if data is None else TableFormat.PARQUET


def find_frame_library(data: object) -> str:
    """Return the library a frame belongs to, as narwhals names it; everything but a frame in memory counts as Arrow.

    >>> find_frame_library("people.csv")
    'pyarrow'
    """
    if isinstance(data, Mapping):
        return find_frame_library(next(iter(data.values()), None))
    if data is None or isinstance(data, str | Path):
        return "pyarrow"
    import narwhals as nw

    frame = nw.from_native(data, eager_only=True, pass_through=True)
    return frame.implementation.value if isinstance(frame, nw.DataFrame) else "pyarrow"


def to_native(table: pa.Table, *, library: str) -> Any:
    """Return an Arrow table as a frame of the given library. Types come from the schema, never from the rows."""
    if library == "pyarrow":
        return table
    if library == "pandas":
        import pandas as pd

        # Whole numbers stay whole where cells are empty, and have one type in every table of one schema.
        return table.to_pandas(types_mapper=lambda kind: pd.Int64Dtype() if str(kind) == "int64" else None)
    import narwhals as nw

    return nw.from_arrow(table, backend=cast(Any, library)).to_native()


def count_column(schema: Schema) -> str | None:
    """Return the column that says for how many units a released row stands; None where each row is one.

    Only rows of a geography are counted: one for each smallest unit and cell that has any.
    """
    return None if schema.geography is None else schema.frequency


def count_units(table: pa.Table | StreamedTable, *, schema: Schema) -> int:
    """Return for how many units the rows of a synthetic table stand."""
    name = count_column(schema)
    if name is None or isinstance(table, StreamedTable):
        return table.num_rows
    return int(pyarrow.compute.sum(table[name]).as_py() or 0)


def fit_table_format(form: TableFormat, *, schema: Schema, rows: int) -> TableFormat:
    """Return a format, or Parquet where so many rows do not fit in memory on their way to a file of it."""
    if form.stat is None:
        return form
    from populace.release.stat_files import stat_table_bytes

    fits = stat_table_bytes(schema.columns, rows=rows) <= memory_limit()
    return form if fits else TableFormat.PARQUET


def check_table_format(schema: Schema, form: TableFormat, *, rows: int = 0) -> None:
    """Refuse a format that cannot hold the columns of a schema, or so many rows, before anything is paid for."""
    if form.stat is None:
        return
    from populace.release.stat_files import check_stat_columns

    if fit_table_format(form, schema=schema, rows=rows) is not form:
        raise ResourceError(
            f"{rows} rows do not fit in memory on their way to {form.stat.words}.",
            hint="give --format parquet, ask for fewer --rows, or use more memory",
        )
    tables: tuple[Mapping[str, Column], ...] = (schema.columns,)
    if schema.linked is not None:
        tables = (schema.columns, schema.linked.columns)
    for columns in tables:
        check_stat_columns(columns, form=form.stat)


def write_table(
    table: pa.Table | StreamedTable, path: Path, *, columns: Mapping[str, Column] = MappingProxyType({})
) -> None:
    """Write a table as its file name says, block by block; equal tables give equal bytes.

    Statistical packages get the labels and missing codes of its columns, and take it whole.
    """
    form = parse_table_format(path.suffix[1:])
    if form.stat is not None:
        from populace.release.stat_files import write_stat_table

        whole = read_whole(table).replace_schema_metadata(None)
        write_stat_table(whole, path, form=form.stat, columns=columns)
        return
    # Arrow opens only paths that are UTF-8.
    with path.open("wb") as file:
        if form is TableFormat.PARQUET:
            _write_parquet(table, file)
            return
        header = True
        for block in iterate_blocks(table):
            _write_csv(block.replace_schema_metadata(None), file, header=header)
            header = False


def _write_parquet(table: pa.Table | StreamedTable, file: BinaryIO) -> None:
    """Write a Parquet file; each block of a stream is a row group."""
    if isinstance(table, pa.Table):
        pyarrow.parquet.write_table(table.replace_schema_metadata(None), file, compression="zstd")
        return
    with pyarrow.parquet.ParquetWriter(
        file, pa.schema(list(table.types.items())), compression="zstd"
    ) as writer:
        for block in table.open_blocks():
            writer.write_table(block.replace_schema_metadata(None), row_group_size=block.num_rows)


def _write_csv(table: pa.Table, file: BinaryIO, *, header: bool) -> None:
    if table.num_columns == 1:
        _write_one_column(table, file, header=header)
    else:
        pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=header))


def check_new_file(path: Path) -> None:
    """Refuse a path for a table that is there already, or whose name says no format."""
    parse_table_format(path.suffix[1:])
    if path.exists():
        raise UsageError(f"{path} exists already.", hint="name a file that does not exist yet")


def write_new_file(table: pa.Table, path: Path) -> None:
    """Write a table to a file that appears whole or not at all."""
    with hidden_folder(path.absolute().parent, name=path.name) as place:
        # A name that `populace clean` knows.
        whole = place / f"synthetic{path.suffix}"
        write_table(table, whole)
        whole.rename(path)


def _write_one_column(table: pa.Table, file: BinaryIO, *, header: bool) -> None:
    """Write an empty cell of a table of one column as a quoted empty text: readers skip blank lines."""
    (column,) = table.columns
    options = pyarrow.csv.WriteOptions(include_header=header)
    if pa.types.is_string(column.type):
        pyarrow.csv.write_csv(table.set_column(0, table.schema.field(0), column.fill_null("")), file, options)
        return
    if header:
        pyarrow.csv.write_csv(table.slice(0, 0), file)
    written = io.BytesIO()
    pyarrow.csv.write_csv(table, written, pyarrow.csv.WriteOptions(include_header=False))
    # Numbers and moments hold no line breaks: a line is a cell.
    file.write(b"".join((cell or b'""') + b"\n" for cell in written.getvalue().splitlines()))


def read_table(path: Path, *, schema: Schema) -> pa.Table:
    """Read a synthetic table in the types of its schema."""
    return read_columns(path, schema.columns, counted=count_column(schema))


def open_table(path: Path, *, schema: Schema, rows: int) -> pa.Table | StreamedTable:
    """Return a synthetic table of so many rows, in the types of its schema, whole or in blocks as it was drawn.

    Very many rows are read when they are asked for; files of statistical packages are read whole in any case.
    """
    if rows <= MAX_BLOCK_ROWS or not can_stream(schema):
        return read_table(path, schema=schema)
    _check_there(path)
    form = parse_table_format(path.suffix[1:])
    types = {name: arrow_type(column) for name, column in schema.columns.items()}
    whole = read_table(path, schema=schema) if form.stat is not None else None
    _check_row_count(path, whole, rows=rows)
    sizes = list(chain.from_iterable(split_rows(rows)))
    if whole is not None:
        return StreamedTable(num_rows=rows, types=types, open_blocks=lambda: cut_blocks(iter([whole]), sizes))

    def read() -> Iterator[pa.Table]:
        parquet = form is TableFormat.PARQUET
        parts = _read_parquet_parts(path, types) if parquet else _read_csv_parts(path, schema.columns, types)
        with refuse_parse_errors(path.name):
            yield from cut_blocks(parts, sizes)

    return StreamedTable(num_rows=rows, types=types, open_blocks=read)


def _check_row_count(path: Path, whole: pa.Table | None, *, rows: int) -> None:
    """Refuse a file that cannot hold so many rows, before anything is made that grows with them."""
    if whole is not None:
        held = whole.num_rows
    elif parse_table_format(path.suffix[1:]) is TableFormat.PARQUET:
        held = count_parquet_rows(path)
    else:
        check_regular(path)
        # A row of a CSV file takes two bytes and more.
        held = min(rows, path.stat().st_size // 2)
    if held != rows:
        raise altered_error(f"{path.name} does not have the number of rows that the statement gives")


def _read_parquet_parts(path: Path, types: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file, a row group at a time."""
    for group in read_row_groups(path, types={name: _STORED.get(kind, kind) for name, kind in types.items()}):
        yield group.cast(pa.schema(list(types.items())))


def _read_csv_parts(
    path: Path, columns: Mapping[str, Column], types: Mapping[str, pa.DataType]
) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file, some at a time."""
    with open_regular(path) as file:
        reader = pyarrow.csv.open_csv(
            file,
            read_options=_csv_blocks(columns, counted=None, least=2**24),
            parse_options=_CSV_LINES,
            convert_options=_csv_types(types),
        )
        if reader.schema != pa.schema(list(types.items())):
            raise altered_error(f"{path.name} does not have the columns and types of its codebook")
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _csv_blocks(columns: Mapping[str, Column], *, counted: str | None, least: int) -> pyarrow.csv.ReadOptions:
    return pyarrow.csv.ReadOptions(block_size=max(least, _max_row_bytes(columns, counted=counted)))


def _csv_types(types: Mapping[str, pa.DataType]) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(column_types=dict(types), null_values=[""], strings_can_be_null=True)


def _check_there(path: Path) -> None:
    if not os.path.lexists(path):
        raise ReleaseError(
            f"there is no {path.name} in {path.parent}.", hint="ask the publisher for a whole copy"
        )


def read_columns(path: Path, columns: Mapping[str, Column], *, counted: str | None = None) -> pa.Table:
    """Read a synthetic table in the types of its columns; `counted` says for how many units a row stands."""
    _check_there(path)
    types = {name: arrow_type(column) for name, column in columns.items()}
    if counted is not None:
        types[counted] = pa.int64()
    form = parse_table_format(path.suffix[1:])
    if form.stat is not None:
        from populace.release.stat_files import read_stat_table

        table = read_stat_table(path, form=form.stat, columns=columns, counted=counted)
    elif form is TableFormat.PARQUET:
        table = _read_parquet(path, types)
    else:
        with open_regular(path) as file, refuse_parse_errors(path.name):
            table = pyarrow.csv.read_csv(
                file,
                read_options=_csv_blocks(columns, counted=counted, least=2**20),
                parse_options=_CSV_LINES,
                convert_options=_csv_types(types),
            )
    if table.schema != pa.schema(types):
        raise altered_error(f"{path.name} does not have the columns and types of its codebook")
    return table.combine_chunks()


def _max_row_bytes(columns: Mapping[str, Column], *, counted: str | None) -> int:
    """Return how many bytes a row of a CSV file or its header may have at most; a reader's block holds one or more."""
    longest = 64 + 3 * len(counted or "")
    for name, column in columns.items():
        declared = column.values if isinstance(column, CategoricalColumn) else ()
        texts = (name, *declared, *column.specials)
        # All its quotation marks are doubled, and it is quoted; numbers and moments are short.
        longest += max(64, *(2 * len(text.encode()) for text in texts)) + 3
    return longest


def _read_parquet(path: Path, types: dict[str, pa.DataType]) -> pa.Table:
    """Read moments as the schema has them. Fractions are refused."""
    table = read_parquet(path, types={name: _STORED.get(kind, kind) for name, kind in types.items()})
    with refuse_parse_errors(path.name):
        return table.cast(pa.schema(list(types.items())))


def encode_table(table: pa.Table, *, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return the codes of a synthetic table's values, in the schema's variables."""
    codec = TableCodec(schema)
    return codec.encode({name: table[name] for name in codec.input_columns})
