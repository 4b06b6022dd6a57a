"""The methods by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from populace.errors import UsageError
from populace.strategy.adaptive import adaptive
from populace.strategy.aim import aim
from populace.strategy.independent import independent
from populace.strategy.mst import mst
from populace.strategy.oracle import Strategy

AUTO = "adaptive"
METHODS: Mapping[str, Strategy] = MappingProxyType(
    {"adaptive": adaptive, "aim": aim, "independent": independent, "mst": mst}
)


def method_named(name: str) -> str:
    """Return the name of the method that will run: `auto` stands for one of them.

    >>> method_named("auto"), method_named("independent")
    ('adaptive', 'independent')
    """
    found = AUTO if name == "auto" else name
    if found not in METHODS:
        known = ["auto", *METHODS]
        near = get_close_matches(name, known, n=1)
        raise UsageError(
            f"there is no method {name!r}.",
            hint=f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}",
        )
    return found
