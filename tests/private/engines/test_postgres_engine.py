"""The PostgreSQL engine without a server: what it asks of one, and what is refused before anything is asked."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Self

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.private.engines import postgres_engine
from populace.private.engines.postgres_engine import PostgresEngine
from populace.private.engines.sql_codec import MAX_COLUMNS, compile_codec


class Server:
    """A connection and its cursor: one row in the first cell of every marginal that a query asks for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, query: str) -> None:
        self.asked.append(
            [int(part.split(" AS m,")[0]) for part in query.split("SELECT ") if " AS m," in part]
        )

    def fetch_arrow_table(self) -> pa.Table:
        numbers = self.asked[-1]
        return pa.table({"m": numbers, "cell": [0] * len(numbers), "n": [1 + number for number in numbers]})


def test_many_marginals_are_counted_by_several_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_engine, "MAX_COUNTED", 4)
    schema = pp.Schema.from_sizes(dict.fromkeys("abcde", 2))
    server: Any = Server()
    codec = compile_codec(schema, dict.fromkeys("abcde", "int4"))
    engine = PostgresEngine(server, table="people", schema=schema, codec=codec)
    found = engine.counts([Marginal(pair) for pair in combinations("abcde", 2)])
    assert server.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [counts.ravel().tolist() for counts in found] == [[1 + number, 0, 0, 0] for number in range(10)]


def test_more_columns_than_a_query_has_are_refused() -> None:
    names = [f"c{number}" for number in range(MAX_COLUMNS + 1)]
    with pytest.raises(UsageError, match="more than 1600 columns"):
        compile_codec(pp.Schema.from_sizes(dict.fromkeys(names, 2)), dict.fromkeys(names, "int4"))
