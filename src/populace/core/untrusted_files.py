"""Files that somebody may have altered, read within bounds: whatever they hold, the answer is a value or a refusal.

A file must be a regular file, JSON must be of bounded size with each key once and finite numbers alone, and arrays are
as large as they are expected to be before a byte of them is read.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import ReleaseError, ResourceError, environment_cause
from populace.core.memory_limit import memory_limit

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Rows of a method that publishes whole rows come to some ten million bytes; nothing else is near that.
MAX_TEXT = 2**28
# Numbers of a header of an array; ours are of a hundred bytes.
MAX_HEADER = 10_000
# What files that hold anything else than populace writes can raise while they are parsed.
_OF_CONTENT = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, EOFError),
    *(zipfile.BadZipFile, zlib.error),
)
_ENVIRONMENT = (errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)


def altered_error(message: str) -> ReleaseError:
    """Return the refusal of a folder that is not as it was written."""
    return ReleaseError(message, hint="ask the publisher for an unaltered copy")


@contextmanager
def refuse_parse_errors(name: str, *expected: type[Exception]) -> Iterator[None]:
    """Turn what goes wrong while a file is parsed into a refusal, and a lack of memory into what it is."""
    try:
        yield
    except (ReleaseError, ResourceError):
        raise
    except Exception as failure:
        if is_out_of_memory(failure):
            raise out_of_memory_error(name) from failure
        if isinstance(failure, OSError):
            raise _unreadable(name, failure) from failure
        # Arrow itself is not loaded to know its exceptions.
        arrow = any(base.__name__ == "ArrowException" for base in type(failure).__mro__)
        if not (isinstance(failure, (*_OF_CONTENT, *expected)) or arrow):
            raise
        raise altered_error(f"{name} cannot be read: it was cut short or altered") from failure


def is_out_of_memory(failure: Exception) -> bool:
    """Say whether something failed for want of memory: libraries cannot be loaded or threads started without any."""
    return isinstance(failure, ImportError) or isinstance(environment_cause(failure), MemoryError)


def out_of_memory_error(what: str) -> ResourceError:
    """Return the refusal of something that does not fit in memory."""
    return ResourceError(f"{what} does not fit in memory.", hint="use a machine with more memory")


def check_memory(what: str, *, size: int) -> None:
    """Refuse so many bytes where there is less memory than that in all."""
    if size > memory_limit():
        raise out_of_memory_error(what)


def check_regular(path: Path) -> None:
    """Refuse anything but a regular file: links, folders, pipes and devices."""
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError) as failure:
        raise _unreadable(path.name, failure) from failure
    if not stat.S_ISREG(mode):
        raise altered_error(f"{path.name} is {'a link, ' if stat.S_ISLNK(mode) else ''}not a file")


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file to read it; a link is not followed, and nothing is waited for."""
    check_regular(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as failure:
        raise _unreadable(path.name, failure) from failure
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise altered_error(f"{path.name} is not a file")
    return io.BufferedReader(io.FileIO(handle, "rb"))


def _unreadable(name: str, failure: Exception) -> ReleaseError | ResourceError:
    if isinstance(failure, OSError) and failure.errno in _ENVIRONMENT:
        return ResourceError(
            f"{name} cannot be read: {failure.strerror or 'the system refuses'}.",
            hint="check permissions and the disk",
        )
    return altered_error(f"{name} cannot be read: it is missing or was altered")


def read_text(path: Path) -> str:
    """Return the text of a file, as it is: UTF-8, and of bounded size."""
    with open_regular(path) as file, refuse_parse_errors(path.name):
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TEXT:
            raise altered_error(f"{path.name} is larger than any that populace writes")
        return file.read(size).decode("utf-8")


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    return parse_json(read_text(path), name=path.name)


def read_stage(folder: Path, *, files: Sequence[str], forms: Sequence[str], verb: str) -> Any:
    """Return the first of the files that a verb wrote into a folder, a JSON document of a format that is read."""
    for name in files:
        if not (folder / name).is_file():
            raise ReleaseError(
                f"{folder} holds no {name}.", hint=f"give the folder that `populace {verb}` wrote"
            )
    document = read_json(folder / files[0])
    with refuse_parse_errors(f"{' and '.join(files)} in {folder}"):
        if document["format"] not in forms:
            raise ReleaseError(
                f"{files[0]} has format {document['format']!r}; this version reads {' and '.join(map(repr, forms))}.",
                hint="use the version of populace that wrote it",
            )
    return document


def read_object(path: Path, *, inner: str) -> tuple[Any, Any]:
    """Return a JSON file that holds an object, and the part of it that everything else hangs on."""
    found = read_json(path)
    if not isinstance(found, dict) or inner not in found:
        raise altered_error(f"{path.name} lacks “{inner}”")
    return found, found[inner]


def parse_json(text: str, *, name: str) -> Any:
    """Return JSON as it is written: every key once, no number that is not finite, no half of a character.

    >>> parse_json('{"a": 1, "a": 2}', name="a.json")
    Traceback (most recent call last):
    populace.core.errors.ReleaseError: a.json cannot be read: it was cut short or altered
    hint: ask the publisher for an unaltered copy
    """
    with refuse_parse_errors(name):
        found = json.loads(
            text, object_pairs_hook=_refuse_repeated_keys, parse_float=_finite, parse_constant=_refuse
        )
        if "\\ud" in text or "\\uD" in text:
            # Half of a pair of surrogates is no character, and could not be written again.
            json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def _refuse(_: str) -> float:
    raise ValueError("not a number of JSON")


def to_canonical_json(value: Any) -> str:
    """Return JSON in one spelling: equal texts mean the same values of the same types, true and 1 apart.

    >>> to_canonical_json({"b": 1, "a": True}), to_canonical_json({"a": 1, "b": 1.0})
    ('{"a":true,"b":1}', '{"a":1,"b":1.0}')
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def same_json(one: Any, other: Any) -> bool:
    """Say whether two values are written alike; 1, 1.0 and true are three different values."""
    try:
        return to_canonical_json(one) == to_canonical_json(other)
    except (TypeError, ValueError, RecursionError):
        return False


def require_int(value: object, *, least: int = 0) -> int:
    """Return a whole number that is not below another as it is; a flag, a float or a text is refused."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError("not a whole number, or too small")
    return value


def require_text(value: object) -> str:
    """Return a text as it is, and refuse anything else."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def read_arrays(path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the arrays of an `.npz` file as floats: just these names, in just these shapes."""
    headers = (SyntaxError, tokenize.TokenError)
    with open_regular(path) as file, refuse_parse_errors(path.name, *headers), zipfile.ZipFile(file) as held:
        names = held.namelist()
        if sorted(names) != sorted(f"{name}.npy" for name in shapes):
            raise ValueError("other arrays")
        check_memory(path.name, size=8 * sum(map(math.prod, shapes.values())))
        return {name: _array(held, f"{name}.npy", shape) for name, shape in shapes.items()}


def _array(held: zipfile.ZipFile, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    with held.open(name) as file:
        version = np.lib.format.read_magic(file)
        read: Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]] = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        found, fortran, kind = read(file, max_header_size=MAX_HEADER)
        if found != shape or kind.kind not in "fiu" or kind.itemsize > 8:
            raise ValueError("another array")
        size = math.prod(shape) * kind.itemsize
        data = file.read(size)
        if len(data) != size or file.read(1):
            raise ValueError("cut short, or too long")
    flat = np.frombuffer(data, dtype=kind).astype(np.float64)
    return flat.reshape(shape[::-1]).T.copy() if fortran else flat.reshape(shape)


