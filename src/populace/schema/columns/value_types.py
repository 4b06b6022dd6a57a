"""The types in which a release writes its values, where the schema asks for one."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from populace.core.errors import SchemaError
from populace.schema.hints import quote_names, suggest


class ValueType(StrEnum):
    """A type of cells. `integer` and `float` are other names of the widest ones."""

    TEXT = "text"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    FLOAT64 = "float64"

    def holds(self, value: Fraction | None) -> bool:
        """Say whether a cell of this type can hold a number; None stands for what is no number.

        >>> ValueType.INT8.holds(Fraction(128)), ValueType.FLOAT64.holds(Fraction(1, 2)), ValueType.TEXT.holds(None)
        (False, True, True)
        """
        if self is ValueType.TEXT or value is None:
            return self is ValueType.TEXT
        if self is ValueType.FLOAT64:
            return True
        bits = int(self.value.lstrip("uint"))
        low, high = (0, 2**bits) if self.value.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        return value.denominator == 1 and low <= value < high


_OTHER_NAMES = {"integer": ValueType.INT64, "float": ValueType.FLOAT64, "string": ValueType.TEXT}
# What other programs call them.
_FOREIGN = {"int": "integer", "bigint": "integer", "double": "float", "number": "float", "str": "text"}


def parse_value_type(name: str, *, place: str) -> ValueType:
    """Return the type of this name.

    >>> parse_value_type("float", place="[columns.x]")
    <ValueType.FLOAT64: 'float64'>
    """
    known = {**{each.value: each for each in ValueType}, **_OTHER_NAMES}
    if name not in known:
        hint = suggest(
            _FOREIGN.get(name.lower(), name), known, otherwise=f"choose one of {quote_names(known)}"
        )
        raise SchemaError(f"{place}: type is {name!r}.", hint=hint)
    return known[name]
