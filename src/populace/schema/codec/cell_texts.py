"""Cells as they come from files and frames, seen as texts or as numbers.

What a cell means depends on the cell alone, never on the type its column happens to have: 1, 1.0 and "1" are
the same text, true and "true" too. Otherwise one odd row could change how all other rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.limits import LIMITS
from populace.schema.columns.datetime_format import DAY_SECONDS, FIRST_DAY, LAST_DAY
from populace.schema.exact_numbers import MAX_EXACT_INTEGER, NUMBER_PATTERN


class _Compute:
    """Arrow's functions, which take a tenth of a second to load: only cells that are no plain numbers need them."""

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        return getattr(pyarrow.compute, name)


# Arrow makes its functions and its generic types at run time: a type checker cannot follow them.
pc: Any = _Compute()
Array: TypeAlias = Any
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Numbers: TypeAlias = Integers | Floats

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FORM = rf"^(?i:{NUMBER_PATTERN}|[+-]?inf(inity)?)$"
# 2020-01-31 00:00:00.000 is the day; 12:30:00.500 needs no zeros at its end.
_MIDNIGHT = r"[ T]00:00:00(\.0*)?Z?$"
_ZEROS = r"(:[0-9]{2})(?:\.0+|(\.[0-9]*?[1-9])0+)([Z+-].*)?$"


def to_arrow(values: npt.NDArray[Any]) -> Array:
    """Return whole numbers or floats as an Arrow array that shares their memory.

    Arrow's own way there loads NumPy's masked arrays, which takes longer than to write a table.

    >>> to_arrow(np.array([1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def texts_to_arrow(texts: Sequence[str]) -> Array:
    """Return texts as an Arrow array.

    >>> texts_to_arrow(["a", "", "é"]).tolist()
    ['a', '', 'é']
    """
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def from_arrow(cells: Array) -> npt.NDArray[Any]:
    """Return numbers without empty cells as an array that shares their memory.

    Arrow's own way there loads pandas where it is installed, which takes as long as to fit a small model.

    >>> from_arrow(pa.array([1.5, 2.0])).tolist()
    [1.5, 2.0]
    """
    return np.from_dlpack(cells)


def find_distinct(values: Array) -> tuple[Array, Integers]:
    """Return the distinct cells, and for each row the position of its cell, −1 where it is empty.

    Dictionaries, runs and types of somebody else's are taken off, however they are nested: what is left are cells.

    >>> [part.tolist() for part in find_distinct(pa.array(["a", None, "a"]))]
    [['a'], [0, -1, 0]]
    """
    places: Integers | None = None
    while (inner := _unwrap_type(values)) is not None:
        values, within = inner
        # An empty cell has place −1: the entry appended at the end.
        places = within if places is None else np.append(within, -1)[places]
    if places is not None:
        return values, places
    coded = _encodable(values).dictionary_encode()
    return coded.dictionary, _positions(coded.indices)


def to_texts(cells: Array) -> Array:
    """Return cells of any type as valid texts; null where a cell is empty, not a number, or has no text form.

    This is the one place where cells are cleaned. No cell makes it fail, and none says anything about another.

    >>> to_texts(pa.array([1.0, 2.5, float("nan")])).tolist()
    ['1', '2.5', None]
    """
    if _unwrap_type(cells) is not None:
        values, places = find_distinct(cells)
        return pc.take(to_texts(values), pa.array(places, mask=places < 0))
    cells = _encodable(cells)
    kind = cells.type
    if (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or _is_large(kind)
    ):
        # Files may hold bytes that are no text in columns of texts: Arrow does not look.
        return _decode_bytes(cells)
    if pa.types.is_floating(kind):
        return _format_numbers(cells)
    if pa.types.is_temporal(kind):
        return _format_temporal_cells(cells)
    return cells.cast(pa.string())


def to_floats(cells: Array, *, decimal: str = ".") -> Floats:
    """Return cells of any type as floats: NaN where a cell is no number, true and false as 1 and 0.

    >>> to_floats(pa.array([" 17", "+17.0", "1e400", "N", "true"])).tolist()
    [17.0, 17.0, inf, nan, 1.0]
    """
    if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
        if not cells.null_count:
            return from_arrow(cells).astype(np.float64)
        # An empty cell is NaN.
        plain: Floats = cells.to_numpy(zero_copy_only=False).astype(np.float64)
        return plain
    if pa.types.is_decimal(cells.type):
        return _fill_with_nan(cells.cast(pa.float64(), safe=False))
    written = trim_texts(to_texts(cells))
    if decimal == ",":
        written = pc.replace_substring_regex(written, r"^([+-]?[0-9]*),([0-9]+([eE][+-]?[0-9]+)?)$", r"\1.\2")
    for word, digit in (("true", "1"), ("false", "0")):
        written = pc.if_else(pc.equal(written, word), digit, written)
    shaped = pc.if_else(pc.match_substring_regex(written, _FORM), written, pa.scalar(None, pa.string()))
    return _fill_with_nan(shaped.cast(pa.float64()))


def is_number_type(kind: pa.DataType) -> bool:
    """Say whether cells of a type are numbers already."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def trim_texts(written: Array) -> Array:
    """Return texts without blanks at their ends, in Unicode's composed form."""
    return pc.utf8_normalize(pc.utf8_trim_whitespace(written), form="NFC")


