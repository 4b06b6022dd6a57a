"""Dataclasses as plain JSON values, and back: accounts, designs, queries, questions and mechanisms."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar, Union

from populace.core.errors import ReleaseError
from populace.privacy.accounting.mechanisms import fraction_from_json

T = TypeVar("T")


def encode_json(value: object, *, without: Sequence[str] = ()) -> Any:
    """Return a value as plain JSON: exact numbers as texts, choices by name; mechanisms as the ledger writes them.

    >>> from populace.core.marginals import Marginal
    >>> encode_json((Fraction(1, 3), Marginal(("AGE",))))
    ['1/3', {'clique': ['AGE'], 'groupings': []}]
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return encode_fields(value, without=without)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode_json(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [encode_json(inner) for inner in value]
    return value


def encode_fields(value: Any, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass as plain JSON."""
    kept = [part.name for part in fields(value) if part.init and part.name not in without]
    return {name: encode_json(getattr(value, name)) for name in kept}


def encode_given(value: Any, *, optional: Sequence[str], without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass as plain JSON, without optional ones that are empty: older files have none."""
    found = encode_fields(value, without=without)
    return {name: held for name, held in found.items() if held or name not in optional}


def decode_json(kind: type[T], encoded: object, more: Mapping[str, object] | None = None) -> T:
    """Return the dataclass that `encode_json` wrote; `more` are the fields that it left out.

    >>> from populace.core.marginals import Marginal
    >>> decode_json(Marginal, {"clique": ["AGE"], "groupings": []})
    Marginal(clique=('AGE',), groupings=())
    """
    try:
        found: T = decode_fields(kind, encoded, more or {})
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as failure:
        raise ReleaseError(
            f"what is written of a {kind.__name__.lower()} cannot be read.",
            hint="use the version of populace that wrote it",
        ) from failure
    return found


def decode_fields(kind: Any, encoded: Any, more: Mapping[str, object] | None = None) -> Any:
    """Return the dataclass whose fields `encode_fields` wrote; what does not fit raises what Python has for it."""
    hints = typing.get_type_hints(kind)
    return kind(
        **{name: _decode_value(hints[name], inner) for name, inner in encoded.items()}, **(more or {})
    )


def _decode_value(hint: Any, encoded: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, encoded)
    if origin is tuple:
        inner = arguments[:1] * len(encoded) if arguments[-1] is Ellipsis else arguments
        return tuple(_decode_value(each, part) for each, part in zip(inner, encoded, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _decode_value(arguments[1], part) for key, part in encoded.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return tuple(_decode_value(arguments[0], part) for part in encoded)
    if is_dataclass(hint):
        return decode_fields(hint, encoded)
    if hint is Fraction:
        # Not Fraction(encoded): 1e999999999 would be computed.
        return Fraction(encoded) if isinstance(encoded, int) else fraction_from_json(encoded)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(encoded)
    return encoded


def _decode_union(choices: Sequence[Any], encoded: Any) -> Any:
    """Return a value of the first type that it can be: nothing, a table, or a single value."""
    if encoded is None and type(None) in choices:
        return None
    tables = [each for each in choices if is_dataclass(each) or typing.get_origin(each) is not None]
    single = [each for each in choices if each is not type(None) and each not in tables]
    return _decode_value((tables if isinstance(encoded, dict | list) else single)[0], encoded)
