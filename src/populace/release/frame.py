"""Synthetic tables as files and as the caller's kind of frame."""

from __future__ import annotations

import io
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy.typing as npt

from populace.errors import ReleaseError, UsageError
from populace.schema.columns import Categorical
from populace.schema.schema import Schema
from populace.untrusted import altered, open_regular, parsing, read_parquet

if TYPE_CHECKING:
    import pyarrow as pa


class Format(StrEnum):
    """The file formats of a synthetic table."""

    CSV = "csv"
    PARQUET = "parquet"


def format_named(name: str) -> Format:
    """Return the file format of this name.

    >>> format_named("csv")
    <Format.CSV: 'csv'>
    """
    if name not in list(Format):
        raise UsageError(f"there is no table format {name!r}.", hint="choose csv or parquet")
    return Format(name)


def format_like(data: object) -> Format:
    """Return the format that goes with an input: CSV for CSV files and where nothing is known, else Parquet.

    >>> format_like("people.csv").value, format_like("people.parquet").value, format_like(None).value
    ('csv', 'parquet', 'csv')
    """
    if isinstance(data, str | Path):
        return Format.PARQUET if Path(data).suffix.lower() in (".parquet", ".pq") else Format.CSV
    return Format.CSV if data is None else Format.PARQUET


def library_of(data: object) -> str:
    """Return the library a frame belongs to, as narwhals names it; everything but a frame in memory counts as Arrow.

    >>> library_of("people.csv")
    'pyarrow'
    """
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
        return table.to_pandas(types_mapper=_pandas_type)
    import narwhals as nw

    return nw.from_arrow(table, backend=cast(Any, library)).to_native()


def _pandas_type(kind: pa.DataType) -> Any:
    """Whole numbers stay whole where cells are empty, and have one type in every table of one schema."""
    import pandas as pd

    return pd.Int64Dtype() if str(kind) == "int64" else None


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table as its file name says; equal tables give equal bytes."""
    import pyarrow.csv
    import pyarrow.parquet

    table = table.replace_schema_metadata(None)
    # Arrow opens only paths that are UTF-8.
    with path.open("wb") as file:
        if format_named(path.suffix[1:]) is Format.PARQUET:
            pyarrow.parquet.write_table(table, file, compression="zstd")
        elif table.num_columns == 1:
            _write_one_column(table, file)
        else:
            pyarrow.csv.write_csv(table, file)


def _write_one_column(table: pa.Table, file: BinaryIO) -> None:
    """Write an empty cell of a table of one column as a quoted empty text: readers skip blank lines."""
    import pyarrow as pa
    import pyarrow.csv

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
    import pyarrow as pa
    import pyarrow.csv

    from populace.schema.codec import arrow_type

    if not os.path.lexists(path):
        raise ReleaseError(
            f"there is no {path.name} in {path.parent}.", hint="ask the publisher for a whole copy"
        )
    types = {name: arrow_type(column) for name, column in schema.columns.items()}
    if format_named(path.suffix[1:]) is Format.PARQUET:
        table = _read_parquet(path, types)
    else:
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
        )
        with open_regular(path) as file, parsing(path.name):
            table = pyarrow.csv.read_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(block_size=max(2**20, _longest_row(schema))),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                convert_options=convert,
            )
    if table.schema != pa.schema(types):
        raise altered(f"{path.name} does not have the columns and types of its codebook")
    return table.combine_chunks()


def _longest_row(schema: Schema) -> int:
    """Return how many bytes a row of a CSV file or its header may have at most; a reader's block holds one or more."""
    longest = 0
    for name, column in schema.columns.items():
        declared = column.values if isinstance(column, Categorical) else ()
        texts = (name, *declared, *column.specials)
        # All its quotation marks are doubled, and it is quoted; numbers and moments are short.
        longest += max(64, *(2 * len(text.encode()) for text in texts)) + 3
    return longest


def _read_parquet(path: Path, types: dict[str, pa.DataType]) -> pa.Table:
    """Read moments as the schema has them: Parquet knows no unit above milliseconds. Fractions are refused."""
    import pyarrow as pa

    stored = {pa.timestamp("s"): pa.timestamp("ms"), pa.time32("s"): pa.time32("ms")}
    table = read_parquet(path, types={name: stored.get(kind, kind) for name, kind in types.items()})
    with parsing(path.name):
        return table.cast(pa.schema(list(types.items())))


def encode_table(table: pa.Table, *, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return the codes of a synthetic table's values, in the schema's variables."""
    from populace.schema.coding import TableCodec

    codec = TableCodec(schema)
    return codec.encode({name: table[name] for name in codec.reads})
