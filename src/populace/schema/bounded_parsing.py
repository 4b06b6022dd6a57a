"""Reading TOML and JSON texts whose work is bounded: no nesting, key or number can keep a reader busy for ever.

What exceeds a bound is a `ValueError`, as what is no TOML or JSON is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from populace.core.limits import LIMITS

_BARE = r"[A-Za-z0-9_-]+"
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'"
_PART = re.compile(rf"{_BARE}|{_QUOTED}")
# Texts of several lines and comments are passed over; a text on one line may be a part of a key.
_PIECE = re.compile(
    rf"\"\"\".*?\"\"\"|'''.*?'''|\#[^\n]*|(?:{_BARE}|{_QUOTED})(?:[ \t]*\.[ \t]*(?:{_BARE}|{_QUOTED}))*",
    re.DOTALL,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Return a TOML text as a dictionary; decimal numbers stay exact.

    >>> parse_toml("width = 0.1")
    {'width': Decimal('0.1')}
    """
    if text.count(".") > LIMITS.max_nesting:
        _check_keys(text)
    try:
        found = tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise _said(error) from None
    check_nesting(found)
    return found


def parse_json(
    text: str,
    *,
    parse_float: Callable[[str], Any] | None = None,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Return a JSON text as Python objects, read by the hooks of `json.loads`.

    >>> parse_json('{"SEX": 2}')
    {'SEX': 2}
    """
    try:
        found = json.loads(text, parse_float=parse_float, object_pairs_hook=object_pairs_hook)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise _said(error) from None
    check_nesting(found)
    return found


def check_nesting(found: object) -> None:
    """Refuse lists and tables that are nested too deeply, and whole numbers that exceed every float."""
    level: list[object] = [found]
    for _ in range(LIMITS.max_nesting):
        deeper: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                deeper += each.values()
            elif isinstance(each, list):
                deeper += each
            elif isinstance(each, int) and each.bit_length() > LIMITS.max_integer_bits:
                raise ValueError("a whole number has more than 308 digits")
        level = deeper
        if not level:
            return
    raise _too_deep()


def _check_keys(text: str) -> None:
    for piece in _PIECE.finditer(text):
        # Texts of several lines and comments may hold any number of dots.
        passed = piece[0].startswith(("#", '"""', "'''"))
        if not passed and len(_PART.findall(piece[0])) > LIMITS.max_nesting:
            raise ValueError(f"a key has more than {LIMITS.max_nesting} parts")


def _too_deep() -> ValueError:
    return ValueError(f"lists and tables are nested more than {LIMITS.max_nesting} levels deep")


def _said(error: ValueError) -> ValueError:
    """Return an error in words for users; the standard one of long numbers speaks to programmers."""
    return ValueError("a number has thousands of digits") if "int_max_str_digits" in str(error) else error
