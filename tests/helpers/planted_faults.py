"""Faults put into the text of one function for the length of a `with`; whoever holds the function runs the fault."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper as CachedFunction
from types import CodeType, FunctionType
from typing import Any


@contextmanager
def seeded(held: Any, old: str, new: str) -> Iterator[None]:
    """Let a function, method or property run with `new` in the place of `old`, which its text has just once."""
    function = _inner(held)
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
    clear_caches()
    function.__code__ = changed
    try:
        yield
    finally:
        function.__code__ = genuine
        clear_caches()


def clear_caches() -> None:
    """Forget what the package has kept: a number that came from a fault, through whichever function, must not stay."""
    for name, module in list(sys.modules.items()):
        if name.startswith("populace."):
            for held in list(vars(module).values()):
                if isinstance(held, CachedFunction):
                    held.cache_clear()


def _inner(held: Any) -> FunctionType:
    """Return the function that is run in the end."""
    while not isinstance(held, FunctionType) or hasattr(held, "__wrapped__"):
        held = (
            held.fget if isinstance(held, property) else getattr(held, "__wrapped__", None) or held.__func__
        )
    return held


def _code(whole: CodeType, name: str) -> CodeType:
    return next(part for part in whole.co_consts if isinstance(part, CodeType) and part.co_name == name)
