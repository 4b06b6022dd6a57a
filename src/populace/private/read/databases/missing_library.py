"""Libraries that come with an extra of the installation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from populace.core.errors import ResourceError, environment_cause


def require_library(name: str, *, extra: str) -> Any:
    """Return a module of a library, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as failure:
        if isinstance(environment_cause(failure), MemoryError):
            raise
        raise ResourceError(
            f"the library {name.partition('.')[0]!r} is not installed, which this table is read with.",
            hint=f"pip install 'populace[{extra}]'",
        ) from None
