"""Rows are counted alike wherever they lie: one suite over every back end."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import DataError
from populace.core.marginals import Marginal
from populace.core.run_state import run_state
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot
from tests.engines.awkward_table import (
    LEARNT_SCHEMA,
    SCHEMA,
    UNIT_SCHEMA,
    make_awkward_table,
    make_towns,
    make_visits,
    sort_visits,
)
from tests.engines.backends import SLOW, Load, as_slow
from tests.helpers.linked_files import linked_schema, to_frames

pytestmark = pytest.mark.filterwarnings("default")


def count_pairs(data: Any, schema: pp.Schema) -> dict[tuple[str, ...], list[int]]:
    pairs = [Marginal(pair) for pair in combinations(schema.domain, 2)]
    with run_state():
        counts = PrivateTable.of(open_snapshot(data), schema=schema).engine().counts(pairs)
    return {pair.clique: found.ravel().tolist() for pair, found in zip(pairs, counts, strict=True)}


def test_every_pair_has_the_counts_of_memory(load: Load) -> None:
    table = make_awkward_table()
    assert count_pairs(load(table), SCHEMA) == count_pairs(table, SCHEMA)


def test_whole_rows_and_their_numbers_are_those_of_memory(load: Load) -> None:
    table = make_awkward_table()
    with run_state():
        held = PrivateTable.of(open_snapshot(load(table)), schema=SCHEMA)
        expected = PrivateTable.of(table, schema=SCHEMA)
        for one, other in zip(held.engine().tally(), expected.engine().tally(), strict=True):
            assert one.tolist() == other.tolist()
        first, second = (_sort_rows(each.survey_rows()) for each in (held, expected))
    assert np.array_equal(first, second, equal_nan=True)


def _sort_rows(rows: Any) -> np.ndarray:
    whole = np.column_stack([*rows.codes.values(), *rows.numbers.values()]).astype(np.float64)
    return whole[np.lexsort(whole.T)]


def test_no_rows_are_a_table(load: Load) -> None:
    table = make_awkward_table().slice(0, 0)
    assert count_pairs(load(table), SCHEMA) == count_pairs(table, SCHEMA)


def test_what_a_unit_keeps_does_not_follow_from_the_order_of_rows(
    load: Load, request: pytest.FixtureRequest
) -> None:
    visits = make_visits()
    ordered = sort_visits(visits)
    if "arrow" in request.node.name:
        visits = ordered
    expected = count_pairs(ordered, UNIT_SCHEMA)
    assert count_pairs(load(visits), UNIT_SCHEMA) == expected
    if "arrow" not in request.node.name:
        assert count_pairs(load(visits.take(list(range(399, -1, -1)))), UNIT_SCHEMA) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "load", ["duckdb-file", *as_slow("polars-lazy", "duckdb-parquet", *SLOW)], indirect=True
)
def test_measurements_under_rehearsal_noise_are_those_of_memory(load: Load, tmp_path: Path) -> None:
    """Domains are learnt in rounds that read the table anew."""
    found = []
    for number, data in enumerate((make_towns(), load(make_towns()))):
        ledger = tmp_path / f"{number}.db"
        noise = ExactNoise(RehearsalEntropy(7))
        asked: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "ledger": ledger, "noise": noise}
        found.append(pp.measure(data, schema=LEARNT_SCHEMA, method="independent", **asked))
        (run,) = pp.Ledger.open(ledger).runs("towns")
        assert run.finished
    first, second = found
    assert first.schema == second.schema
    texts = [[(str(m.marginal), m.counts.tolist()) for m in each.items] for each in found]
    assert texts[0] == texts[1]


def test_units_of_a_geography_and_counted_rows_have_the_counts_of_memory(load: Load) -> None:
    schema = pp.Schema.parse(
        '[table]\nfrequency = "n"\n[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\n'
        '[geography]\nlevels = ["county", "tract"]\nunits = ["A|1", "A|2", "B|1"]\n'
    )
    rows = {"sex": ["f", "m", "f", None], "county": ["A", "A", "B", "C"], "tract": ["1", "2", "1", "9"]}
    table = pa.table({**rows, "n": pa.array([3, 0, None, 7], pa.int64())})
    assert count_pairs(load(table), schema) == count_pairs(table, schema)


def test_linked_tables_may_lie_in_different_places(load: Load) -> None:
    homes = [(f"h{number}", ["owned", "rented"][number % 2]) for number in range(20)]
    people = [
        (f"h{row % 20}", ["head", "spouse", "child"][row // 20], 70 - 25 * (row // 20) + row % 7, "f", "yes")
        for row in range(60)
    ]
    frames = to_frames((homes, people))
    mixed = {"household": frames["household"], "person": load(frames["person"])}
    assert count_pairs(mixed, linked_schema()) == count_pairs(frames, linked_schema())


def test_what_cannot_be_read_is_refused_alike(load: Load, tmp_path: Path) -> None:
    people = pa.table({"age": [1, 2], "job": [["a"], ["b"]], "code": ["1", "2"]})
    data = load(people)
    texts = []
    for columns in (
        '[columns.height]\nkind = "integer"\nmin = 0\nmax = 9\n',
        '[columns.job]\nkind = "categorical"\nvalues = ["a"]\n',
    ):
        for each in (people, data):
            ledger = tmp_path / "ledger.db"
            with pytest.raises(DataError) as refusal:
                pp.synthesize(each, schema=pp.Schema.parse(columns), epsilon=1, delta=0, ledger=ledger)
            texts.append(str(refusal.value))
            assert not ledger.exists()
    assert texts[0] == texts[1]
    assert texts[2] == texts[3]
