"""Synthetic tables as files and as the caller's kind of frame."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from populace.core.errors import ReleaseError, UsageError
from populace.core.untrusted_files import altered_error, open_regular, read_parquet, refuse_parse_errors
from populace.release.folder.hidden_folder import hidden_folder
from populace.schema.codec.decoder import arrow_type
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.imports.embedded.file_metadata import find_stat_format
from populace.schema.imports.embedded.stat_formats import StatFormat
from populace.schema.schema import Schema


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

    A file of SPSS, Stata or SAS, told by its first bytes, goes with one of the same package.

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


def count_units(table: pa.Table, *, schema: Schema) -> int:
    """Return for how many units the rows of a synthetic table stand."""
    name = count_column(schema)
    return table.num_rows if name is None else int(pyarrow.compute.sum(table[name]).as_py() or 0)


def check_table_format(schema: Schema, form: TableFormat) -> None:
    """Refuse a format that cannot hold the columns of a schema, before anything is paid for."""
    if form.stat is None:
        return
    from populace.release.stat_files import check_stat_columns

    tables: tuple[Mapping[str, Column], ...] = (schema.columns,)
    if schema.linked is not None:
        tables = (schema.columns, schema.linked.columns)
    for columns in tables:
        check_stat_columns(columns, form=form.stat)


def write_table(table: pa.Table, path: Path, *, columns: Mapping[str, Column] = MappingProxyType({})) -> None:
    """Write a table as its file name says; equal tables give equal bytes.

    Statistical packages get the labels and missing codes of its columns.
    """
    table = table.replace_schema_metadata(None)
    form = parse_table_format(path.suffix[1:])
    if form.stat is not None:
        from populace.release.stat_files import write_stat_table

        write_stat_table(table, path, form=form.stat, columns=columns)
        return
    # Arrow opens only paths that are UTF-8.
    with path.open("wb") as file:
        if form is TableFormat.PARQUET:
            pyarrow.parquet.write_table(table, file, compression="zstd")
        elif table.num_columns == 1:
            _write_one_column(table, file)
        else:
            pyarrow.csv.write_csv(table, file)


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


def _write_one_column(table: pa.Table, file: BinaryIO) -> None:
    """Write an empty cell of a table of one column as a quoted empty text: readers skip blank lines."""
    (column,) = table.columns
    if pa.types.is_string(column.type):
        pyarrow.csv.write_csv(table.set_column(0, table.schema.field(0), column.fill_null("")), file)
        return
    written = io.BytesIO()
    pyarrow.csv.write_csv(table, written)
    # Numbers and moments hold no line breaks: a line is a cell. The header may hold some.
    header = io.BytesIO()
    pyarrow.csv.write_csv(table.slice(0, 0), header)
    cells = written.getvalue()[len(header.getvalue()) :].splitlines()
    file.write(header.getvalue() + b"".join((cell or b'""') + b"\n" for cell in cells))


def read_table(path: Path, *, schema: Schema) -> pa.Table:
    """Read a synthetic table in the types of its schema."""
    return read_columns(path, schema.columns, counted=count_column(schema))


def read_columns(path: Path, columns: Mapping[str, Column], *, counted: str | None = None) -> pa.Table:
    """Read a synthetic table in the types of its columns; `counted` says for how many units a row stands."""
    if not os.path.lexists(path):
        raise ReleaseError(
            f"there is no {path.name} in {path.parent}.", hint="ask the publisher for a whole copy"
        )
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
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
        )
        with open_regular(path) as file, refuse_parse_errors(path.name):
            table = pyarrow.csv.read_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(
                    block_size=max(2**20, _max_row_bytes(columns, counted=counted))
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=convert,
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
    """Read moments as the schema has them: Parquet knows no unit above milliseconds. Fractions are refused."""
    stored = {pa.timestamp("s"): pa.timestamp("ms"), pa.time32("s"): pa.time32("ms")}
    table = read_parquet(path, types={name: stored.get(kind, kind) for name, kind in types.items()})
    with refuse_parse_errors(path.name):
        return table.cast(pa.schema(list(types.items())))


def encode_table(table: pa.Table, *, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return the codes of a synthetic table's values, in the schema's variables."""
    codec = TableCodec(schema)
    return codec.encode({name: table[name] for name in codec.input_columns})
