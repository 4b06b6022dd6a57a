"""Cells that are dates or times, as seconds: many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from populace.schema.codec.cell_texts import Array, Floats, Integers, pc, to_seconds, to_texts, trim_texts
from populace.schema.columns.date_columns import TemporalColumn, TimeColumn
from populace.schema.columns.datetime_format import (
    DAY_SECONDS,
    MONTHS,
    SHORT_MONTHS,
    DatetimeFormat,
    directive_texts,
    expand_year,
)


def is_temporal_type(kind: pa.DataType, *, clock: bool) -> bool:
    """Say whether cells of a type are times of the day (`clock`), or dates or timestamps without a zone."""
    if clock:
        return bool(pa.types.is_time(kind))
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None))


def parse_temporal(column: TemporalColumn, cells: Array) -> Floats:
    """Return cells, texts or typed ones, as the days or seconds of a column; NaN where they are none.

    >>> from populace.schema.columns.date_columns import DateColumn
    >>> cells = pa.array(["1970-01-02", "1970-01-02T12:00", "2 January"])
    >>> parse_temporal(DateColumn(name="x", min=0, max=9), cells).tolist()
    [1.0, 1.0, nan]
    """
    typed = is_temporal_type(cells.type, clock=isinstance(column, TimeColumn))
    found = to_seconds(cells) if typed else parse_text_seconds(cells, column.regexes)
    return found // column.unit


def format_temporal(form: DatetimeFormat, seconds: Integers) -> Array:
    """Return seconds since 1970 as texts in a format.

    >>> format_temporal(DatetimeFormat("%d %b %y"), np.array([0])).to_pylist()
    ['01 Jan 70']
    """
    days, clock = np.divmod(seconds, DAY_SECONDS)
    when = days.astype("datetime64[D]")
    months = when.astype("datetime64[M]").astype(np.int64)
    date = [months // 12 + 1970, months % 12 + 1, days - _month_start(months) + 1]
    numbers = [*date, clock // 3600, clock // 60 % 60, clock % 60]
    written = []
    for part in form.parts:
        place, texts = directive_texts(part)
        known = pa.array(texts, pa.string())
        written.append(known[0] if place < 0 else pc.take(known, pa.array(numbers[place])))
    return pc.binary_join_element_wise(*written, "")


def parse_text_seconds(written: Array, regexes: Sequence[str]) -> Floats:
    """Return the seconds that texts name by the first regular expression that fits; NaN where none does.

    >>> from populace.schema.columns.datetime_format import ISO_DATE
    >>> parse_text_seconds(pa.array(["1970-01-02", "1970-02-30", "x"]), [ISO_DATE]).tolist()
    [86400.0, nan, nan]
    """
    form = trim_texts(to_texts(written))
    found = np.full(len(written), np.nan)
    for regex in regexes:
        groups = pc.extract_regex(form, pattern=f"^(?:{regex})$")
        found = np.where(np.isnan(found), _combine_groups(groups), found)
    return found


def _combine_groups(groups: Array) -> Floats:
    names = {each.name for each in groups.type}
    matched = _to_integers(groups.is_valid()).astype(np.bool_)

    def part(name: str, absent: int) -> Integers:
        if name not in names:
            return np.full(len(groups), absent)
        texts = pc.struct_field(groups, name)
        return _to_integers(
            pc.if_else(pc.equal(texts, ""), str(absent), texts).cast(pa.int64()), empty=absent
        )

    years = part("Y", 1970)
    if "y" in names:
        short = part("y", 0)
        years = np.where(short >= 69, expand_year(69) - 69, expand_year(0)) + short
    months = part("m", 1)
    for name, known in (("B", MONTHS), ("b", SHORT_MONTHS)):
        if name in names:
            words = pc.utf8_lower(pc.struct_field(groups, name))
            months = (
                _to_integers(pc.index_in(words, value_set=pa.array(known)).cast(pa.int64()), empty=-1) + 1
            )
    hours = part("H", 0)
    if "p" in names:
        twelve = part("I", 0)
        late = _to_integers(pc.equal(pc.utf8_lower(pc.struct_field(groups, "p")), "pm")).astype(np.bool_)
        hours = np.where((twelve >= 1) & (twelve <= 12), twelve % 12 + 12 * late, 24)
    days, minutes, rest = part("d", 1), part("M", 0), part("S", 0)
    valid = matched & (years >= 1) & (months >= 1) & (months <= 12) & (days >= 1)
    valid &= (hours < 24) & (minutes < 60) & (rest < 60)
    since = np.where(valid, (years - 1970) * 12 + months - 1, 0)
    first, following = _month_start(since), _month_start(since + 1)
    valid &= days <= following - first
    return np.where(valid, (first + days - 1) * DAY_SECONDS + hours * 3600 + minutes * 60 + rest, np.nan)


def _month_start(months: Integers) -> Integers:
    """Return the day on which each month since January 1970 begins."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _to_integers(cells: Array, *, empty: int = 0) -> Integers:
    kind = cells.type
    filled = pc.fill_null(cells, False if pa.types.is_boolean(kind) else empty)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)
