"""Cells as they come from files and frames, seen as texts or as numbers.

What a cell means depends on the cell alone, never on the type its column happens to have: 1, 1.0 and "1" are
the same text, true and "true" too. Otherwise one odd row could change how all other rows are read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.numbers import NUMBER, WHOLE_LIMIT


class _Compute:
    """Arrow's functions, which take a tenth of a second to load: only cells that are no plain numbers need them."""

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        return getattr(pyarrow.compute, name)


# Arrow makes its functions and its generic types at run time: a type checker cannot follow them.
pc: Any = _Compute()
Array: TypeAlias = Any
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Numbers: TypeAlias = Places | Floats

_FORM = rf"^(?i:{NUMBER}|[+-]?inf(inity)?)$"
# 2020-01-31 00:00:00.000 is the day; 12:30:00.500 needs no zeros at its end.
_MIDNIGHT = r"[ T]00:00:00(\.0*)?Z?$"
_ZEROS = r"(:[0-9]{2})(?:\.0+|(\.[0-9]*?[1-9])0+)([Z+-].*)?$"


def plain(values: npt.NDArray[Any]) -> Array:
    """Return whole numbers or floats as an Arrow array that shares their memory.

    Arrow's own way there loads NumPy's masked arrays, which takes longer than to write a table.

    >>> plain(np.array([1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def distinct(values: Array) -> tuple[Array, Places]:
    """Return the distinct cells, and for each row the position of its cell, −1 where it is empty.

    >>> [part.tolist() for part in distinct(pa.array(["a", None, "a"]))]
    [['a'], [0, -1, 0]]
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    if not pa.types.is_dictionary(values.type):
        values = _encodable(values).dictionary_encode()
    positions = pc.fill_null(values.indices.cast(pa.int64()), -1)
    return values.dictionary, positions.to_numpy(zero_copy_only=False)


def texts(cells: Array) -> Array:
    """Return cells of any type as texts; null where a cell is empty, not a number, or has no text form.

    >>> texts(pa.array([1.0, 2.5, float("nan")])).tolist()
    ['1', '2.5', None]
    """
    kind = cells.type
    if pa.types.is_string(kind):
        # Files may hold bytes that are no text in columns of texts: Arrow does not look.
        return _decoded(cells.cast(pa.binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _decoded(cells.cast(pa.binary()))
    if pa.types.is_decimal(kind):
        return _number_texts(cells.cast(pa.float64(), safe=False))
    if pa.types.is_floating(kind):
        return _number_texts(cells)
    if pa.types.is_duration(kind):
        return pa.nulls(len(cells), pa.string())
    if pa.types.is_date64(kind):
        cells = cells.cast(pa.date32(), safe=False)
    try:
        written = cells.cast(pa.string())
    except pa.ArrowException:
        return pa.nulls(len(cells), pa.string())
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        whole = pc.replace_substring_regex(written, _ZEROS, r"\1\2\3")
        return pc.replace_substring_regex(whole, _MIDNIGHT, "") if pa.types.is_timestamp(kind) else whole
    return written


def numbers(cells: Array, *, decimal: str = ".") -> Floats:
    """Return cells of any type as floats: NaN where a cell is no number, true and false as 1 and 0.

    >>> numbers(pa.array([" 17", "+17.0", "1e400", "N", "true"])).tolist()
    [17.0, 17.0, inf, nan, 1.0]
    """
    if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
        # An empty cell is NaN.
        plain: Floats = cells.to_numpy(zero_copy_only=False).astype(np.float64)
        return plain
    if pa.types.is_decimal(cells.type):
        return _floats(cells.cast(pa.float64(), safe=False))
    written = trimmed(texts(cells))
    if decimal == ",":
        written = pc.replace_substring_regex(written, r"^([+-]?[0-9]*),([0-9]+([eE][+-]?[0-9]+)?)$", r"\1.\2")
    for word, digit in (("true", "1"), ("false", "0")):
        written = pc.if_else(pc.equal(written, word), digit, written)
    shaped = pc.if_else(pc.match_substring_regex(written, _FORM), written, pa.scalar(None, pa.string()))
    return _floats(shaped.cast(pa.float64()))


def is_number(kind: pa.DataType) -> bool:
    """Say whether cells of a type are numbers already."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def trimmed(written: Array) -> Array:
    """Return texts without blanks at their ends, in Unicode's composed form."""
    return pc.utf8_normalize(pc.utf8_trim_whitespace(written), form="NFC")


def _floats(cells: Array) -> Floats:
    values: Floats = pc.fill_null(cells, float("nan")).to_numpy(zero_copy_only=False)
    return values


def _number_texts(cells: Array) -> Array:
    values = _floats(cells.cast(pa.float64()))
    whole = (np.abs(values) < WHOLE_LIMIT) & (values == np.floor(values))
    integers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
    written = pc.if_else(pa.array(whole), integers, cells.cast(pa.string()))
    return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.string()), written)


def _decoded(cells: Array) -> Array:
    """Return bytes as texts: each cell as UTF-8 or, where it is not that, as Windows-1252."""
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if cell is None else _decode(cell) for cell in cells.to_pylist()], pa.string())


def _decode(cell: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return cell.decode(encoding)
        except UnicodeDecodeError:
            continue
    return cell.decode("latin-1")


def _encodable(values: Array) -> Array:
    """Return values in a type whose distinct cells Arrow can find; what it cannot hash has no text form."""
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return values.cast(pa.binary())
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    return values
