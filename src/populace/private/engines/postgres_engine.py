"""The PostgreSQL engine: the server encodes and counts rows, and only counts leave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.limits import LIMITS
from populace.core.marginals import Counts, Marginal
from populace.private.engines.kept_counts import KeptCounts
from populace.private.engines.sql_codec import SqlCodec, source_cell, trim_expression
from populace.private.redact import redact_row_errors
from populace.schema.schema import Schema

# So many marginals are counted by one query: a server's stack and memory do not hold a query of any length.
MAX_COUNTED = 1_000


class PostgresEngine(KeptCounts):
    """Counts marginals over a table of PostgreSQL, in the transaction of a connection."""

    def __init__(self, connection: Any, *, table: str, schema: Schema, codec: SqlCodec) -> None:
        super().__init__(schema.domain)
        self._connection = connection
        self._encoded = _write_encoding(table, schema, codec)

    def tally(self) -> tuple[npt.NDArray[Any], Counts]:
        """Return the rows that occur, sorted, a row of codes each, and how often."""
        names = ", ".join(f"c{place}" for place in range(len(self._domain)))
        counted = f"SELECT {names}, count(*) AS n FROM coded GROUP BY {names} ORDER BY {names}"
        found = self._fetch(f"{self._encoded} {counted}")
        small = np.result_type(*(np.min_scalar_type(size - 1) for size in self._domain.values()))
        columns = [column.to_numpy() for column in found.columns]
        return np.column_stack(columns[:-1]).astype(small), columns[-1].astype(np.int64)

    def _count_cells(self, marginals: Sequence[Marginal]) -> tuple[npt.NDArray[Any], ...]:
        parts = [
            f"SELECT {number} AS m, {self._cell(marginal)} AS cell, count(*) AS n FROM coded GROUP BY 2"
            for number, marginal in enumerate(marginals)
        ]
        # Encoded once for many marginals, then grouped for each of them.
        found = [
            self._fetch(f"{self._encoded} {' UNION ALL '.join(parts[start : start + MAX_COUNTED])}")
            for start in range(0, len(parts), MAX_COUNTED)
        ]
        return tuple(column.to_numpy() for column in pa.concat_tables(found).columns)

    def _cell(self, marginal: Marginal) -> str:
        """Return the expression of the number of a cell in a marginal's table."""
        places = list(self._domain)
        cell = "0::int8"
        for name, size in zip(marginal.clique, marginal.shape(self._domain), strict=True):
            code = f"c{places.index(name)}"
            if (grouping := marginal.grouping(name)) is not None:
                code = f"(ARRAY[{', '.join(map(str, grouping.lookup.tolist()))}])[{code} + 1]"
            cell = f"({cell}) * {size} + {code}"
        return cell

    def _fetch(self, query: str) -> pa.Table:
        with redact_row_errors("the database"), self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()


def _write_encoding(table: str, schema: Schema, codec: SqlCodec) -> str:
    """Return the head of every query: the codes of the rows that count, each column under its number."""
    codes = [f"{codec.codes[name]} AS c{place}" for place, name in enumerate(schema.domain)]
    unit, order = schema.unit, ", ".join(f"c{place}" for place in range(len(schema.domain)))
    if unit.id is not None:
        text = f"{source_cell(unit.id)}::text"
        codes.append(
            f"CASE WHEN octet_length({text}) <= {LIMITS.max_cell_bytes} THEN {trim_expression(text)} END AS unit"
        )
    rows = f"SELECT {', '.join(codes)} FROM {table} AS source {' '.join(codec.joins)}"
    if unit.id is None:
        return f"WITH coded AS MATERIALIZED ({rows})"
    place = f'row_number() OVER (PARTITION BY unit COLLATE "C" ORDER BY {order}) AS place'
    # A row without an id belongs to nobody.
    ranked = f"SELECT *, {place} FROM ({rows}) AS r WHERE unit <> ''"
    return f"WITH coded AS MATERIALIZED (SELECT * FROM ({ranked}) AS ranked WHERE place <= {unit.rows})"