def _fill_with_nan(cells: Array) -> Floats:
    return from_arrow(pc.fill_null(cells, float("nan")))


def _format_numbers(cells: Array) -> Array:
    values = _fill_with_nan(cells.cast(pa.float64()))
    whole = (np.abs(values) < MAX_EXACT_INTEGER) & (values == np.floor(values))
    integers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
    written = pc.if_else(pa.array(whole), integers, cells.cast(pa.string()))
    return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.string()), written)


def has_no_text(kind: pa.DataType) -> bool:
    """Say whether cells of a type can be no text, number or date, whatever they hold: lists, spans and the like.

    >>> has_no_text(pa.list_(pa.string())), has_no_text(pa.string())
    (True, False)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return has_no_text(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return has_no_text(kind.value_type)
    return bool(pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind))


def _unwrap_type(values: Array) -> tuple[Array, Integers] | None:
    """Return what a type is made of, with the place of each row in it; None where it is made of nothing else."""
    if isinstance(values, pa.ExtensionArray):
        # As it is: the same rows, in the type that they are stored in.
        return values.storage, np.arange(len(values))
    if pa.types.is_run_end_encoded(values.type):
        ends = values.run_ends.to_numpy(zero_copy_only=False)
        rows = np.arange(values.offset, values.offset + len(values))
        return values.values, np.searchsorted(ends, rows, side="right")
    if pa.types.is_dictionary(values.type):
        return values.dictionary, _positions(values.indices)
    return None


def _positions(indices: Array) -> Integers:
    return from_arrow(pc.fill_null(indices.cast(pa.int64()), -1))


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _format_temporal_cells(cells: Array) -> Array:
    """Return dates, timestamps and times of the day as texts; what no calendar or clock shows is empty."""
    kind = cells.type
    whole = to_seconds(cells)
    if pa.types.is_date(kind):
        days = pa.array(
            np.nan_to_num(whole).astype(np.int64) // DAY_SECONDS, pa.int32(), mask=np.isnan(whole)
        )
        return days.cast(pa.date32()).cast(pa.string())
    # In a time zone the first and the last day of the calendar may lie beyond it; a time of the day is far from both.
    shown = pa.array((whole >= (FIRST_DAY + 1) * DAY_SECONDS) & (whole < LAST_DAY * DAY_SECONDS))
    try:
        written = pc.if_else(shown, cells, pa.scalar(None, kind)).cast(pa.string())
    except pa.ArrowException:
        # A time zone that nobody knows, which the type names and not a cell.
        return pa.nulls(len(cells), pa.string())
    short = pc.replace_substring_regex(written, _ZEROS, r"\1\2\3")
    return pc.replace_substring_regex(short, _MIDNIGHT, "") if pa.types.is_timestamp(kind) else short


def to_seconds(cells: Array) -> Floats:
    """Return dates, timestamps or times as whole seconds; NaN where a cell is empty, or on no calendar or clock.

    A calendar has years of four digits, and a clock 24 hours.

    >>> to_seconds(pa.array([1500, None]).cast(pa.timestamp("ms"))).tolist()
    [1.0, nan]
    """
    kind = cells.type
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    held = pc.fill_null(cells.view(width).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        # A day beyond the calendar stays there: no product is too large.
        found = np.asarray(held, dtype=np.int64) * DAY_SECONDS
    elif pa.types.is_date64(kind):
        found = held // (DAY_SECONDS * 1000) * DAY_SECONDS
    else:
        found = held // _PER_SECOND[kind.unit]
    low, high = (
        (0, DAY_SECONDS)
        if pa.types.is_time(kind)
        else (FIRST_DAY * DAY_SECONDS, (LAST_DAY + 1) * DAY_SECONDS)
    )
    known = (found >= low) & (found < high) & np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
    return np.where(known, found, np.nan)


def _decode_bytes(cells: Array) -> Array:
    """Return bytes as texts: each cell as UTF-8 or, where it is not that, as Windows-1252.

    A cell that is longer than `LIMITS.max_cell_bytes` is no text.
    """
    raw = cells.cast(pa.large_binary() if _is_large(cells.type) else pa.binary())
    long = pc.fill_null(pc.greater(pc.binary_length(raw), LIMITS.max_cell_bytes), False)
    if pc.any(long).as_py():
        raw = pc.if_else(long, pa.scalar(None, raw.type), raw)
    raw = raw.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if cell is None else _decode_cell(cell) for cell in raw.to_pylist()], pa.string()
        )


def _decode_cell(cell: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return cell.decode(encoding)
        except UnicodeDecodeError:
            continue
    return cell.decode("latin-1")


def _encodable(values: Array) -> Array:
    """Return values in a type whose distinct cells Arrow can find; what it cannot hash has no text form."""
    kind = values.type
    if has_no_text(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.binary_view()).cast(pa.large_binary())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind):
        # Whole numbers keep all their digits; the others are as exact as numbers of any other type.
        return values.cast(pa.string() if kind.scale == 0 else pa.float64(), safe=False)
    return values
