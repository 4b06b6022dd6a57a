"""What goes wrong on the private side, told without a word about rows.

Libraries quote cells, shapes and counts in their messages, and a traceback holds what was being computed. None of that
may leave: what leaves is one of a few errors with a fixed text, and nothing hangs on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import ParamSpec, TypeVar

from populace.errors import DataError, InternalError, PopulaceError, ResourceError, environment_cause

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound=type)


def hushed(kind: Kind) -> Kind:
    """Let all public methods of a class fail with fixed texts alone.

    >>> @hushed
    ... class Rows:
    ...     def count(self, cells):
    ...         raise MemoryError("Unable to allocate an array of 1234 rows")
    >>> Rows().count(5)
    Traceback (most recent call last):
    populace.errors.ResourceError: answering takes more memory than there is. What was charged stays charged.
    hint: leave columns out of the schema, ask by fewer cells, or free memory
    """
    for name, method in list(vars(kind).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _hushed(method))
    return kind


def _hushed(method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def _asked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except BaseException as failure:
            if os.environ.get("POPULACE_DEBUG") == "1":
                raise
            told = _plain(failure)
        # Out here nothing is being handled, so nothing becomes the context of what is raised.
        raise told

    return _asked


def _plain(failure: BaseException) -> BaseException:
    """Return an error that says nothing about rows, with nothing hanging on it."""
    if isinstance(environment_cause(failure), MemoryError):
        return ResourceError(
            "answering takes more memory than there is. What was charged stays charged.",
            hint="leave columns out of the schema, ask by fewer cells, or free memory",
        )
    if isinstance(failure, Exception) and not isinstance(failure, PopulaceError):
        return InternalError()
    # Our own say nothing, and neither does an interruption; but frames and contexts of theirs hold private values.
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Turn what goes wrong while reading into errors that say nothing about the rows."""
    try:
        yield
    except PopulaceError:
        raise
    except MemoryError:
        raise _no_memory(what) from None
    except OSError as error:
        if error.errno is None:
            raise _unreadable(what) from None
        raise ResourceError(
            f"{what} cannot be read: {error.strerror}.", hint="check the disk and the file"
        ) from None
    except Exception as failure:
        # A thread that cannot be started says nothing of memory, and nothing about the file.
        if isinstance(environment_cause(failure), MemoryError):
            raise _no_memory(what) from None
        raise _unreadable(what) from None


def _no_memory(what: str) -> ResourceError:
    return ResourceError(
        f"reading {what} takes more memory than there is.",
        hint="leave columns out of the schema, or free memory",
    )


def _unreadable(what: str) -> DataError:
    return DataError(
        f"{what} cannot be read as a table.",
        hint="check that it is a whole, undamaged CSV or Parquet file, or a frame",
    )
