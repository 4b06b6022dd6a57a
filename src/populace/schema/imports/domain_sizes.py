"""domain.json: columns of codes 0 … size − 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.imports.schema_document import SchemaDocument


def is_sizes(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object gives each column's size.

    >>> is_sizes({"age": 85, "sex": 2}), is_sizes({"age": "85"})
    (True, False)
    """
    return bool(content) and all(isinstance(size, int) for size in content.values())


def from_sizes(content: Mapping[str, int]) -> SchemaDocument:
    """Return whole numbers from 0 for every column; what is no number becomes 0.

    >>> from_sizes({"sex": 2}).columns["sex"]
    {'kind': 'integer', 'min': 0, 'max': 1, 'other': '0'}
    """
    for name, size in content.items():
        if isinstance(size, bool) or size < 1:
            raise SchemaError(
                f"the size of column {name!r} is not a whole number of 1 or more.",
                hint='write {"column": size, …}, where size is the number of codes',
            )
    return SchemaDocument(
        columns={n: {"kind": "integer", "min": 0, "max": s - 1, "other": "0"} for n, s in content.items()}
    )
