"""JSON for people and machines: one spelling for equal values, short things on one line."""

from __future__ import annotations

import json
from typing import Any

_WIDTH = 110
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def pretty_json(value: Any) -> str:
    """Return JSON text; what does not fit on a line has a line for each of its parts, but for lists of plain values.

    >>> print(pretty_json({"unit": "person", "spends": [{"name": "SEX", "mu": "1/4"}, {"name": "AGE " * 20,
    ... "mu": "1/3"}]}))
    {
     "unit": "person",
     "spends": [
      {"name": "SEX", "mu": "1/4"},
      {"name": "AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE AGE ", "mu": "1/3"}
     ]
    }
    """
    return _write(value, depth=0)


def _write(value: Any, *, depth: int) -> str:
    line = _ENCODE(value)
    if len(line) + depth <= _WIDTH or not isinstance(value, dict | list | tuple):
        return line
    if not isinstance(value, dict) and not any(isinstance(each, dict | list | tuple) for each in value):
        return line
    if isinstance(value, dict):
        parts = [f"{_ENCODE(key)}: {_write(each, depth=depth + 1)}" for key, each in value.items()]
    else:
        parts = [_write(each, depth=depth + 1) for each in value]
    inner = ("\n" + " " * (depth + 1)).join(f"{part}," for part in parts)[:-1]
    opened, closed = line[0], line[-1]
    return f"{opened}\n{' ' * (depth + 1)}{inner}\n{' ' * depth}{closed}"
