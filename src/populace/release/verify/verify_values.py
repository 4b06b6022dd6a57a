"""Whether a synthetic table keeps to its codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import numeric_special_codes
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def find_column_outside(table: pa.Table, *, schema: Schema) -> str | None:
    """Return the first column with a value outside its domain, or None if there is none."""
    return next(
        (name for name, column in schema.columns.items() if not is_within_domain(column, table[name])), None
    )


def is_within_domain(column: Column, values: pa.ChunkedArray[Any]) -> bool:
    """Say whether every value is a value, a missing code or the declared code for everything else.

    Encoding cannot answer this: it maps whatever it meets into the domain.

    >>> import pyarrow as pa
    >>> age = IntegerColumn(name="age", min=0, max=99)
    >>> is_within_domain(age, pa.chunked_array([[17, None]])), is_within_domain(age, pa.chunked_array([[17, 120]]))
    (True, False)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count and "" not in _declared_texts(column):
        return False
    values = values.drop_null()
    if isinstance(column, CategoricalColumn) and not pa.types.is_string(values.type):
        known = pa.array([float(text) for text in _declared_texts(column) if text], pa.float64())
        return bool(pc.all(pc.is_in(values.cast(pa.float64()), known), min_count=0).as_py())
    if isinstance(column, CategoricalColumn):
        return bool(
            pc.all(pc.is_in(values, pa.array(_declared_texts(column), pa.string())), min_count=0).as_py()
        )
    if isinstance(column, TemporalColumn):
        return _are_datetimes_within(column, values)
    if pa.types.is_string(values.type):
        # A number column that has words among its special codes is written as text.
        values = values.filter(pc.invert(pc.is_in(values, pa.array(_declared_texts(column), pa.string()))))
        try:
            values = pc.cast(values, pa.float64())
        except pa.ArrowInvalid:
            return False
    numbers = values.to_numpy().astype(np.float64)
    specials = [float(value) for value in numeric_special_codes(column).values()]
    return bool((_are_numbers_within(column, numbers) | np.isin(numbers, specials)).all())


def _are_datetimes_within(column: TemporalColumn, values: pa.ChunkedArray[Any]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    from populace.schema.codec.datetime_codec import parse_temporal

    if pa.types.is_string(values.type):
        values = values.filter(pc.invert(pc.is_in(values, pa.array(_declared_texts(column), pa.string()))))
    found = parse_temporal(column, values.combine_chunks())
    specials = [float(value) for value in numeric_special_codes(column).values()]
    return bool((((found >= column.min) & (found <= column.max)) | np.isin(found, specials)).all())


def _declared_texts(column: Column) -> list[str]:
    values = column.values if isinstance(column, CategoricalColumn) else ()
    return [*values, *column.specials]


def _are_numbers_within(column: Column, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if isinstance(column, IntegerColumn):
        low, high = float(column.min), float(column.max)
        whole = numbers == np.floor(numbers)
        return np.asarray(whole & (numbers >= low) & (numbers <= high))
    if isinstance(column, DecimalColumn):
        low, high = float(column.edges[0]), float(column.edges[-1])
        return np.asarray((numbers >= low) & (numbers <= high))
    return np.zeros(len(numbers), dtype=np.bool_)
