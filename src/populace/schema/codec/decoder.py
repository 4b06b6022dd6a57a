"""From codes back to values: what a column declares, applied to whole arrays at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.codec.cell_texts import Array, Numbers, pc, to_arrow, to_texts
from populace.schema.codec.datetime_codec import format_temporal
from populace.schema.codec.within_bin_draws import draw_values
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import DateColumn, DateTimeColumn, TemporalColumn, TimeColumn
from populace.schema.columns.datetime_format import DatetimeFormat
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn, numeric_special_codes
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.columns.value_types import ValueType
from populace.schema.exact_numbers import format_decimal, parse_number

EMPTY_LABEL = "(empty)"
_INT64 = range(-(2**63), 2**63)
_MOMENTS = {DateColumn: pa.date32(), DateTimeColumn: pa.timestamp("s"), TimeColumn: pa.time32("s")}


def decode_codes(column: Column, codes: npt.NDArray[Any], *, rng: np.random.Generator) -> Array:
    """Return the values that codes stand for, in the type that the schema gives the column.

    Inside a bin the value is drawn uniformly: among its whole numbers, or among its decimals of a length that a
    bin of its width deserves.

    >>> sex = CategoricalColumn(name="SEX", values=("1", "2"))
    >>> decode_codes(sex, np.array([1, 0, 2]), rng=np.random.default_rng(1)).tolist()
    ['2', '1', None]
    """
    column = fill_unknown_domain(column)
    codes = np.asarray(codes).astype(np.int64)
    kind = arrow_type(column)
    specials = [_special_value(column, text, kind) for text in column.specials] or [None]
    if isinstance(column, CategoricalColumn):
        values = [*(_special_value(column, value, kind) for value in column.values), *specials]
        return pc.take(_to_type(values, kind), to_arrow(codes))
    inside = codes < column.levels
    drawn = draw_values(column, np.where(inside, codes, 0), rng=rng)
    written = format_numbers(column, drawn) if pa.types.is_string(kind) else _to_type(drawn, kind)
    if inside.all():
        return written
    outside = pc.take(_to_type(specials, kind), to_arrow(np.where(inside, 0, codes - column.levels)))
    return pc.if_else(pa.array(inside), written, outside)


def arrow_type(column: Column) -> pa.DataType:
    """Return the type of a column's values: numbers stay numbers unless a special code is a word.

    >>> arrow_type(IntegerColumn(name="AGE", min=0, max=99, missing=("-1",)))
    DataType(int64)
    >>> arrow_type(IntegerColumn(name="AGE", min=0, max=99, missing=("refused",)))
    DataType(string)
    """
    column = fill_unknown_domain(column)
    if column.type is not None:
        return pa.string() if column.type is ValueType.TEXT else pa.type_for_alias(str(column.type))
    values = numeric_special_codes(column)
    words = any(text and text not in values for text in column.specials)
    if isinstance(column, CategoricalColumn) or words:
        return pa.string()
    if isinstance(column, TemporalColumn):
        return pa.string() if column.format is not None else _MOMENTS[type(column)]
    if isinstance(column, DecimalColumn):
        return pa.float64()
    fits = all(value.denominator == 1 and int(value) in _INT64 for value in values.values())
    return pa.int64() if fits else pa.string()


def code_labels(column: Column) -> tuple[str, ...]:
    """Return one short text for each code, for reports and codebooks.

    A label for a number names the bin that the number falls into.

    >>> code_labels(IntegerColumn(name="AGE", min=0, max=30, starts=(0, 18), labels={"18": "adult"}))
    ('0–17', 'adult', '(empty)')
    """
    column = fill_unknown_domain(column)
    if isinstance(column, CategoricalColumn):
        inside = [column.labels.get(value, value or EMPTY_LABEL) for value in column.values]
    else:
        inside = _bin_labels(column)
        for text, label in column.labels.items():
            level = column.level(text)
            if level is not None:
                inside[level] = label
    return (*inside, *(column.labels.get(text, text or EMPTY_LABEL) for text in column.specials))


def _bin_labels(column: Column) -> list[str]:
    if isinstance(column, IntegerColumn):
        bounds = [column.bounds(level) for level in range(column.levels)]
        names = [str(first) if first == last else f"{first}–{last}" for first, last in bounds]
    elif isinstance(column, DecimalColumn):
        written = [format_decimal(edge) or str(edge) for edge in column.edges]
        names = [f"[{low}, {high})" for low, high in pairwise(written)]
        bottom, top = column.ends
        names[0] = names[0].replace("[", "(") if bottom else names[0]
        names[-1] = names[-1] if top else names[-1].replace(")", "]")
        names = [*written[: int(bottom)], *names, *(written[-1:] if top else [])]
    elif isinstance(column, TemporalColumn):
        return [_temporal_label(column, *column.bounds(level)) for level in range(column.levels)]
    else:
        return []
    if column.ends[0]:
        names[0] = f"≤ {names[0]}"
    if column.ends[1]:
        names[-1] = f"≥ {names[-1]}"
    return names


def _temporal_label(column: TemporalColumn, first: int, last: int) -> str:
    """Return a year or a month as such, and any other bin by its first and last moment."""
    begin, end = column.iso_text(first), column.iso_text(last)
    if first == last:
        return begin
    if isinstance(column, DateColumn) and begin.endswith("-01"):
        if begin[:4] == end[:4] and begin.endswith("-01-01") and end.endswith("-12-31"):
            return begin[:4]
        # The calendar has no day after 9999-12-31 to look at.
        month_ends = end.endswith("-12-31") or column.iso_text(last + 1).endswith("-01")
        if begin[:7] == end[:7] and month_ends:
            return begin[:7]
    return f"{begin} – {end}"


def _special_value(column: Column, text: str, kind: pa.DataType) -> str | int | float | None:
    value = column.value(text) if isinstance(column, RangeColumn) else parse_number(text)
    if not text or value is None or pa.types.is_string(kind):
        return text or None
    return float(value) if pa.types.is_floating(kind) else int(value)


def _to_type(values: Sequence[str | int | float | None] | Numbers, kind: pa.DataType) -> Array:
    """Return values in an Arrow type; days and seconds become dates and times."""
    if not pa.types.is_temporal(kind):
        found = to_arrow(values) if isinstance(values, np.ndarray) else pa.array(values, kind)
        return found if found.type == kind else found.cast(kind)
    width = pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
    return pa.array(values, pa.int64()).cast(width).cast(kind)


def format_numbers(column: Column, drawn: Numbers) -> Array:
    """Return numbers as texts, with the decimals that the column has, and moments in its format."""
    if isinstance(column, TemporalColumn):
        return format_temporal(
            DatetimeFormat(column.format or column.iso), drawn.astype(np.int64) * column.unit
        )
    places = column.decimals if isinstance(column, IntegerColumn | DecimalColumn) else None
    if not places:
        return to_texts(pa.array(drawn))
    if isinstance(column, IntegerColumn):
        return pc.binary_join_element_wise(pa.array(drawn).cast(pa.string()), "0" * places, ".")
    scaled = np.rint(drawn * 10.0**places).astype(np.int64)
    whole, rest = (pa.array(part).cast(pa.string()) for part in np.divmod(np.abs(scaled), 10**places))
    sign = pc.if_else(pa.array(scaled < 0), "-", "")
    return pc.binary_join_element_wise(sign, whole, ".", pc.utf8_lpad(rest, places, "0"), "")
