"""Reading TOML and JSON texts with bounded work: no nesting, key or number can keep a reader busy for ever.

What exceeds a bound is a `ValueError`, as what is no TOML or JSON is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from populace.core.errors import PopulaceError, ResourceError
from populace.core.limits import LIMITS
from populace.schema.hints import quote_names

_BARE = r"[A-Za-z0-9_-]+"
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'"
_PART = re.compile(rf"{_BARE}|{_QUOTED}")
# Texts of several lines and comments are passed over; a text on one line may be a part of a key.
_PIECE = re.compile(
    rf"\"\"\".*?\"\"\"|'''.*?'''|\#[^\n]*|(?:{_BARE}|{_QUOTED})(?:[ \t]*\.[ \t]*(?:{_BARE}|{_QUOTED}))*",
    re.DOTALL,
)


class RepeatedKey(ValueError):
    """An object of JSON that names a key twice."""


def parse_toml(text: str) -> Any:
    """Return a TOML text as a dictionary; decimal numbers stay exact.

    >>> parse_toml("width = 0.1")
    {'width': Decimal('0.1')}
    """
    if text.count(".") > LIMITS.max_nesting:
        _check_keys(text)
    return _parse(lambda: tomllib.loads(text, parse_float=Decimal))


def parse_json(text: str) -> Any:
    """Return a JSON text as Python objects; decimal numbers stay exact, and no object names a key twice.

    >>> parse_json('{"SEX": 2}')
    {'SEX': 2}
    """
    return _parse(lambda: json.loads(text, parse_float=Decimal, object_pairs_hook=_unique_keys))


def read_text_file(path: Path, *, what: str, refuse: type[PopulaceError], western: bool = False) -> str:
    """Return the text of a file that a user names; `what` says in messages what it should be.

    With `western`, bytes that are no UTF-8 are read as Windows-1252.
    """
    try:
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            if not western:
                raise refuse(f"{str(path)!r} is not UTF-8 text.", hint=f"save the {what} as UTF-8") from None
            return path.read_text(encoding="cp1252", errors="replace")
    except FileNotFoundError:
        raise refuse(f"there is no {what} file {str(path)!r}.", hint="check the path") from None
    except IsADirectoryError:
        raise refuse(f"{str(path)!r} is a folder, not a {what} file.", hint="name the file in it") from None
    except ValueError:
        raise refuse(f"the path of the {what} is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"the {what} file {str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
        ) from None


def _parse(read: Callable[[], Any]) -> Any:
    try:
        found = read()
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        # The standard words for long numbers speak to programmers.
        long = "int_max_str_digits" in str(error)
        raise (ValueError("a number has thousands of digits") if long else error) from None
    check_nesting(found)
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if repeated := [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]:
        raise RepeatedKey(f"it names {quote_names(repeated)} twice")
    return dict(pairs)


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
