"""Files that are compared must be two: one that is named twice is refused, by its path and never by its rows."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from populace.core.errors import UsageError


def refuse_same_file(one: Any, other: Any, *, what: str, hint: str) -> None:
    """Refuse two paths of one file; frames are not compared."""
    paths = all(isinstance(each, str | PathLike) for each in (one, other))
    if paths and os.path.realpath(one) == os.path.realpath(other):
        raise UsageError(f"{what} are the same file: {os.fspath(one)}.", hint=hint)