@contextmanager
def _open_parquet(path: Path, *, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; the texts of some columns are read as codes."""
    import pyarrow.parquet as pq

    with (
        open_regular(path) as held,
        refuse_parse_errors(path.name),
        pq.ParquetFile(held, read_dictionary=list(coded)) as file,
    ):
        yield file


def read_column_names(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    with _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def check_plain_parquet(path: Path) -> None:
    """Refuse a Parquet file with texts beside its columns: none that we write has any but Arrow's own schema."""
    with _open_parquet(path) as file:
        fields = [file.schema_arrow.field(number).metadata or {} for number in range(len(file.schema_arrow))]
        beside = {*(file.metadata.metadata or {}), *(file.schema_arrow.metadata or {})} - {b"ARROW:schema"}
        if beside or any(set(held) - {b"PARQUET:field_id"} for held in fields):
            raise altered_error(f"{path.name} holds more than its columns")


def read_parquet(path: Path, *, types: Mapping[str, pa.DataType], rows: int | None = None) -> pa.Table:
    """Return a Parquet file that has these columns, in order and in these types, and so many rows if that is known.

    The types of all other columns that it may have are looked at by nobody: it must not have any.
    """
    import pyarrow as pa

    with _open_parquet(path) as file:
        found = file.schema_arrow
        if list(found.names) != list(types) or list(found.types) != list(types.values()):
            raise altered_error(f"{path.name} does not have the columns and types that it should")
        held = file.metadata.num_rows
        if held < 0 or (rows is not None and held != rows):
            raise altered_error(f"{path.name} does not have the number of rows that it should")
        check_memory(path.name, size=8 * held * len(types))
        texts = [name for name, kind in types.items() if pa.types.is_string(kind)]
        if not texts:
            return file.read()
    # Texts are read as codes first: a file of a few bytes may repeat a long one a million times.
    with _open_parquet(path, coded=texts) as file:
        table = file.read()
        check_memory(path.name, size=sum(_bytes(table[name]) for name in texts))
        return table.cast(pa.schema(list(types.items())))


def count_parquet_rows(path: Path) -> int:
    """Return how many rows the row groups of a Parquet file have; refuse groups that no memory holds."""
    with _open_parquet(path) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        check_memory(path.name, size=8 * max(groups, default=0))
        return sum(groups)


def read_row_groups(path: Path, *, types: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
    """Yield the row groups of a Parquet file that has just these columns, in order and in these types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [name for name, kind in types.items() if pa.types.is_string(kind)]
    with open_regular(path) as opened, refuse_parse_errors(path.name), pq.ParquetFile(opened) as file:
        found = file.schema_arrow
        if list(found.names) != list(types) or list(found.types) != list(types.values()):
            raise altered_error(f"{path.name} does not have the columns and types that it should")
    with (
        open_regular(path) as opened,
        refuse_parse_errors(path.name),
        pq.ParquetFile(opened, read_dictionary=texts) as file,
    ):
        for number in range(file.metadata.num_row_groups):
            check_memory(path.name, size=8 * file.metadata.row_group(number).num_rows * len(types))
            table = file.read_row_group(number)
            check_memory(path.name, size=sum(_bytes(table[name]) for name in texts))
            yield table.cast(pa.schema(list(types.items())))


def _bytes(column: pa.ChunkedArray[Any]) -> int:
    import pyarrow.compute as pc

    longest = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks]
    return len(column) * max(longest, default=0)
