"""PostgreSQL counts rows as memory does, and refuses before spending what it cannot count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.marginals import Grouping, Marginal
from populace.core.run_state import run_state
from populace.core.table_address import PushDown
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot
from tests.engines.awkward_table import SCHEMA, UNIT_SCHEMA, make_awkward_table, make_visits, sort_visits
from tests.engines.backends import open_backend
from tests.engines.test_same_counts import count_pairs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
COLUMNS = ("age", "income", "texts", "flag", "code", "born", "day")
TEXT = SCHEMA.to_toml()


def counted_schema() -> pp.Schema:
    blocks = TEXT.split("\n[columns.")
    kept = [block for block in blocks[1:] if block.partition("]")[0] in COLUMNS]
    return pp.Schema.parse("\n".join(f"[columns.{block}" for block in kept))


@pytest.fixture
def load(tmp_path: Path) -> Any:
    with open_backend("postgres", tmp_path) as found:
        yield found


def test_every_pair_and_whole_rows_are_those_of_memory(load: Any) -> None:
    schema, table = counted_schema(), make_awkward_table()
    data = PushDown(load(table))
    assert count_pairs(data, schema) == count_pairs(table, schema)
    with run_state():
        held = PrivateTable.of(open_snapshot(data), schema=schema).engine()
        expected = PrivateTable.of(table, schema=schema).engine()
        assert [e.tolist() for e in held.tally()] == [e.tolist() for e in expected.tally()]
        groups = tuple(code % 3 for code in range(schema.domain["age"]))
        asked = [Marginal(()), Marginal(("age", "flag"), (Grouping("age", groups),))]
        held.prepare(asked[:1], memory=2**20)
        for one, other in zip(held.counts(asked), expected.counts(asked), strict=True):
            assert one.tolist() == other.tolist()
        assert not hasattr(held, "rows")


NUMBERS = pp.Schema.parse("""
[columns.whole]
kind = "integer"
min = -3
max = 20
width = 5
missing = ["99", "R"]
[columns.nearest]
kind = "integer"
min = 0
max = 9
beyond = "other"
[columns.decimal]
kind = "numeric"
edges = [0, 0.1, 0.3, 10]
missing = ["-9"]
[columns.price]
kind = "numeric"
min = 0
max = 5
width = 0.5
[columns.grade]
kind = "categorical"
values = ["a b", " a", "Ünï", "\\\\", "it's"]
other = "?"
""")


def test_numbers_at_every_edge_have_the_codes_of_memory(load: Any) -> None:
    edges = [
        float("nan"),
        float("inf"),
        -float("inf"),
        -0.0,
        0.1,
        0.3,
        0.1 + 0.2,
        10.0,
        -9.0,
        None,
        1e300,
        -1e-320,
    ]
    numbers = [-3.0, -4, 1.5, 2, 20, 21, 99, 98.5, -0.0, None, 9, 10]
    prices = [
        "0",
        "0.5",
        "4.9999999999999999999",
        "5",
        "-0.1",
        "NaN",
        "1e300",
        "2.5",
        None,
        "0.49",
        "1e-310",
        "3",
    ]
    grades = ["a b", "a", " a", "ünï", "U\u0308ni\u0308", "\\", "it's", "?", "", "\u3000a b\t", None, "\\\\"]
    table = pa.table(
        {
            "whole": pa.array(numbers, pa.float64()),
            "nearest": pa.array([0, -1, 9, 10, None, 5, 2**62, -(2**62), 1, 2, 3, 4], pa.int64()),
            "decimal": pa.array(edges, pa.float64()),
            "price": pa.array([None if p is None else float(p) for p in prices], pa.float64()),
            "grade": pa.array(grades, pa.string()),
        }
    )
    address = load(table)
    expected = count_pairs(table, NUMBERS)
    assert count_pairs(PushDown(address), NUMBERS) == expected
    from tests.engines.backends import connect_postgres

    where = address.partition("::")[0]
    with connect_postgres(where) as connection, connection.cursor() as cursor:
        cursor.execute('ALTER TABLE "The people" ALTER price TYPE numeric USING price::text::numeric')
        connection.commit()
    assert count_pairs(PushDown(address), NUMBERS) == expected


def test_the_server_keeps_the_first_rows_of_a_unit(load: Any) -> None:
    visits = make_visits()
    ordered = sort_visits(visits)
    assert count_pairs(PushDown(load(visits)), UNIT_SCHEMA) == count_pairs(ordered, UNIT_SCHEMA)


def test_measurements_under_rehearsal_noise_are_those_of_memory(load: Any, tmp_path: Path) -> None:
    schema, table = counted_schema(), make_awkward_table()
    texts = []
    for number, data in enumerate((table, PushDown(load(table)))):
        noise = ExactNoise(RehearsalEntropy(7))
        asked: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "ledger": tmp_path / f"{number}.db"}
        found = pp.measure(data, schema=schema, noise=noise, dataset="d", **asked)
        texts.append([(str(m.marginal), m.counts.tolist()) for m in found.items])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("column", ["work", "bytes", "huge"])
def test_what_cannot_be_counted_there_is_refused_before_spending(
    column: str, load: Any, tmp_path: Path
) -> None:
    blocks = {block.partition("]")[0]: block for block in TEXT.split("\n[columns.")[1:]}
    names = ["age", column]
    schema = pp.Schema.parse("\n".join(f"[columns.{blocks[name]}" for name in names))
    ledger = tmp_path / "ledger.db"
    with pytest.raises(UsageError, match="push-down"):
        pp.measure(PushDown(load(make_awkward_table())), schema=schema, epsilon=1, delta=0, ledger=ledger)
    assert not ledger.exists()
