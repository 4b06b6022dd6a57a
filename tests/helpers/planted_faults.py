"""Faults put into the text of one function for the length of a `with`; whoever holds the function runs the fault."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any


@contextmanager
def seeded(held: Any, old: str, new: str) -> Iterator[None]:
    """Let a function, method or property run with `new` in the place of `old`, which its text has just once."""
    function, caches = _inner(held)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{function.__qualname__} does not have {old!r} once"
    genuine = function.__code__
    # What it takes from around it, as `super()` does its class, is around it here too.
    around = f"def around({', '.join(genuine.co_freevars)}):\n"
    whole = compile(
        around + textwrap.indent(text.replace(old, new), "    "), inspect.getfile(function), "exec"
    )
    changed = _code(_code(whole, "around"), function.__name__)
    assert changed.co_freevars == genuine.co_freevars, "a fault may not use other names of what is around it"
    _clear(caches)
    function.__code__ = changed
    try:
        yield
    finally:
        function.__code__ = genuine
        _clear(caches)


def _inner(held: Any) -> tuple[FunctionType, list[Any]]:
    """Return the function that is run in the end, and the caches around it."""
    caches = []
    while not isinstance(held, FunctionType) or hasattr(held, "__wrapped__"):
        if hasattr(held, "cache_clear"):
            caches.append(held)
        held = (
            held.fget if isinstance(held, property) else getattr(held, "__wrapped__", None) or held.__func__
        )
    return held, caches


def _clear(caches: list[Any]) -> None:
    for cache in caches:
        cache.cache_clear()


def _code(whole: CodeType, name: str) -> CodeType:
    return next(part for part in whole.co_consts if isinstance(part, CodeType) and part.co_name == name)
