"""Synthetic rows as a file of SPSS, Stata or SAS, with labels, missing codes and types; equal rows give equal bytes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from populace.core.errors import UsageError
from populace.core.untrusted_files import check_memory, check_regular, refuse_parse_errors
from populace.release.stat_columns import StoredColumn, store_column
from populace.schema.codec.decoder import arrow_type
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.imports.embedded.stat_formats import StatFormat, load_pyreadstat

FILE_LABEL = "Synthetic rows, made by populace"
# A file says when it was written; a release says nothing about when it was made.
_SPSS_TIME = (92, b"01 Jan 7000:00:00")
_STATA_TIME = (rb"<timestamp>\x11.{17}</timestamp>", b"<timestamp>\x1101 Jan 1970 00:00</timestamp>")
_SAS_TIME = (rb"\d\d[A-Z]{3}\d\d:\d\d:\d\d:\d\d", b"01JAN70:00:00:00")
_SAS_HEADER = 640
# Variable labels have at most so many characters, or bytes in SPSS.
_MAX_LABELS = {StatFormat.SAV: 255, StatFormat.DTA: 80, StatFormat.XPT: 40}
# What a cell takes beside its text: 88 bytes of a text of four, of which the frame holds each as an object.
CELL_BYTES = 112
_MAX_TEXTS = {StatFormat.SAV: 32_000, StatFormat.DTA: 2_045, StatFormat.XPT: 200}


def stat_table_bytes(columns: Mapping[str, Column], *, rows: int) -> int:
    """Return about how much memory a table takes on its way to a file or from it: its cells are objects there.

    >>> stat_table_bytes({}, rows=10)
    0
    """
    return rows * sum(
        CELL_BYTES + max(len(text.encode()) for text in _texts(each)) for each in columns.values()
    )


def _texts(column: Column) -> list[str]:
    return ["", *(column.values if isinstance(column, CategoricalColumn) else ()), *column.specials]


def write_stat_table(table: pa.Table, path: Path, *, form: StatFormat, columns: Mapping[str, Column]) -> None:
    """Write a table, with the labels and missing codes that its columns declare; others are plain numbers or texts."""
    import pandas as pd

    stored = {name: store_column(columns[name], form=form) for name in table.column_names if name in columns}
    cells = {
        name: stored[name].encode(table[name].combine_chunks())
        if name in stored
        else table[name].to_pandas(strings_to_categorical=False)
        for name in table.column_names
    }
    _write(form)(pd.DataFrame(cells), str(path), **_describe(form, stored, names=table.column_names))
    _erase_time(path, form)


def _write(form: StatFormat) -> Callable[..., None]:
    names = {StatFormat.SAV: "write_sav", StatFormat.DTA: "write_dta", StatFormat.XPT: "write_xport"}
    found: Callable[..., None] = getattr(load_pyreadstat(), names[form])
    return found


def _describe(form: StatFormat, stored: Mapping[str, StoredColumn], *, names: list[str]) -> dict[str, Any]:
    """Return what a writer is described beside the cells."""
    most = _MAX_LABELS[form]
    labels = [stored[name].column.label if name in stored else "" for name in names]
    described: dict[str, Any] = {
        "file_label": FILE_LABEL,
        "column_labels": [_cut_label(label, most) or None for label in labels],
        "variable_format": {n: each.declared_format for n, each in stored.items() if each.declared_format},
    }
    if form is StatFormat.XPT:
        return described
    described["variable_value_labels"] = {
        n: each.value_labels for n, each in stored.items() if each.value_labels
    }
    if form is StatFormat.DTA:
        tags = {n: each.tags for n, each in stored.items() if each.tags}
        # The format of Stata 14, which every later one reads.
        return described | {"missing_user_values": tags, "version": 14}
    measures = {n: _measure(each.column) for n, each in stored.items()}
    missing = {n: each.missing_ranges for n, each in stored.items() if each.missing_ranges}
    return described | {"missing_ranges": missing, "variable_measure": measures, "row_compress": True}


def _cut_label(text: str, most: int) -> str:
    return text[:most].encode()[: 4 * most if most < 255 else most].decode(errors="ignore")


def _measure(column: Column) -> str:
    if not isinstance(column, CategoricalColumn):
        return "scale"
    return "ordinal" if column.ordered else "nominal"


def _erase_time(path: Path, form: StatFormat) -> None:
    """Write a fixed time where a header has the time of writing."""
    with path.open("r+b") as file:
        if form is StatFormat.SAV:
            place, fixed = _SPSS_TIME
            file.seek(place)
            file.write(fixed)
            return
        start = file.read(_SAS_HEADER)
        shape, fixed = _STATA_TIME if form is StatFormat.DTA else _SAS_TIME
        file.seek(0)
        file.write(re.sub(shape, lambda _: fixed, start, flags=re.DOTALL))


def read_stat_table(
    path: Path, *, form: StatFormat, columns: Mapping[str, Column], counted: str | None
) -> pa.Table:
    """Read a synthetic table in the types of its columns, of which `counted` is a plain number."""
    check_regular(path)
    with refuse_parse_errors(path.name, load_pyreadstat().ReadstatError, load_pyreadstat().PyreadstatError):
        # A byte of a packed file may stand for a cell.
        check_memory(path.name, size=8 * path.stat().st_size)
        cells, _ = form.read(path, {})
        if list(cells) != [*columns, *([] if counted is None else [counted])]:
            raise ValueError("other columns")
        found = {
            name: store_column(column, form=form).decode(cells[name]) for name, column in columns.items()
        }
        if counted is not None:
            found[counted] = pa.array(
                [None if cell is None else int(cell) for cell in cells[counted]], pa.int64()
            )
        return pa.table(found)


def check_stat_columns(columns: Mapping[str, Column], *, form: StatFormat) -> None:
    """Refuse columns that a format cannot hold, before anything is paid for or written."""
    folded = [name.casefold() for name in columns]
    if form is not StatFormat.DTA and len(set(folded)) < len(folded):
        raise _refusal(form, "two columns have names that differ in case alone")
    for column in columns.values():
        if any(
            text != text.rstrip(" \0") or len(text.encode()) > _MAX_TEXTS[form] for text in _texts(column)
        ):
            raise _refusal(form, f"column {column.name!r} has values that end with a blank or are too long")
    empty = pa.table({name: pa.array([], arrow_type(column)) for name, column in columns.items()})
    with tempfile.TemporaryDirectory(prefix="populace-format-") as made:
        try:
            write_stat_table(empty, Path(made) / "empty", form=form, columns=columns)
        except (load_pyreadstat().PyreadstatError, load_pyreadstat().ReadstatError) as failure:
            raise _refusal(form, str(failure).rstrip(".")) from None


def _refusal(form: StatFormat, reason: str) -> UsageError:
    return UsageError(
        f"the table cannot be {form.words}: {reason}.",
        hint="rename it in the schema and the data, or choose csv",
    )
