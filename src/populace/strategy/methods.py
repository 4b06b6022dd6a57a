"""The methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from populace.errors import UsageError
from populace.strategy.independent import independent
from populace.strategy.mst import mst
from populace.strategy.oracle import Strategy

METHODS: Mapping[str, Strategy] = MappingProxyType({"auto": mst, "independent": independent, "mst": mst})


def strategy_named(name: str) -> Strategy:
    """Return the strategy with this name, or refuse with the nearest names.

    >>> strategy_named("mst") is mst
    True
    """
    if name not in METHODS:
        near = get_close_matches(name, METHODS, n=1)
        raise UsageError(
            f"there is no method {name!r}.",
            hint=f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(METHODS)}",
        )
    return METHODS[name]
