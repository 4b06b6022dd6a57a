"""Synthetic tables as files and as the caller's kind of frame."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy.typing as npt

from populace.errors import ReleaseError, UsageError, environment_cause
from populace.schema.schema import Schema

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
        else:
            pyarrow.csv.write_csv(table, file)


def read_table(path: Path, *, schema: Schema) -> pa.Table:
    """Read a synthetic table in the types of its schema."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from populace.schema.codec import arrow_type

    if not path.is_file():
        raise ReleaseError(
            f"there is no {path.name} in {path.parent}.", hint="ask the publisher for a whole copy"
        )
    types = {name: arrow_type(column) for name, column in schema.columns.items()}
    try:
        if format_named(path.suffix[1:]) is Format.PARQUET:
            with path.open("rb") as file:
                table = _to_the_second(pyarrow.parquet.read_table(file), types)
        else:
            convert = pyarrow.csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
            with path.open("rb") as file:
                table = pyarrow.csv.read_csv(file, convert_options=convert, parse_options=parse)
    except (OSError, pa.ArrowException) as failure:
        if environment_cause(failure) is not None:
            raise
        raise ReleaseError(
            f"{path.name} cannot be read as a table.",
            hint="ask the publisher for an unaltered copy",
        ) from failure
    if table.schema != pa.schema(types):
        raise ReleaseError(
            f"{path.name} does not have the columns and types of its codebook.",
            hint="ask the publisher for an unaltered copy",
        )
    return table.combine_chunks()


def _to_the_second(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Return moments as the schema has them: Parquet knows no unit above milliseconds. Fractions are refused."""
    import pyarrow as pa

    stored = {pa.timestamp("s"): pa.timestamp("ms"), pa.time32("s"): pa.time32("ms")}
    fields = [
        field.with_type(wanted)
        if field.type == stored.get(wanted := types.get(field.name, field.type))
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def encode_table(table: pa.Table, *, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return the codes of a synthetic table's values, in the schema's variables."""
    from populace.schema.coding import TableCodec

    codec = TableCodec(schema)
    return codec.encode({name: table[name] for name in codec.reads})
