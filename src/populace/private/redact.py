"""What goes wrong on the private side, reported without a word about rows.

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

from populace.core.errors import (
    DataError,
    InternalError,
    PopulaceError,
    ResourceError,
    Terminated,
    environment_cause,
)

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound=type)

# Anything else that is no Exception, such as the panic of a library, is a failure like others and may quote cells.
_INTERRUPTIONS = (KeyboardInterrupt, Terminated, SystemExit, GeneratorExit)


def redact_errors(kind: Kind) -> Kind:
    """Let all public methods of a class fail with fixed texts alone.

    >>> @redact_errors
    ... class Rows:
    ...     def count(self, cells):
    ...         raise MemoryError("Unable to allocate an array of 1234 rows")
    >>> Rows().count(5)
    Traceback (most recent call last):
    populace.core.errors.ResourceError: answering takes more memory than there is. What was charged stays charged.
    hint: leave columns out of the schema, ask by fewer cells, or free memory
    """
    for name, method in list(vars(kind).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _redact_method(method))
    return kind


def _redact_method(method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def _ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except BaseException as failure:
            if os.environ.get("POPULACE_DEBUG") == "1":
                raise
            redacted = _redact(failure)
        # Out here nothing is being handled, so nothing becomes the context of what is raised.
        raise redacted

    return _ask


def _redact(failure: BaseException) -> BaseException:
    """Return an error that says nothing about rows, with nothing hanging on it."""
    if isinstance(environment_cause(failure), MemoryError):
        return ResourceError(
            "answering takes more memory than there is. What was charged stays charged.",
            hint="leave columns out of the schema, ask by fewer cells, or free memory",
        )
    if not isinstance(failure, (PopulaceError, *_INTERRUPTIONS)):
        return InternalError()
    # Our own say nothing, and neither does an interruption; but frames and contexts of theirs hold private values.
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


@contextmanager
def redact_open_errors(what: str) -> Iterator[None]:
    """Turn what goes wrong with a header, a footer or types, before anything is charged, into errors of fixed texts."""
    try:
        yield
    except PopulaceError:
        raise
    except OSError as error:
        if error.errno is None:
            raise _no_table_error(what) from None
        raise ResourceError(
            f"{what} cannot be read: {error.strerror}.", hint="check the disk and the file"
        ) from None
    except Exception as failure:
        # A thread that cannot be started says nothing of memory, and nothing about the file.
        if isinstance(environment_cause(failure), MemoryError):
            raise _no_memory_error(f"opening {what}") from None
        raise _no_table_error(what) from None


@contextmanager
def redact_row_errors(what: str) -> Iterator[None]:
    """Turn what goes wrong while rows are read, which may follow from them, into errors of the environment.

    A refusal would say that nothing was spent: rows are read after the charge, and whether they can be read is no
    reason to get it back.
    """
    try:
        yield
    except (ResourceError, InternalError):
        raise
    except OSError as error:
        if error.errno is None:
            raise _damaged_error(what) from None
        raise ResourceError(
            f"{what} cannot be read: {error.strerror}. What was charged stays charged.",
            hint="check the disk and the file",
        ) from None
    except BaseException as failure:
        if isinstance(failure, _INTERRUPTIONS):
            raise
        if isinstance(environment_cause(failure), MemoryError):
            raise _no_memory_error(f"reading {what}", charged=True) from None
        raise _damaged_error(what) from None


def _no_memory_error(what: str, *, charged: bool = False) -> ResourceError:
    spent = " What was charged stays charged." if charged else ""
    return ResourceError(
        f"{what} takes more memory than there is.{spent}",
        hint="leave columns out of the schema, or free memory",
    )


def _no_table_error(what: str) -> DataError:
    return DataError(
        f"{what} cannot be read as a table.",
        hint="check that it is a whole, undamaged CSV or Parquet file, or a frame",
    )


def _damaged_error(what: str) -> ResourceError:
    return ResourceError(
        f"the rows of {what} cannot be read to the end. What was charged stays charged.",
        hint="check that it is a whole, undamaged CSV or Parquet file, or a frame that can be collected",
    )
