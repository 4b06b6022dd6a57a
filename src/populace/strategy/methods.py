"""The methods by name, what they need, and what they spend of δ."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType

from populace.errors import UsageError
from populace.schema.schema import Schema
from populace.strategy.adaptive import adaptive
from populace.strategy.aim import aim
from populace.strategy.field_groups import check_field_groups, field_groups
from populace.strategy.histogram import (
    check_histogram,
    check_histogram_exponential,
    histogram,
    histogram_exponential,
)
from populace.strategy.independent import independent
from populace.strategy.mst import mst
from populace.strategy.oracle import Strategy
from populace.strategy.stability import check_stability, stability

AUTO = "adaptive"
METHODS: Mapping[str, Strategy] = MappingProxyType(
    {
        "adaptive": adaptive,
        "aim": aim,
        "field-groups": field_groups,
        "histogram": histogram,
        "histogram-exponential": histogram_exponential,
        "independent": independent,
        "mst": mst,
        "stability": stability,
    }
)
# Methods with pure noise, whatever δ is offered; and those for which all of δ is there to tell keys.
PURE = frozenset({"field-groups", "histogram", "histogram-exponential"})
TELLING = frozenset({"stability"})


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


def spent_delta(method: str, *, delta: Fraction) -> Fraction:
    """Return the δ that a method spends of what it is offered: nothing where its noise is pure.

    >>> spent_delta("histogram", delta=Fraction(1, 10**9)), spent_delta("mst", delta=Fraction(1, 2))
    (Fraction(0, 1), Fraction(1, 2))
    """
    return Fraction(0) if method in PURE else delta


def spent_keys(method: str, *, delta: Fraction, learning: Fraction) -> Fraction:
    """Return the part of δ to set aside for telling keys; `learning` is what learning domains takes of it."""
    return delta if method in TELLING else learning


def check_method(method: str, schema: Schema, *, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse, from public facts alone and before anything is spent, what a method could not do."""
    if method == "field-groups":
        check_field_groups(schema)
    elif method == "histogram":
        check_histogram(schema)
    elif method == "histogram-exponential":
        check_histogram_exponential(schema, epsilon=epsilon)
    elif method == "stability":
        check_stability(schema, delta=delta)
