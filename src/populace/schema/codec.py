"""From values to codes and back: what a column declares, applied to whole arrays at once."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.columns import Categorical, Column
from populace.schema.encoder import Codes, Encoder, Places, settled
from populace.schema.numbers import decimal_text, number
from populace.schema.ranges import Integer, Numeric, special_numbers
from populace.schema.texts import Array, Floats, pc, texts

EMPTY = "(empty)"
_INT64 = range(-(2**63), 2**63)
# A bin is drawn in steps of at most this part of its width; more digits would claim what nobody knows.
_FINENESS = 1000
# Up to here every whole number and its quotient by a power of ten is a float of its own.
_TELLABLE = 10**15


def encode(column: Column, values: Array, *, decimal: str = ".") -> Codes:
    """Return the code of every value; whatever lies outside the domain gets the declared code.

    `decimal` is the mark that may stand in for the point in numbers written as text.

    >>> encode(Integer(name="AGE", min=0, max=99), pa.array(["17", " 17.0", "120", "old", None])).tolist()
    [17, 17, 99, 100, 100]
    """
    return Encoder(column)(values, decimal=decimal)


def decode(column: Column, codes: npt.NDArray[Any], *, rng: np.random.Generator) -> Array:
    """Return the values that codes stand for, in the type that the schema gives the column.

    Inside a bin the value is drawn uniformly: among its whole numbers, or among its decimals of a length that a
    bin of its width deserves.

    >>> sex = Categorical(name="SEX", values=("1", "2"))
    >>> decode(sex, np.array([1, 0, 2]), rng=np.random.default_rng(1)).tolist()
    ['2', '1', None]
    """
    column = settled(column)
    codes = np.asarray(codes).astype(np.int64)
    kind = arrow_type(column)
    specials = pa.array([_special(text, kind) for text in column.specials] or [None], kind)
    if isinstance(column, Categorical):
        values = pa.concat_arrays([pa.array([value or None for value in column.values], kind), specials])
        return pc.take(values, pa.array(codes))
    inside = codes < column.levels
    drawn = pa.array(_draw(column, np.where(inside, codes, 0), rng=rng))
    written = texts(drawn) if pa.types.is_string(kind) else drawn
    outside = pc.take(specials, pa.array(np.where(inside, 0, codes - column.levels)))
    return pc.if_else(pa.array(inside), written, outside)


def arrow_type(column: Column) -> pa.DataType:
    """Return the type of a column's values: numbers stay numbers unless a special code is a word.

    >>> arrow_type(Integer(name="AGE", min=0, max=99, missing=("-1",)))
    DataType(int64)
    >>> arrow_type(Integer(name="AGE", min=0, max=99, missing=("refused",)))
    DataType(string)
    """
    column = settled(column)
    values = special_numbers(column)
    words = any(text and text not in values for text in column.specials)
    if isinstance(column, Categorical) or words:
        return pa.string()
    if isinstance(column, Numeric):
        return pa.float64()
    fits = all(value.denominator == 1 and int(value) in _INT64 for value in values.values())
    return pa.int64() if fits else pa.string()


def labels(column: Column) -> tuple[str, ...]:
    """Return one short text for each code, for reports and codebooks.

    A label for a number names the bin that the number falls into.

    >>> labels(Integer(name="AGE", min=0, max=30, starts=(0, 18), labels={"18": "adult"}))
    ('0–17', 'adult', '(empty)')
    """
    column = settled(column)
    if isinstance(column, Categorical):
        inside = [column.labels.get(value, value or EMPTY) for value in column.values]
    else:
        inside = _bin_labels(column)
        for text, label in column.labels.items():
            level = column.level(text)
            if level is not None:
                inside[level] = label
    return (*inside, *(column.labels.get(text, text or EMPTY) for text in column.specials))


def _bin_labels(column: Column) -> list[str]:
    if isinstance(column, Integer):
        bounds = [column.bounds(level) for level in range(column.levels)]
        return [str(first) if first == last else f"{first}–{last}" for first, last in bounds]
    if isinstance(column, Numeric):
        written = [decimal_text(edge) or str(edge) for edge in column.edges]
        inner = [f"[{low}, {high})" for low, high in pairwise(written)]
        return [*inner[:-1], inner[-1].replace(")", "]")]
    return []


def _special(text: str, kind: pa.DataType) -> str | int | float | None:
    value = number(text)
    if not text or value is None or pa.types.is_string(kind):
        return text or None
    return int(value) if pa.types.is_integer(kind) else float(value)


def _draw(column: Column, levels: Places, *, rng: np.random.Generator) -> Places | Floats:
    """Return one number for each bin, drawn uniformly from it."""
    if isinstance(column, Numeric):
        return _draw_decimals(column, levels, rng=rng)
    if isinstance(column, Integer):
        if isinstance(column.starts, range):
            first = column.min + levels * column.starts.step
            last = np.minimum(first + column.starts.step - 1, column.max)
        else:
            starts = np.array([*column.starts, column.max + 1], dtype=np.int64)
            first, last = starts[levels], starts[levels + 1] - 1
        return rng.integers(first, last, endpoint=True) if column.binned else first
    raise TypeError(f"a {column.kind} column has no numbers to draw")


def _draw_decimals(column: Numeric, levels: Places, *, rng: np.random.Generator) -> Floats:
    """Return one number for each bin: a decimal of few places, or any float where decimals are too coarse for floats.

    The decimals of a bin run from its lower edge to just below its upper one, so none falls into another bin.
    """
    bins = [_steps(low, high) for low, high in pairwise(column.edges)]
    tellable = np.array([max(abs(first), abs(last), scale) <= _TELLABLE for first, last, scale in bins])
    first, last, scale = np.array(
        [steps if fine else (0, 1, 1) for steps, fine in zip(bins, tellable, strict=True)], dtype=np.int64
    ).T
    drawn: Floats = rng.integers(first[levels], last[levels]) / scale[levels]
    if not tellable.all():
        edges = np.array([float(edge) for edge in column.edges])
        low, high = edges[levels], edges[levels + 1]
        share = rng.random(len(levels))
        # Weighted ends cannot overflow as high − low can; rounding must not reach the next bin.
        between = np.clip(low * (1 - share) + high * share, low, np.nextafter(high, low))
        drawn = np.where(tellable[levels], drawn, between)
    return drawn


def _steps(low: Fraction, high: Fraction) -> tuple[int, int, int]:
    """Return a bin in whole steps of 1/scale: the first inside, the first beyond, and the power of ten that scale is.

    The step is the largest that divides the bin in a thousand and writes both edges.

    >>> _steps(Fraction(15), Fraction(20)), _steps(Fraction("2.5"), Fraction(5000))
    ((15000, 20000, 1000), (25, 50000, 10))
    """
    scale = 1
    while (high - low) * scale < _FINENESS or (low * scale).denominator > 1 or (high * scale).denominator > 1:
        scale *= 10
    return int(low * scale), int(high * scale), scale
