"""Private tables cut into secret pieces, by person: each behind a handle of its own, or in a file of its own.

Private rows go in, and private rows come out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from populace.core.errors import UsageError
from populace.core.marginals import Counts
from populace.privacy.noise.split_key import Split, SplitKey
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.household_source import open_by_unit
from populace.private.read.rows_to_codes import check_header, columns_to_read, read_rows
from populace.private.read.value_counts import cells_to_texts, select_first_rows
from populace.private.redact import redact_row_errors
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.codec.cell_texts import Array
from populace.schema.linked.linked_tables import refuse_linked
from populace.schema.schema import Schema

_MODE = 0o600


def split_table(data: Any, *, schema: Schema, split: Split, key: SplitKey) -> tuple[PrivateTable, ...]:
    """Return a handle on each piece of a file or frame. Rows are read when the first question is paid for.

    All rows of a unit go into one piece. Who has no id is a unit by its own row: rows alike are told apart by counting
    them, so that the order of rows in the file makes no difference to what any piece holds.
    Proof: docs/proofs/partition.md
    """
    _refuse_linked(schema)
    check_rows_are_units(schema)
    # Rows and ids come in two readings, which must agree about their order.
    source = open_by_unit(data, key=schema.unit.id)
    check_header(source, schema)

    @cache
    def read() -> tuple[SurveyRows, Counts]:
        rows, name = read_rows(source, schema), schema.unit.id
        if name is None:
            return rows, split.pieces(_label_by_content(rows), key=key)
        with redact_row_errors("the data"):
            ids = [cells_to_texts(batch.column(name)) for batch in source.batches([name])]
            return rows, _split_by_id(ids, rows=schema.unit.rows, split=split, key=key)[1]

    def read_piece(piece: int) -> SurveyRows:
        rows, pieces = read()
        here = pieces == piece
        return SurveyRows(
            codes={name: codes[here] for name, codes in rows.codes.items()},
            numbers={name: numbers[here] for name, numbers in rows.numbers.items()},
        )

    def open_piece(piece: int) -> PrivateTable:
        return PrivateTable(
            lambda: MemoryEngine(read_piece(piece).codes, domain=schema.domain),
            schema=schema,
            read_survey_rows=lambda: read_piece(piece),
        )

    return tuple(map(open_piece, range(len(split.shares))))


def _label_by_content(rows: SurveyRows) -> list[bytes]:
    """Return a label for each row: what it holds, and how many rows alike came before."""
    columns = [np.ascontiguousarray(codes) for codes in rows.codes.values()]
    columns += [np.ascontiguousarray(numbers) for numbers in rows.numbers.values()]
    seen: dict[bytes, int] = {}
    labels = []
    for row in range(len(columns[0])):
        content = b"".join(column[row].tobytes() for column in columns)
        seen[content] = seen.get(content, 0) + 1
        labels.append(content + seen[content].to_bytes(8, "big"))
    return labels


def _split_by_id(
    ids: list[Array], *, rows: int, split: Split, key: SplitKey
) -> tuple[npt.NDArray[np.bool_], Counts, int]:
    """Say which rows are among the first few of their unit; return the piece of each that is, and how many units."""
    kept = select_first_rows(ids, rows=rows)
    texts = np.array([text for each in ids for text in each.to_pylist()], dtype=object)[kept]
    present, persons = np.unique(texts, return_inverse=True)
    return kept, split.pieces([text.encode() for text in present], key=key)[persons], len(present)


def require_id_column(schema: Schema) -> str:
    """Return the column that tells persons apart; files of pieces need one."""
    check_rows_are_units(schema)
    if schema.unit.id is None:
        raise UsageError(
            "the schema names no id: a person would be identified by the content of a row, and another list of columns "
            "would put people into other pieces.",
            hint="name the column that tells persons apart: `id` under [table]",
        )
    return schema.unit.id


def check_rows_are_units(schema: Schema) -> None:
    """Refuse rows that stand for several units: all of them would go into one piece."""
    if schema.frequency is not None:
        raise UsageError(
            f"a row stands for as many units as {schema.frequency!r} says, and units are split one by one.",
            hint="give a file with one row per unit and an id, and take frequency out of the schema",
        )


def write_split_files(
    data: Path, *, schema: Schema, split: Split, key: SplitKey, paths: Sequence[Path]
) -> int:
    """Write the rows of each piece, in the columns of the schema, to a file that nobody else may read.

    Return how many persons there are, which is public where neighbours replace one, and private elsewhere.

    All rows of a unit go into one file; those beyond what a unit may have are left out, as everywhere.
    Proof: docs/proofs/partition.md
    """
    _refuse_linked(schema)
    id_column = require_id_column(schema)
    source = open_by_unit(data, key=id_column)
    check_header(source, schema)
    if source.decimal != ".":
        raise UsageError(
            f"{data.name} may have numbers with a comma, which pieces would lose.",
            hint="write numbers with a point, and columns apart by commas, or as Parquet",
        )
    names = columns_to_read(schema)
    with redact_row_errors("the data"):
        batches = list(source.batches(names))
        empty = pa.table({name: pa.array([], pa.string()) for name in names})
        table = (
            pa.Table.from_batches([_decode_dictionaries(batch) for batch in batches]) if batches else empty
        )
        ids = [cells_to_texts(batch.column(id_column)) for batch in batches]
        kept, here, persons = _split_by_id(ids, rows=schema.unit.rows, split=split, key=key)
        table = table.filter(pa.array(kept))
        for piece, path in enumerate(paths):
            _write(table.take(np.flatnonzero(here == piece)), path)
        return persons


def _decode_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries: those of two batches may differ."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _write(table: pa.Table, path: Path) -> None:
    # Made for its owner alone before the first row is in it.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, file)
            return
        # Byte for byte, whatever their encoding: cells that cannot be read must not stop a run.
        file.write(_csv_line(name.encode() for name in table.column_names))
        for batch in table.to_batches():
            file.writelines(
                map(_csv_line, zip(*(column.to_pylist() for column in batch.columns), strict=True))
            )


def _csv_line(cells: Iterable[bytes | None]) -> bytes:
    return b",".join(b'"' + (cell or b"").replace(b'"', b'""') + b'"' for cell in cells) + b"\n"


def _refuse_linked(schema: Schema) -> None:
    refuse_linked(schema.linked, what="one table is split at a time", hint="split neither of them")
