"""An opaque handle on private rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from populace.private.engine import Engine
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.read.rows_to_codes import check_header, open_source, read_codes, read_rows
from populace.private.read.value_counts import Tally, read_tallies
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema

EngineReader = Callable[[], Engine]
TallyReader = Callable[[], Mapping[str, Tally]]
RowsReader = Callable[[], SurveyRows]


def _no_rows() -> SurveyRows:
    return SurveyRows(codes={}, numbers={})


class PrivateTable:
    """Private rows behind their schema: it prints the schema, never rows or counts, and cannot be copied out.

    Making one looks at the header alone. Rows are read when the barrier first asks for the engine, a tally or
    numbers, which it does only after a charge is on disk.
    """

    __slots__ = ("_engine", "_reader", "_rows", "_surveyor", "_tallies", "_teller", "schema")

    def __init__(
        self,
        reader: EngineReader,
        *,
        schema: Schema,
        teller: TallyReader = dict,
        surveyor: RowsReader = _no_rows,
    ) -> None:
        self._reader = reader
        self._engine: Engine | None = None
        self._teller = teller
        self._tallies: Mapping[str, Tally] | None = None
        self._surveyor = surveyor
        self._rows: SurveyRows | None = None
        self.schema = schema

    @classmethod
    def of(cls, data: Any, *, schema: Schema) -> PrivateTable:
        """Return a handle on a file or frame whose header fits the schema.

        `data` is a path to a CSV or Parquet file, or any frame that narwhals understands.
        """
        source = open_source(Path(data) if isinstance(data, str) else data)
        check_header(source, schema)
        return cls(
            lambda: MemoryEngine(read_codes(source, schema), domain=schema.domain),
            schema=schema,
            teller=lambda: read_tallies(source, schema),
            surveyor=lambda: read_rows(source, schema),
        )

    def engine(self) -> Engine:
        """Return the engine over the rows, reading them the first time. For the barrier alone."""
        if self._engine is None:
            self._engine = self._reader()
        return self._engine

    def tally(self, column: str) -> Tally:
        """Return the exact counts of the texts in an unknown column, reading the first time. For the barrier alone."""
        if self._tallies is None:
            self._tallies = self._teller()
        return self._tallies[column]

    def survey_rows(self) -> SurveyRows:
        """Return the rows in codes and numbers, reading them the first time. For the barrier alone."""
        if self._rows is None:
            self._rows = self._surveyor()
        return self._rows

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.schema.columns)} columns, unit={self.schema.unit.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("private rows are never pickled")
