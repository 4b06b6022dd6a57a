"""Which reader a path needs, told by the first bytes of its file; JSON Lines begin with a row and are told by name."""

from __future__ import annotations

import functools
import gzip
import os
import shutil
import sys
from pathlib import Path
from typing import BinaryIO, cast

from populace.core.errors import DataError, ResourceError, UsageError
from populace.private.read.csv_source import CsvSource
from populace.private.read.file_parts import PartsSource, find_parts, is_pattern, read_keys
from populace.private.read.file_signatures import (
    ARROW,
    ARROW_STREAM,
    GZIP,
    PARQUET,
    is_workbook,
    refuse_other_formats,
)
from populace.private.read.json_lines_source import JsonLinesSource, is_json_lines
from populace.private.read.sources import ArrowSource, FileSource, ParquetSource
from populace.private.redact import redact_open_errors
from populace.schema.imports.embedded.stat_formats import SIGNATURE_BYTES, detect_stat_format

STANDARD_INPUT = Path("-")


def open_file(path: Path) -> FileSource:
    """Look at the header of a file, of the files of a folder or of a pattern, or of standard input; no row is read."""
    if path == STANDARD_INPUT:
        return _open_one(_copy_standard_input())
    if is_pattern(path) or path.is_dir():
        files = find_parts(path)
        root = path if path.is_dir() else path.parent
        sources = [_open_one(each) for each in files]
        return PartsSource(sources, keys=[read_keys(each, below=root) for each in files])
    return _open_one(path)


def _open_one(path: Path) -> FileSource:
    start = _first_bytes(path)
    if is_json_lines(path):
        packed = path.suffix.lower() == ".gz"
        return JsonLinesSource(path, opened=lambda: _unpack(path) if packed else path.open("rb"))
    if start.startswith(PARQUET):
        return ParquetSource(path)
    if start.startswith((ARROW, ARROW_STREAM)):
        return ArrowSource(path, streamed=start.startswith(ARROW_STREAM))
    if detect_stat_format(start) is not None:
        # Only these need it, and the library that they need.
        from populace.private.read.stat_source import StatSource

        return StatSource(path)
    if is_workbook(path, start):
        from populace.private.read.sheet_source import SheetSource

        return SheetSource(path)
    if start.startswith(GZIP):
        return _open_compressed(path)
    refuse_other_formats(path, start)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise DataError(f"{str(path)!r} is not a Parquet file.", hint="if it is CSV, name it .csv")
    return CsvSource(path, opened=lambda: path.open("rb"))


def _open_compressed(path: Path) -> FileSource:
    try:
        with redact_open_errors(str(path)), _unpack(path) as handle:
            start = handle.read(SIGNATURE_BYTES)
    except DataError:
        raise DataError(
            f"{str(path)!r} is compressed by gzip and damaged.", hint="unpack it first, or pack it again"
        ) from None
    refuse_other_formats(path, start)
    return CsvSource(path, opened=lambda: _unpack(path), packed=True)


def _unpack(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb"))


def _first_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{str(path)!r} is not a regular file.", hint="save the data to a file first")
        with path.open("rb") as handle:
            return handle.read(SIGNATURE_BYTES)
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}.", hint="check the path") from None
    except ValueError:
        raise DataError("the path of the data is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"{str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
        ) from None


@functools.cache
def _copy_standard_input() -> Path:
    """Copy standard input, which can be read once, to memory, where it can be read again; no disk holds it.

    The copy goes with the process.
    """
    if not hasattr(os, "memfd_create"):
        # Elsewhere all who open such a copy share one place in it, and a file with a name may outlive a kill.
        raise UsageError(
            "standard input is read on Linux alone.", hint="save the data to a file that only you can read"
        )
    with redact_open_errors("standard input"):
        handle = os.memfd_create("populace")
        with open(handle, "wb", closefd=False) as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
    return Path(f"/dev/fd/{handle}")
