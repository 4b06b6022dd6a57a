"""Tables that their owner declares public: read as private ones are, but without protection."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from populace.core.errors import DataError, UsageError
from populace.core.table_address import PushDown, TableAddress, parse_address
from populace.measurements.public_marginals import PublicTable
from populace.privacy.ledger.account import normalize_name
from populace.private.read.file_parts import find_parts, is_pattern
from populace.private.read.rows_to_codes import (
    check_header,
    columns_to_read,
    open_source,
    read_codes,
    read_rows,
)
from populace.private.read.sources import Source
from populace.private.redact import redact_row_errors
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.codec.cell_texts import Array, find_distinct, to_texts
from populace.schema.hints import fold_name, table_stem
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit


def check_not_same_table(public: Any, *, data: Any, accounts: Collection[str]) -> None:
    """Refuse the private table as the public one, as far as names tell; neither table is read for it.

    `accounts` are the names of tables that are known to be private. A frame has no name of its own.
    """
    data = data.data if isinstance(data, PushDown) else data
    if _is_same_table(parse_address(public) or public, parse_address(data) or data):
        raise UsageError(
            "the public table is the private table: its exact counts would be in the release.",
            hint="give a table that everybody may know, or leave --public out",
        )
    check_not_private(public, accounts=accounts)


def check_not_private(public: Any, *, accounts: Collection[str]) -> None:
    """Refuse a table as public whose name is that of an account: its rows are known to be private."""
    address = public if isinstance(public, TableAddress) else parse_address(public)
    if address is not None or isinstance(public, str | os.PathLike):
        known = {normalize_name(name) for name in accounts}
        names = (address.table,) if address is not None else _names(Path(public))
        private = [name for name in names if normalize_name(name) in known]
        if private:
            raise UsageError(
                f"{private[0]!r} names a private table: it has an account, or this run opens one. A public table is "
                "read without protection.",
                hint="were the two tables swapped? If this one truly is public, give a copy of it under another name",
            )


def _names(path: Path) -> tuple[str, ...]:
    """Return the names that accounts of a file, or of the files that a path stands for, may have.

    A link to a private table is private too.
    """
    found: list[str] = []
    for each in (path, *_list_files(path)):
        try:
            real = each.resolve()
        except (OSError, ValueError, RuntimeError):
            # Whoever opens it says what is wrong with it.
            real = each
        found += (each.stem, each.name, table_stem(each), real.stem, real.name, table_stem(real))
    return tuple(dict.fromkeys(found))


def _is_same_table(one: Any, other: Any) -> bool:
    """Say whether two tables are one object, or share a file under any of its names, or a table of a database."""
    if isinstance(one, TableAddress) and isinstance(other, TableAddress):
        # Names are folded, and those of schemas left aside: the database that finds a table has rules of its own. Of a
        # server nobody can say whether it is another one.
        alike = one.kind == other.kind and fold_name(one.table) == fold_name(other.table)
        return alike and (
            one.kind != "duckdb" or not _identities(one.location).isdisjoint(_identities(other.location))
        )
    paths = [isinstance(each, str | os.PathLike) for each in (one, other)]
    if all(paths):
        return not _identities(one).isdisjoint(_identities(other))
    return not any(paths) and _native(one) is _native(other)


def _identities(path: str | os.PathLike[str]) -> set[object]:
    """Return what the files that a path stands for are known by: where they are, and which files of the disk."""
    found: set[object] = set()
    for each in _list_files(Path(path)):
        try:
            found.add(os.path.realpath(each))
            held = each.stat()
            found.add((held.st_dev, held.st_ino))
        except (OSError, ValueError):
            # Whoever opens it says what is wrong with it.
            continue
    return found


def _list_files(path: Path) -> list[Path]:
    """Return the files that a path stands for: those of a folder or of a pattern, or the one that it names."""
    try:
        return find_parts(path) if is_pattern(path) or path.is_dir() else [path]
    except (DataError, OSError, ValueError):
        return [path]


def _native(frame: Any) -> Any:
    """Return a frame without the wrapper that narwhals may have put around it."""
    # Files need nothing of it.
    import narwhals as nw

    return nw.to_native(frame, pass_through=True)


def read_public(data: Any, *, schema: Schema) -> PublicTable:
    """Return a public table in the codes of a schema; all its rows count, whatever unit the private rows have.

    A file is named by its name and the SHA-256 of its bytes, a frame by that of a CSV file of it.
    """
    if isinstance(data, str):
        data = parse_address(data) or Path(data)
    # Nobody behind a public row is protected, so nobody's rows are counted.
    plain = replace(schema, unit=PrivacyUnit(), totals=())
    source = open_source(data)
    check_header(source, plain)
    codes = read_codes(source, plain)
    if not len(next(iter(codes.values()))):
        raise DataError("the public table has no rows.", hint="give one that has some, or leave --public out")
    if isinstance(data, os.PathLike):
        path = Path(data)
        name = "".join(letter for letter in path.name if letter.isprintable())
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    else:
        name, digest = "table", csv_digest(source, columns=columns_to_read(plain))
    return PublicTable(name=name, digest=digest, domain=schema.domain, codes=codes)


def read_public_rows(data: Any, *, schema: Schema) -> SurveyRows:
    """Return the codes and numbers of all rows of a public table, whatever unit the private rows have."""
    plain = replace(schema, unit=PrivacyUnit(), totals=())
    source = open_source(data)
    check_header(source, plain)
    return read_rows(source, plain)


def csv_digest(source: Source, *, columns: Sequence[str]) -> str:
    """Return the SHA-256 of the CSV file of some columns, every cell but empty ones in quotes: anybody can write it."""
    whole = _HashingFile()
    texts_of = pa.schema([(name, pa.string()) for name in columns])
    options = pa.csv.WriteOptions(quoting_style="all_valid")
    with (
        redact_row_errors("the public table"),
        pa.csv.CSVWriter(whole, texts_of, write_options=options) as file,
    ):
        for batch in source.batches(columns):
            file.write_batch(
                pa.record_batch([_texts(batch.column(name)) for name in columns], schema=texts_of)
            )
    return whole.digest.hexdigest()


class _HashingFile(io.RawIOBase):
    """A file that keeps nothing of what is written to it but the hash."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)


def _texts(cells: Array) -> Array:
    values, places = find_distinct(cells)
    return to_texts(values).cast(pa.string()).take(pa.array(places, mask=places < 0))
