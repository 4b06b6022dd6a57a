"""A column made ready to turn many batches of values into codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.codec.cell_texts import (
    Array,
    Floats,
    Integers,
    find_distinct,
    from_arrow,
    is_number_type,
    pc,
    texts_to_arrow,
    to_floats,
    to_texts,
    trim_texts,
)
from populace.schema.codec.datetime_codec import is_temporal_type, parse_temporal
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn, TimeColumn
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import OutOfRange, StepColumn, numeric_special_codes
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.exact_numbers import parse_number

Codes = npt.NDArray[np.unsignedinteger[Any]]

_NONE = -1
_WHOLE_PATTERN = r"^([0-9]+)\.0+$"


class Encoder:
    """The texts and numbers that a column knows, as arrays; call it with a batch of values.

    With `names_units` the column holds ids: a text that is none, but a whole number with zeros behind its point, such
    as 12.0, is the id 12.
    """

    def __init__(self, column: Column, *, names_units: bool = False) -> None:
        column = fill_unknown_domain(column)
        self._names_units = names_units
        self._type = np.min_scalar_type(column.size - 1)
        self._other = column.other_code
        values = column.values if isinstance(column, CategoricalColumn) else ()
        known = (*values, *column.specials)
        first = column.size - len(known)
        codes = {text: first + place for place, text in enumerate(known)}
        self._exact = _TextLookup(codes)
        spellings = _spellings(codes)
        self._loose = _TextLookup(spellings)
        self._has_empty = "" in spellings
        self._empty = spellings.get("", column.other_code)
        self._bins = BinLookup(column) if isinstance(column, StepColumn | DecimalColumn) else None

    def __call__(self, values: Array, *, decimal: str = ".") -> Codes:
        """Return the code of every value, whatever it is."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if self._bins is not None and self._bins.accepts_type(values.type):
            found = self._bins.numbers(values, decimal=decimal)
            return np.where(np.isnan(found), self._empty, self._fill_other(self._bins.codes(found))).astype(
                self._type
            )
        cells, places = find_distinct(values)
        # An empty cell has place −1: the entry appended at the end.
        return np.append(self._fill_other(self._text_codes(cells, decimal=decimal)), self._empty).astype(
            self._type
        )[places]

    def known_texts(self) -> list[str]:
        """Return every text that has a code of its own, and every other spelling of one without blanks at its ends."""
        return [*self._exact.texts, *self._loose.texts]

    def find_outside(self, values: Array, *, decimal: str = ".") -> npt.NDArray[np.bool_]:
        """Say which values lie outside the domain: they get the code that is declared for everything else."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        empty = not self._has_empty
        if self._bins is not None and self._bins.accepts_type(values.type):
            found = self._bins.numbers(values, decimal=decimal)
            return np.where(np.isnan(found), empty, self._bins.codes(found) == _NONE)
        cells, places = find_distinct(values)
        outside: npt.NDArray[np.bool_] = np.append(self._text_codes(cells, decimal=decimal) == _NONE, empty)[
            places
        ]
        return outside

    def _text_codes(self, cells: Array, *, decimal: str) -> Integers:
        written = pc.fill_null(to_texts(cells), "")
        codes = self._exact(written)
        unknown = codes == _NONE
        if unknown.any():
            codes[unknown] = self._loose(trim_texts(written.filter(pa.array(unknown))))
        unknown = codes == _NONE
        if self._names_units and unknown.any():
            strange = trim_texts(written.filter(pa.array(unknown)))
            whole = pc.replace_substring_regex(strange, pattern=_WHOLE_PATTERN, replacement="\\1")
            codes[unknown] = self._exact(whole)
        if self._bins is not None:
            unknown = codes == _NONE
            strange = written.filter(pa.array(unknown))
            codes[unknown] = self._bins.codes(self._bins.numbers(strange, decimal=decimal))
        return codes

    def _fill_other(self, codes: Integers) -> Integers:
        return np.where(codes == _NONE, self._other, codes)


def encode_values(column: Column, values: Array, *, decimal: str = ".") -> Codes:
    """Return the code of every value; whatever lies outside the domain gets the declared code.

    `decimal` is the mark that may stand in for the point in numbers written as text.

    >>> from populace.schema.columns.numeric_columns import IntegerColumn
    >>> encode_values(IntegerColumn(name="AGE", min=0, max=99), pa.array(["17", " 17.0", "120", "old", None])).tolist()
    [17, 17, 99, 100, 100]
    """
    return Encoder(column)(values, decimal=decimal)


class _TextLookup:
    """Texts with their codes."""

    def __init__(self, codes: dict[str, int]) -> None:
        self.texts = list(codes)
        self._keys = texts_to_arrow(self.texts)
        self._codes = np.array([*codes.values(), _NONE], dtype=np.int64)

    def __call__(self, written: Array) -> Integers:
        found = pc.fill_null(pc.index_in(written, value_set=self._keys), -1)
        codes: Integers = self._codes[from_arrow(found)]
        return codes


class BinLookup:
    """The bins and the special numbers of a column of numbers or dates."""

    def __init__(self, column: StepColumn | DecimalColumn) -> None:
        self._temporal = column if isinstance(column, TemporalColumn) else None
        # What lies below goes to the first code, and what lies above to the last one.
        nearest = column.beyond is OutOfRange.NEAREST
        self._below, self._above = (nearest or end for end in column.ends)
        self._whole = not isinstance(column, DecimalColumn)
        self._step: int | None = None
        if isinstance(column, DecimalColumn):
            self._starts = _decimal_starts(column)
            self.low, self.high = float(column.edges[0]), float(column.edges[-1])
        else:
            self.low, self.high = float(column.min), float(column.max)
            if isinstance(column.starts, range):
                self._step = column.starts.step
            else:
                self._starts = np.array(column.starts, dtype=np.float64)
        specials = sorted(
            (float(v), column.specials.index(t)) for t, v in numeric_special_codes(column).items()
        )
        self._special_values = np.array([value for value, _ in specials], dtype=np.float64)
        self._special_codes = np.array([column.levels + place for _, place in specials], dtype=np.int64)

    def accepts_type(self, kind: pa.DataType) -> bool:
        """Say whether cells of a type are such numbers, dates or times already."""
        if self._temporal is None:
            return is_number_type(kind)
        return is_temporal_type(kind, clock=isinstance(self._temporal, TimeColumn))

    def numbers(self, cells: Array, *, decimal: str) -> Floats:
        """Return cells, texts or typed ones, as numbers, days or seconds; NaN where they are none."""
        if self._temporal is None:
            return to_floats(cells, decimal=decimal)
        return parse_temporal(self._temporal, cells)

    def codes(self, values: Floats) -> Integers:
        """Return the bin of each number; special numbers have codes of their own."""
        held = np.clip(values, self.low, self.high)
        valid = held == values
        if self._below:
            valid |= values < self.low
        if self._above:
            valid |= values > self.high
        if self._whole:
            valid &= values == np.floor(values)
        held = np.where(valid, held, self.low)
        if self._step is None:
            levels = np.searchsorted(self._starts, held, side="right") - 1
        else:
            levels = (held.astype(np.int64) - int(self.low)) // self._step
        codes = np.where(valid, levels, _NONE)
        if len(self._special_values):
            place = np.searchsorted(self._special_values, values).clip(max=len(self._special_values) - 1)
            codes = np.where(self._special_values[place] == values, self._special_codes[place], codes)
        return codes


def _decimal_starts(column: DecimalColumn) -> Floats:
    """Return where the codes of a numeric column begin; what a bottom code holds ends with its own number."""
    starts = [float(edge) for edge in column.edges[:-1]]
    bottom, top = column.ends
    if bottom:
        starts.insert(1, float(np.nextafter(starts[0], np.inf)))
    return np.array([*starts, float(column.edges[-1])] if top else starts)


def _spellings(known: Mapping[str, int]) -> dict[str, int]:
    """Return other texts that mean a known one: without blanks, as a bare number, in lower case for booleans.

    A text that is known itself is never taken for another one; of two candidates the first declared wins.
    """
    codes = dict(known)
    if not known:
        return codes
    for text, form in zip(known, trim_texts(texts_to_arrow(list(known))).to_pylist(), strict=True):
        codes.setdefault(form, codes[text])
    values = [parse_number(text) for text in known]
    floats = pa.array([None if value is None else float(value) for value in values], pa.float64())
    for text, value, short in zip(known, values, to_texts(floats).to_pylist(), strict=True):
        if value is not None:
            codes.setdefault(short, codes[text])
            codes.setdefault(str(value), codes[text])
        if text in ("True", "TRUE", "False", "FALSE"):
            codes.setdefault(text.lower(), codes[text])
    return codes
