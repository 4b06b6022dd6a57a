"""Labels that SPSS, Stata and SAS files carry: variable labels, value labels and missing codes. No row is read.

The bounds of a range are nowhere in such a file but in its rows, so numbers without labels for all values stay open.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from populace.core.errors import DataError, ResourceError
from populace.schema.imports.codebooks.variable import Codebook, Variable

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
MAX_LISTED_MISSING = 1000


def has_embedded_labels(path: Path) -> bool:
    """Say by its name whether a file may carry labels."""
    return path.suffix.lower() in _READERS


def from_embedded_labels(path: Path) -> Codebook:
    """Return the variables of a file as its own labels describe them."""
    try:
        reader = getattr(import_module("pyreadstat"), _READERS[path.suffix.lower()])
    except ImportError:
        raise ResourceError(
            "reading the labels of this file needs pyreadstat, which is not installed.",
            hint="install populace[stat]",
        ) from None
    try:
        _, meta = reader(str(path), metadataonly=True)
    except Exception as error:
        raise DataError(
            f"the labels of {str(path)!r} cannot be read ({type(error).__name__}).",
            hint="check that it is a whole file of that program",
        ) from None
    return Codebook(variables=tuple(_read_variable(name, meta) for name in meta.column_names))


def _read_variable(name: str, meta: Any) -> Variable:
    labels = {_text(code): str(label) for code, label in meta.variable_value_labels.get(name, {}).items()}
    codes = {code: labels.get(code, "") for code in _missing_codes(name, meta)}
    plain = Variable(name=name, label=str(meta.column_names_to_labels.get(name) or ""), missing=codes)
    choices = {code: label for code, label in labels.items() if code not in codes}
    if choices:
        # Whether every value has a label is only in the rows: what has none becomes an empty cell, and is counted.
        return replace(plain, kind="categorical", choices=choices)
    text = str(meta.readstat_variable_types.get(name, "")) == "string"
    why = (
        "text: list its values or remove it"
        if text
        else 'a number: kind = "integer" or "numeric" with its range'
    )
    return replace(plain, open_because=why)


def _missing_codes(name: str, meta: Any) -> list[str]:
    """Return the codes that a file declares as missing: single ones, and whole numbers of a short range."""
    found = [_text(code) for code in getattr(meta, "missing_user_values", {}).get(name, ())]
    for part in getattr(meta, "missing_ranges", {}).get(name, ()):
        low, high = part["lo"], part["hi"]
        if low == high:
            found.append(_text(low))
        elif all(isinstance(end, int | float) for end in (low, high)) and high - low <= MAX_LISTED_MISSING:
            found += [str(code) for code in range(int(low), int(high) + 1)]
    return list(dict.fromkeys(found))


def _text(code: object) -> str:
    return str(int(code)) if isinstance(code, float) and code.is_integer() else str(code)
