"""The numbers behind codes: what a column of numbers, dates or times holds, as exactly as its cells tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.codec.cell_texts import Array, Floats, find_distinct
from populace.schema.codec.encoder import BinLookup
from populace.schema.codec.split_codes import join_variables
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import RangeColumn, StepColumn
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.schema import Schema


class NumericValues:
    """The numbers of one column, row by row, in agreement with its codes.

    A row has a number where its code is one of the domain: its own, held to the range of the column. Where that is
    none, or where rules moved the row to another code, it is the middle of what its code stands for. Special codes,
    the code outside a universe and whatever cannot be read have none (NaN).

    >>> schema = Schema.parse('[columns.AGE]\\nkind = "integer"\\nedges = [0, 18, 99]\\nmissing = ["-1"]')
    >>> age = NumericValues("AGE", schema=schema)
    >>> age(pa.array(["17", "120", "-1", "x"]), codes={"AGE": np.array([0, 1, 2, 3])}).tolist()
    [17.0, 99.0, nan, nan]
    """

    def __init__(self, name: str, *, schema: Schema) -> None:
        column = fill_unknown_domain(schema.columns[name])
        if not isinstance(column, StepColumn | DecimalColumn):
            raise TypeError(f"column {name!r} has no numbers")
        self._column = column
        self._bins = BinLookup(column)

    def __call__(self, cells: Array, *, codes: Mapping[str, npt.NDArray[Any]], decimal: str = ".") -> Floats:
        """Return the numbers of rows, from their cells and the codes that they have in the end."""
        if isinstance(cells, pa.ChunkedArray):
            cells = cells.combine_chunks()
        if self._bins.accepts_type(cells.type):
            values = self._bins.numbers(cells, decimal=decimal)
        else:
            distinct, places = find_distinct(cells)
            # An empty cell has place −1: the entry appended at the end.
            values = np.append(self._bins.numbers(distinct, decimal=decimal), np.nan)[places]
        own = join_variables(self._column, codes)
        inside = np.clip(values, self._bins.low, self._bins.high)
        held = np.where(self._bins.codes(values) == own, inside, np.nan)
        moved = np.flatnonzero(np.isnan(held) & (own < self._column.levels))
        if len(moved):
            levels, places = np.unique(own[moved], return_inverse=True)
            middles = [float(sum(self._column.bounds(int(level)))) / 2 for level in levels]
            held[moved] = np.array(middles)[places]
        held[own >= self._column.levels] = np.nan
        return held


def numeric_column_names(schema: Schema) -> tuple[str, ...]:
    """Return the columns that hold numbers, dates or times and are read as they are.

    >>> numeric_column_names(Schema.parse('[columns.AGE]\\nkind = "integer"\\nmin = 0\\nmax = 99'))
    ('AGE',)
    """
    return tuple(
        name
        for name, column in schema.columns.items()
        if isinstance(column, RangeColumn) and name not in schema.layout.functions
    )
