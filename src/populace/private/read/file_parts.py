"""Private rows in several files: those of a folder, or all whose names match a pattern, read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from populace.core.errors import DataError
from populace.private.read.json_lines_source import AnyNames, JsonLinesSource
from populace.private.read.sources import FileSource

_TABLES = (".parquet", ".pq")
# What is written where a folder's name has no value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class PartsSource:
    """Files with the same columns. Folders named `key=value` above them are columns too, as Hive and Spark have it."""

    def __init__(self, parts: Sequence[FileSource], *, keys: Sequence[Mapping[str, str | None]]) -> None:
        first = parts[0]
        for source, own in zip(parts, keys, strict=True):
            alike = set(source.names) == set(first.names) and type(source.names) is type(first.names)
            if not alike or set(own) != set(keys[0]):
                raise DataError(
                    "the files of the table do not have the same columns.",
                    hint="give files of one table, or name one of them",
                )
        if any(source.decimal != first.decimal for source in parts):
            # The mark of one of them would turn the numbers of others into other numbers.
            raise DataError(
                "only some files of the table part columns by semicolons, where a comma may be a decimal mark.",
                hint="write all of them alike",
            )
        if set(keys[0]) & set(first.names):
            raise DataError(
                "a folder's name and the files in it name the same column.", hint="rename one of the two"
            )
        names = (*first.names, *keys[0])
        self.names: tuple[str, ...] = AnyNames(names) if isinstance(first.names, AnyNames) else names
        self.decimal = first.decimal
        # Folders add columns to the first file's.
        self.metadata = None if keys[0] else first.metadata
        self.types: Mapping[str, pa.DataType] = {
            **first.types,
            **({name: pa.string() for name in keys[0]} if first.types else {}),
        }
        self._parts, self._keys = tuple(parts), tuple(keys)

    def without_text(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns whose declared type no text, number or date can have, in any file."""
        own = [name for name in columns if name not in self._keys[0]]
        found = {name for part in self._parts for name in part.without_text(own)}
        return [name for name in columns if name in found]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some columns once, batch by batch and file by file."""
        for part, keys in zip(self._parts, self._keys, strict=True):
            # Of the keys alone there would be no rows to count; where any column may be read, one without a name.
            own = [name for name in columns if name not in keys] or [*part.names[:1], ""][:1]
            for batch in part.batches(own):
                arrays = [
                    pa.array([keys[name]] * len(batch), pa.string()) if name in keys else batch.column(name)
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def collect_names(self) -> tuple[str, ...]:
        """Read all rows and return the names that occur in any file without a header. For public data alone."""
        found = [part.collect_names() for part in self._parts if isinstance(part, JsonLinesSource)]
        return tuple(dict.fromkeys(name for names in (*found, self._keys[0]) for name in names))


def is_pattern(path: Path) -> bool:
    """Say whether a path stands for the files that match it."""
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def find_parts(path: Path) -> list[Path]:
    """Return the files of a folder's Parquet tables, or those that match a pattern, in the order of their names."""
    if is_pattern(path):
        found = [each for each in _match(path) if each.is_file()]
        lacking = DataError(
            f"no file matches {str(path)!r}.", hint="check the pattern, and quote it in a shell"
        )
    else:
        found = [each for each in path.rglob("*") if each.suffix.lower() in _TABLES and each.is_file()]
        # Files and folders that begin so are notes of the programs that write them.
        found = [each for each in found if not any(part[0] in "._" for part in each.relative_to(path).parts)]
        lacking = DataError(
            f"{str(path)!r} is a folder without Parquet files.",
            hint="name a file, or a pattern such as 'FOLDER/*.csv'",
        )
    if not found:
        raise lacking
    return sorted(found)


def _match(pattern: Path) -> list[Path]:
    try:
        return list(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    except ValueError:
        return []


def read_keys(path: Path, *, below: Path) -> dict[str, str | None]:
    """Return what the folders of a file say of its rows: `year=2019/part.parquet` has the year 2019."""
    folders = path.relative_to(below).parts[:-1] if path.is_relative_to(below) else ()
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {name: None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}
