"""Whether a synthetic table keeps to its codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from populace.schema.columns import Categorical, Column
from populace.schema.dates import Dated
from populace.schema.ranges import Integer, Numeric, special_numbers
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def first_outside(table: pa.Table, *, schema: Schema) -> str | None:
    """Return the first column with a value outside its domain, or None if there is none."""
    return next((name for name, column in schema.columns.items() if not inside(column, table[name])), None)


def inside(column: Column, values: pa.ChunkedArray[Any]) -> bool:
    """Say whether every value is a value, a missing code or the declared code for everything else.

    Encoding cannot answer this: it maps whatever it meets into the domain.

    >>> import pyarrow as pa
    >>> age = Integer(name="age", min=0, max=99)
    >>> inside(age, pa.chunked_array([[17, None]])), inside(age, pa.chunked_array([[17, 120]]))
    (True, False)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count and "" not in _texts(column):
        return False
    values = values.drop_null()
    if isinstance(column, Categorical) and not pa.types.is_string(values.type):
        known = pa.array([float(text) for text in _texts(column) if text], pa.float64())
        return bool(pc.all(pc.is_in(values.cast(pa.float64()), known), min_count=0).as_py())
    if isinstance(column, Categorical):
        return bool(pc.all(pc.is_in(values, pa.array(_texts(column), pa.string())), min_count=0).as_py())
    if isinstance(column, Dated):
        return _moments_inside(column, values)
    if pa.types.is_string(values.type):
        # A number column that has words among its special codes is written as text.
        values = values.filter(pc.invert(pc.is_in(values, pa.array(_texts(column), pa.string()))))
        try:
            values = pc.cast(values, pa.float64())
        except pa.ArrowInvalid:
            return False
    numbers = values.to_numpy().astype(np.float64)
    specials = [float(value) for value in special_numbers(column).values()]
    return bool((_within(column, numbers) | np.isin(numbers, specials)).all())


def _moments_inside(column: Dated, values: pa.ChunkedArray[Any]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    from populace.schema.moments import moments

    if pa.types.is_string(values.type):
        values = values.filter(pc.invert(pc.is_in(values, pa.array(_texts(column), pa.string()))))
    found = moments(column, values.combine_chunks())
    specials = [float(value) for value in special_numbers(column).values()]
    return bool((((found >= column.min) & (found <= column.max)) | np.isin(found, specials)).all())


def _texts(column: Column) -> list[str]:
    values = column.values if isinstance(column, Categorical) else ()
    return [*values, *column.specials]


def _within(column: Column, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if isinstance(column, Integer):
        low, high = float(column.min), float(column.max)
        whole = numbers == np.floor(numbers)
        return np.asarray(whole & (numbers >= low) & (numbers <= high))
    if isinstance(column, Numeric):
        low, high = float(column.edges[0]), float(column.edges[-1])
        return np.asarray((numbers >= low) & (numbers <= high))
    return np.zeros(len(numbers), dtype=np.bool_)
