"""How a column of synthetic rows is stored in a file of SPSS, Stata or SAS, and read back from it.

Numbers stay numbers. A special code that is a word, such as refused, becomes a missing code of the file's kind: .a to
.z in Stata, a number below all others in SPSS; its label says what it was. Everything follows from the schema.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from populace.schema.codec.cell_texts import Array, Floats, pc
from populace.schema.codec.decoder import arrow_type, format_numbers
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import DateColumn, DateTimeColumn, TemporalColumn, TimeColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import StepColumn
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.exact_numbers import MAX_EXACT_INTEGER, format_decimal, parse_number
from populace.schema.imports.embedded.file_metadata import is_tag
from populace.schema.imports.embedded.stat_formats import STATA_TIME, MomentUnit, StatFormat, find_moment_unit

Stored = float | str
# What a format is called in which numbers are moments.
_MOMENT_FORMATS = {
    StatFormat.SAV: {DateColumn: "DATE11", DateTimeColumn: "DATETIME20", TimeColumn: "TIME8"},
    StatFormat.DTA: {DateColumn: "%td", DateTimeColumn: "%tc", TimeColumn: STATA_TIME},
    StatFormat.XPT: {DateColumn: "DATE9", DateTimeColumn: "DATETIME20", TimeColumn: "TIME8"},
}
# SPSS declares so many missing codes, or a range and one more.
_MAX_DISCRETE = 3
_MAX_SPSS_TEXT = 8
_MAX_LABELLED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredColumn:
    """A column in a file: texts, or numbers with codes for what is none."""

    column: Column
    form: StatFormat
    is_text: bool
    moment: MomentUnit | None = None
    declared_format: str | None = None
    codes: Mapping[str, Stored] = field(default_factory=dict)
    """What is stored for each declared text."""

    @property
    def tags(self) -> list[str]:
        """The kinds of missing cells that it may hold, as Stata has them."""
        return [] if self.is_text else sorted(code for code in self.codes.values() if isinstance(code, str))

    @property
    def value_labels(self) -> dict[Stored, str]:
        """The labels of what is stored; a word that a code stands for is a label too."""
        named = {text: self.column.labels.get(text, "") for text in self.codes}
        recoded = {
            t: named[t] or t for t, code in self.codes.items() if not self.is_text and not _is(t, code)
        }
        labels = {self.codes[text]: label for text, label in (named | recoded).items() if label and text}
        if self.form is StatFormat.DTA:
            # Of texts and broken numbers Stata knows no labels.
            return {} if self.is_text else {c: t for c, t in labels.items() if _has_stata_label(c)}
        return {code: _cut(label, 120) for code, label in labels.items()}

    @property
    def missing_ranges(self) -> list[Any]:
        """The missing codes as SPSS declares them: three, or a range and one; none where they fit neither."""
        column = self.column
        texts = [*column.missing, *(() if column.outside is None else (column.outside,))]
        codes = [self.codes[text] for text in texts if text]
        if len(codes) <= _MAX_DISCRETE:
            short = all(not isinstance(code, str) or len(code.encode()) <= _MAX_SPSS_TEXT for code in codes)
            return list(codes) if short else []
        numbers = sorted(code for code in codes if not isinstance(code, str))
        for alone in ([], numbers[:1], numbers[-1:]):
            rest = [number for number in numbers if number not in alone]
            if len(rest) == len(codes) - len(alone) and not self._has_values_between(rest[0], rest[-1]):
                return [{"lo": rest[0], "hi": rest[-1]}, *alone]
        return []

    def _has_values_between(self, low: float, high: float) -> bool:
        column = self.column
        if isinstance(column, CategoricalColumn):
            values = [self.codes[value] for value in column.values if value]
            return any(not isinstance(each, str) and low <= each <= high for each in values)
        ends = _numeric_ends(column)
        return ends is None or (low <= ends[1] and high >= ends[0])

    def encode(self, values: Array) -> Any:
        """Return the cells to store: texts, numbers with NaN for empty ones, or objects where some are tags."""
        if self.is_text:
            return np.array(pc.fill_null(values.cast(pa.string()), "").to_pylist(), dtype=object)
        if pa.types.is_string(values.type):
            coded = values.dictionary_encode()
            known = [self._encode_text(text) for text in coded.dictionary.to_pylist()]
            places = pc.fill_null(coded.indices.cast(pa.int64()), len(known)).to_numpy(zero_copy_only=False)
            cells = np.array([*known, math.nan], dtype=object)[places]
            return cells if self.tags else cells.astype(np.float64)
        numbers = self._to_floats(values)
        return numbers.astype(object) if self.tags else numbers

    def _to_floats(self, values: Array) -> Floats:
        if self.moment is None:
            return np.asarray(pc.fill_null(values.cast(pa.float64()), math.nan).to_numpy(), dtype=np.float64)
        width = pa.int64() if pa.types.is_timestamp(values.type) else pa.int32()
        held = values.cast(width).cast(pa.float64())
        numbers = np.asarray(pc.fill_null(held, math.nan).to_numpy(), dtype=np.float64)
        return self._from_units(numbers)

    def _from_units(self, numbers: Floats) -> Floats:
        """Return days, or seconds, as the numbers that the file has for them."""
        if self.moment is None or not isinstance(self.column, TemporalColumn):
            return numbers
        return np.round((numbers * self.column.unit - self.moment.start) / self.moment.seconds)

    def _encode_text(self, text: str) -> Stored:
        if text in self.codes:
            return self.codes[text]
        if isinstance(self.column, TemporalColumn):
            return float(self._from_units(np.array([float(self.column.parse_iso(text) or 0)]))[0])
        return float(text)

    def decode(self, cells: Sequence[Any]) -> Array:
        """Return stored cells in the type that the schema gives the column."""
        kind = arrow_type(self.column)
        if self.is_text:
            texts = pa.array([cell or None for cell in cells], pa.string())
            return texts if pa.types.is_string(kind) else texts.cast(kind)
        plain = [math.nan if cell is None or isinstance(cell, str) else cell for cell in cells]
        numbers = np.array(plain, dtype=np.float64)
        values = self._to_values(numbers, kind=kind)
        if not pa.types.is_string(kind):
            return values
        known = {code: text for text, code in self.codes.items()}
        texts = values.to_pylist()
        return pa.array(
            [None if c is None else known.get(c, text) for c, text in zip(cells, texts, strict=True)],
            pa.string(),
        )

    def _to_values(self, numbers: Floats, *, kind: pa.DataType) -> Array:
        empty = np.isnan(numbers)
        plain = np.where(empty, 0, numbers)
        if self.moment is not None and isinstance(self.column, TemporalColumn):
            seconds = plain * self.moment.seconds + self.moment.start
            plain = np.round(seconds / self.column.unit)
        if pa.types.is_string(kind):
            if isinstance(self.column, CategoricalColumn):
                return pa.nulls(len(numbers), pa.string())
            whole = isinstance(self.column, StepColumn)
            # Codes of its own that are no values of it are replaced by their texts.
            return format_numbers(self.column, plain.astype(np.int64) if whole else plain)
        if pa.types.is_floating(kind):
            return pa.array(plain, mask=empty)
        width = pa.int64() if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) else pa.int32()
        if not np.array_equal(plain, np.floor(plain)):
            raise ValueError("not whole")
        return pa.array(plain.astype(np.int64), mask=empty).cast(width).cast(kind)


def store_column(column: Column, *, form: StatFormat) -> StoredColumn:
    """Return how a column is stored in files of a format."""
    column = fill_unknown_domain(column)
    values = [text for text in column.values if text] if isinstance(column, CategoricalColumn) else []
    specials = [text for text in column.specials if text]
    words = [text for text in specials if parse_number(text) is None]
    as_text = StoredColumn(
        column=column, form=form, is_text=True, codes={text: text for text in (*values, *specials)}
    )
    if isinstance(column, TemporalColumn):
        if column.format is not None or (words and form is not StatFormat.DTA):
            return as_text
        declared = _MOMENT_FORMATS[form][type(column)]
        moment = find_moment_unit(declared, package=form.package)
        tagged = _tag_words(specials)
        return (
            as_text
            if tagged is None
            else _store_numbers(column, form, tagged, moment=moment, declared=declared)
        )
    if not all(map(_is_plain_number, values)) or (words and form is StatFormat.XPT):
        return as_text
    codes: dict[str, Stored] = {
        t: float(parse_number(t) or 0) for t in (*values, *specials) if t not in words
    }
    if form is StatFormat.DTA:
        recoded = _tag_words(words)
    else:
        ends = _numeric_ends(column) or (0.0, 0.0)
        lowest = math.floor(
            min([0.0, ends[0], *(code for code in codes.values() if not isinstance(code, str))])
        )
        recoded = {word: float(lowest - place) for place, word in enumerate(words, 1)}
    if recoded is None or len({*codes.values(), *recoded.values()}) < len(codes) + len(recoded):
        return as_text
    return _store_numbers(column, form, {**codes, **recoded}, declared=_number_format(column, form))


def _store_numbers(
    column: Column,
    form: StatFormat,
    codes: Mapping[str, Stored],
    *,
    moment: MomentUnit | None = None,
    declared: str | None,
) -> StoredColumn:
    return StoredColumn(
        column=column, form=form, is_text=False, moment=moment, declared_format=declared, codes=codes
    )


def _tag_words(words: Sequence[str]) -> dict[str, Stored] | None:
    """Return a letter for each word: its own where it is .a to .z, or the next that is free; None for too many."""
    own: dict[str, Stored] = {word: word[1] for word in words if is_tag(word) and word[1].islower()}
    free = [letter for letter in string.ascii_lowercase if letter not in own.values()]
    others = [word for word in words if word not in own]
    return {**own, **dict(zip(others, free, strict=False))} if len(others) <= len(free) else None


def _number_format(column: Column, form: StatFormat) -> str | None:
    if form is not StatFormat.SAV or not isinstance(column, IntegerColumn):
        return None
    return f"F{min(40, max(len(str(column.min)), len(str(column.max)), 2))}.0"


def _numeric_ends(column: Column) -> tuple[float, float] | None:
    if isinstance(column, StepColumn):
        return float(column.min), float(column.max)
    if isinstance(column, DecimalColumn):
        return float(column.edges[0]), float(column.edges[-1])
    return None


def _is_plain_number(text: str) -> bool:
    """Say whether a text is a number as numbers are written: 1 and 2.5, not 01 or 1.0; a float tells it exactly."""
    value = parse_number(text)
    if value is None or abs(value) > MAX_EXACT_INTEGER:
        return False
    return format_decimal(value) == text and (value.denominator == 1 or repr(float(value)) == text)


def _is(text: str, code: Stored) -> bool:
    value = parse_number(text)
    return text == f".{code}" if isinstance(code, str) else value is not None and float(value) == code


def _has_stata_label(code: Stored) -> bool:
    return isinstance(code, str) or (code.is_integer() and abs(code) <= _MAX_LABELLED)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text that has at most so many bytes.

    >>> _cut("größe", 4)
    'grö'
    """
    return text.encode()[:most].decode(errors="ignore")
