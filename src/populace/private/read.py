"""From a private file or frame to codes, in one pass and without a word about its rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.errors import DataError, ResourceError
from populace.private.delimited import DelimitedSource
from populace.private.sources import FrameSource, ParquetSource, Source, plain_errors
from populace.schema.encoder import Codes, Encoder, code_type
from populace.schema.hints import did_you_mean, folded, listing
from populace.schema.schema import Schema
from populace.schema.texts import Array, distinct, pc, texts, trimmed

_PARQUET = b"PAR1"


def open_source(data: Any) -> Source:
    """Look at the header of a CSV file, a Parquet file or a frame; no row is read.

    A path is a text or a path object; anything else must be a frame that narwhals understands.
    """
    if not isinstance(data, str | os.PathLike):
        return FrameSource(data)
    path = Path(data)
    start = _first_bytes(path)
    if start == _PARQUET:
        return ParquetSource(path)
    if path.suffix.lower() in (".parquet", ".pq") and start:
        raise DataError(f"{str(path)!r} is not a Parquet file.", hint="if it is CSV, name it .csv")
    return DelimitedSource(path)


def check_header(source: Source, schema: Schema) -> None:
    """Refuse a table that lacks a column of the schema, or has it twice."""
    wanted = _wanted(schema)
    missing = [name for name in wanted if name not in source.names]
    if missing:
        raise DataError(f"the data has no column {listing(missing)}.", hint=_hint(missing, source, schema))
    repeated = [name for name in wanted if source.names.count(name) > 1]
    if repeated:
        raise DataError(
            f"the data has column {listing(repeated)} more than once.", hint="rename or remove one of them"
        )


def read_codes(source: Source, schema: Schema) -> dict[str, Codes]:
    """Read all rows once and return each column's codes.

    Where the schema names an id, only the first `rows_per_unit` rows of each id stay and rows without an id go.
    """
    encoders = {name: Encoder(column) for name, column in schema.columns.items()}
    parts: dict[str, list[Codes]] = {name: [] for name in encoders}
    ids: list[Array] = []
    with plain_errors("the data"):
        for batch in source.batches(_wanted(schema)):
            for name, encoder in encoders.items():
                parts[name].append(encoder(batch.column(name), decimal=source.decimal))
            if schema.unit.id is not None:
                ids.append(_ids(batch.column(schema.unit.id)))
        kept = _first_rows(ids, rows=schema.unit.rows) if schema.unit.id is not None else slice(None)
        return {name: _joined(parts.pop(name), size=schema.columns[name].size)[kept] for name in encoders}


def _wanted(schema: Schema) -> list[str]:
    return [*schema.columns, *([] if schema.unit.id is None else [schema.unit.id])]


def _joined(parts: list[Codes], *, size: int) -> Codes:
    return np.concatenate([np.empty(0, dtype=code_type(size)), *parts])


def _ids(values: Array) -> Array:
    """Return ids as a dictionary of texts; equal ids are equal whatever blanks or type they have."""
    cells, places = distinct(values)
    # Once more: cells that differ may be written alike.
    written = pc.fill_null(trimmed(texts(cells)), "").dictionary_encode()
    rows = pa.array(places, pa.int32(), mask=places < 0)
    return pa.DictionaryArray.from_arrays(pc.take(written.indices, rows), written.dictionary)


def _first_rows(ids: list[Array], *, rows: int) -> npt.NDArray[np.bool_]:
    """Say which rows are among the first few of their unit. Each unit's rows decide alone."""
    if not ids:
        return np.empty(0, dtype=np.bool_)
    # Ids of all batches in one dictionary: equal ids then have equal places.
    chunks: list[Array] = list(pa.chunked_array(ids).unify_dictionaries().chunks)
    places = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in chunks]
    units: npt.NDArray[np.int32] = np.concatenate(places)
    order = np.argsort(units, kind="stable")
    ranked = units[order]
    first = np.flatnonzero(np.diff(ranked, prepend=-2))
    rank = np.arange(len(ranked)) - np.repeat(first, np.diff(first, append=len(ranked)))
    kept = np.empty(len(units), dtype=np.bool_)
    kept[order] = rank < rows
    kept &= units >= 0
    empty: int = pc.index(chunks[0].dictionary, "").as_py()
    kept &= units != empty
    return kept


def _hint(missing: list[str], source: Source, schema: Schema) -> str:
    """Return a hint that quotes the data's header only where it surely is one.

    A file without a header has private values in its first line.
    """
    if not any(source.names):
        return "the header names no columns"
    alike = {folded(name) for name in source.names}
    known = [name for name in _wanted(schema) if folded(name) in alike]
    if 2 * len(known) < len(_wanted(schema)):
        return "is the first line a header with the column names, and does the schema belong to this data?"
    near = did_you_mean(missing[0], [name for name in source.names if name not in schema.columns])
    if near:
        return f"did you mean {near!r}? Names must agree to the letter, in case and blanks too"
    return "take it out of the schema, or add it to the data"


def _first_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise DataError(f"{str(path)!r} is a folder.", hint="name a CSV or Parquet file in it")
        if path.exists() and not path.is_file():
            raise DataError(f"{str(path)!r} is not a regular file.", hint="save the data to a file first")
        with path.open("rb") as handle:
            return handle.read(len(_PARQUET))
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}.", hint="check the path") from None
    except ValueError:
        raise DataError("the path of the data is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"{str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
        ) from None
