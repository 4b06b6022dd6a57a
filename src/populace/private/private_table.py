"""An opaque handle on private rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from populace.private.engine import Engine
from populace.private.engines.open_engine import prepare_engine
from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import check_header, read_rows
from populace.private.read.value_counts import Tally, read_tallies
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema


class PrivateTable:
    """Private rows behind their schema: it prints the schema, never rows or counts, and cannot be copied out.

    Making one looks at the header alone. Rows are read when the barrier first asks for the engine, a tally or
    numbers, which it does only after a charge is on disk.
    """

    __slots__ = ("_read_engine", "_read_survey_rows", "_read_tallies", "schema")

    def __init__(
        self,
        read_engine: Callable[[], Engine],
        *,
        schema: Schema,
        read_tallies: Callable[[], Mapping[str, Tally]] = dict,
        read_survey_rows: Callable[[], SurveyRows] = lambda: SurveyRows(codes={}, numbers={}),
    ) -> None:
        self._read_engine = cache(read_engine)
        self._read_tallies = cache(read_tallies)
        self._read_survey_rows = cache(read_survey_rows)
        self.schema = schema

    @classmethod
    def of(cls, data: Any, *, schema: Schema) -> PrivateTable:
        """Return a handle on a file or frame whose header fits the schema; of linked tables `data` is both, by name."""
        source = open_tables(data, schema=schema)
        check_header(source, schema)
        return cls(
            prepare_engine(source, schema),
            schema=schema,
            read_tallies=lambda: read_tallies(source, schema),
            read_survey_rows=lambda: read_rows(source, schema),
        )

    def engine(self) -> Engine:
        """Return the engine over the rows, reading them the first time. For the barrier alone."""
        return self._read_engine()

    def tally(self, column: str) -> Tally:
        """Return the exact counts of the texts in an unknown column, reading the first time. For the barrier alone."""
        return self._read_tallies()[column]

    def survey_rows(self) -> SurveyRows:
        """Return the rows in codes and numbers, reading them the first time. For the barrier alone."""
        return self._read_survey_rows()

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.schema.columns)} columns, unit={self.schema.unit.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("private rows are never pickled")
