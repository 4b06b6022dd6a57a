"""Which files are compared: one that is named twice is refused, by its path and never by its rows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from populace.core.errors import UsageError
from populace.release.folder.destination import find_release
from populace.release.manifest import TABLE_SUFFIXES
from populace.schema.hints import did_you_mean
from populace.schema.schema import Schema


def refuse_same_file(one: Any, other: Any, *, what: str, hint: str) -> None:
    """Refuse two paths of one file; frames are not compared."""
    paths = all(isinstance(each, str | PathLike) for each in (one, other))
    if paths and os.path.realpath(one) == os.path.realpath(other):
        raise UsageError(f"{what} are the same file: {os.fspath(one)}.", hint=hint)


def release_of(data: Any) -> Path | None:
    """Return the release folder that a path is, or that its file lies in; None for frames and other files."""
    return find_release(Path(data)) if isinstance(data, str | PathLike) else None


def find_synthetic(data: Any, *, schema: Schema) -> Any:
    """Return the synthetic file of a release folder, or both files of linked tables by name; other data as they are."""
    if not isinstance(data, str | PathLike) or not Path(data).is_dir():
        return data
    folder = Path(data)
    names = (
        {"": "synthetic"}
        if schema.linked is None
        else {name: f"synthetic-{name}" for name in (schema.linked.units, schema.linked.members)}
    )
    found = {
        table: folder / f"{name}{suffix}"
        for table, name in names.items()
        for suffix in TABLE_SUFFIXES
        if (folder / f"{name}{suffix}").is_file()
    }
    if len(found) < len(names):
        missing = [name for table, name in names.items() if table not in found]
        raise UsageError(
            f"the folder {folder} has no {' and no '.join(missing)}.",
            hint="give a release folder of this schema, or the synthetic file itself",
        )
    return found if schema.linked is not None else found[""]


def check_columns(columns: Iterable[str], names: Iterable[str]) -> None:
    """Refuse names that are none of some columns."""
    known = list(columns)
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(
                f"the schema has no column {name!r}.",
                hint=f"did you mean {near!r}?" if near else "name columns of the schema",
            )
