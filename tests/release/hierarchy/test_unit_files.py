"""The tables and the noisy measurements of a release: every unit of every level, once, and they add up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.marginals import Marginal, tabulate
from populace.release.bundle import Release
from populace.release.hierarchy import released_hierarchy
from populace.release.hierarchy.unit_files import list_unit_tables
from populace.schema.schema import Schema
from tests.helpers.small_geography import (
    COLUMNS,
    count_persons,
    geography_schema,
    invent_persons,
    release_geography,
)

CELLS = ("geocode", "sex", "age")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Path]:
    place = tmp_path_factory.mktemp("land")
    release = release_geography(place / "ledger.db")
    release.save(place / "out", report=False)
    return release, place / "out"


def test_rows_tabulate_to_the_integer_tables(released: tuple[Release, Path]) -> None:
    release, folder = released
    domain = release.measurements.schema.domain
    for each in (release, Release.load(folder)):
        counts = tabulate(Marginal(CELLS), codes=each.codes, domain=domain)
        assert np.array_equal(counts, release.hierarchy.smallest)
        assert np.array_equal(counts, release.hierarchy.measured.tables[-1])
        assert each.statement["total"]["rows"] == each.synthetic.num_rows == counts.sum()


def test_counted_rows_are_the_integer_tables(tmp_path: Path) -> None:
    release = release_geography(tmp_path / "ledger.db", frequency=True)
    table, counts = release.synthetic, release.hierarchy.smallest
    assert table.column_names == ["county", "tract", "sex", "age", "n"]
    assert table.num_rows == np.count_nonzero(counts)
    weights = np.zeros(counts.shape, dtype=np.int64)
    weights[tuple(release.codes[name] for name in CELLS)] = table["n"].to_numpy()
    assert np.array_equal(weights, counts)
    assert release.statement["total"]["rows"] == counts.sum()
    assert release.statement["total"]["column"] == "n"
    assert "persons" in repr(release)
    for kind in ("csv", "parquet"):
        release.save(tmp_path / kind, format=kind, report=False)
        assert Release.load(tmp_path / kind).synthetic.equals(table)
        assert pp.verify(tmp_path / kind).verified


def test_tables_hold_every_unit_of_every_level_and_add_up(released: tuple[Release, Path]) -> None:
    table = pq.read_table(released[1] / "tables.parquet")
    assert table.column_names == ["level", "county", "tract", "sex", "age", "unbiased", "margin", "published"]
    assert table["level"].value_counts().to_pylist() == [
        {"values": "all", "counts": 6},
        {"values": "county", "counts": 12},
        {"values": "tract", "counts": 30},
    ]
    assert set(table["age"].to_pylist()) == {"0–29", "30–59", "60–89"}
    for name in ("unbiased", "published"):
        sums = [
            table.filter(pc.equal(table["level"], level)).group_by(["sex", "age"]).aggregate([(name, "sum")])
            for level in ("all", "county", "tract")
        ]
        numbers = [
            each.sort_by([("sex", "ascending"), ("age", "ascending")])[f"{name}_sum"].to_numpy()
            for each in sums
        ]
        assert np.allclose(numbers[0], numbers[1], atol=0.01)
        assert np.allclose(numbers[0], numbers[2], atol=0.01)
    whole, county, tract = (
        table.filter(pc.equal(table["level"], level)) for level in ("all", "county", "tract")
    )
    assert whole["county"].null_count == whole["tract"].null_count == 6
    assert county["county"].null_count == 0
    assert county["tract"].null_count == 12
    assert tract["tract"].null_count == 0
    assert pc.min(table["margin"]).as_py() > 0
    assert pc.min(table["published"]).as_py() >= 0


def test_cells_that_rules_exclude_are_not_written(tmp_path: Path) -> None:
    release = release_geography(tmp_path / "ledger.db", zeros=True)
    release.save(tmp_path / "out", report=False)
    table = pq.read_table(tmp_path / "out" / "tables.parquet")
    assert table.num_rows == 8 * 5
    excluded = pc.and_(pc.equal(table["sex"], "m"), pc.equal(table["age"], "60–89"))
    assert not pc.any(excluded).as_py()
    assert pc.sum(table["published"]).as_py() == 3 * release.statement["total"]["rows"]
    assert pp.verify(tmp_path / "out").verified


def test_noisy_measurements_are_the_measured_counts(released: tuple[Release, Path]) -> None:
    release, folder = released
    table = pq.read_table(folder / "noisy_measurements.parquet")
    names = ["level", "county", "tract", "query", "sex", "age", "value", "variance"]
    assert table.column_names == names
    assert table.num_rows == sum(item.counts.size for item in release.measurements.items)
    values = np.concatenate([item.counts.ravel() for item in release.measurements.items])
    assert np.array_equal(table["value"].to_numpy(), values)
    assert set(table["query"].to_pylist()) == {"total", "sex", "age", "sex × age"}
    total = table.filter(pc.equal(table["query"], "total"))
    assert total["sex"].null_count == total["age"].null_count == total.num_rows
    one = table.filter(pc.and_(pc.equal(table["level"], "county"), pc.equal(table["query"], "sex")))
    assert one.select(["county", "tract", "sex", "age"]).to_pylist()[2] == {
        "county": "B",
        "tract": None,
        "sex": "f",
        "age": None,
    }


def test_coarsened_columns_show_the_values_of_their_groups(tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text(
        '[levels]\nall = 1\ncounty = 1\ntract = 2\n[[queries]]\ncolumns = ["sex", "age"]\nshare = 3\n'
        '[[queries]]\ncolumns = ["age"]\ncoarse = { age = ["0..29", "30.."] }\nshare = 1\n'
    )
    release = pp.synthesize(
        invent_persons(),
        schema=geography_schema(),
        epsilon=2,
        delta="1e-9",
        workload=budget,
        seed=1,
        ledger=tmp_path / "ledger.db",
    )
    release.save(tmp_path / "out", report=False)
    table = pq.read_table(tmp_path / "out" / "noisy_measurements.parquet")
    coarse = table.filter(pc.equal(table["query"], "age"))
    assert set(coarse["age"].to_pylist()) == {"0–29", "30–59 to 60–89"}
    assert pp.verify(tmp_path / "out").verified


def test_files_are_written_in_chunks_of_bounded_size(
    released: tuple[Release, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy = released[0].hierarchy
    whole = pa.concat_tables(list_unit_tables([hierarchy]))
    monkeypatch.setattr(released_hierarchy, "MAX_CHUNK_ROWS", 12)
    chunks = list(list_unit_tables([hierarchy]))
    assert max(chunk.num_rows for chunk in chunks) == 12
    assert pa.concat_tables(chunks).equals(whole)


def test_levels_of_the_same_units_keep_their_names(tmp_path: Path) -> None:
    """Where every county has one tract, only its name tells a level from the next."""
    schema = Schema.parse(COLUMNS.replace('"A|1", "A|2", "A|3", "B|1", "B|4"', '"A|1", "B|1"'))
    persons = pa.table({"county": ["A", "B"], "tract": ["1", "1"], "sex": ["f", "m"], "age": [1, 2]})
    release = pp.synthesize(
        persons, schema=schema, epsilon=1, delta="1e-9", dataset="pair", seed=1, ledger=tmp_path / "ledger.db"
    )
    release.save(tmp_path / "out", report=False)
    table = pq.read_table(tmp_path / "out" / "noisy_measurements.parquet")
    assert table["level"].value_counts().to_pylist() == [
        {"values": "all", "counts": 12},
        {"values": "county", "counts": 24},
        {"values": "tract", "counts": 24},
    ]
    assert pp.verify(tmp_path / "out").verified


def test_a_table_that_noise_has_emptied_has_no_rows(tmp_path: Path) -> None:
    nobody = count_persons(invent_persons()).slice(0, 0)
    for attempt in range(20):
        release = pp.synthesize(
            nobody,
            schema=geography_schema(frequency=True),
            epsilon=1,
            delta="1e-9",
            dataset=f"none{attempt}",
            ledger=tmp_path / "ledger.db",
        )
        if not release.statement["total"]["rows"]:
            break
    else:
        pytest.fail("noise was above 0 twenty times")
    assert release.synthetic.num_rows == 0
    release.save(tmp_path / "out", report=False)
    assert pp.verify(tmp_path / "out").verified


def test_names_of_the_files_own_columns_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    schema = Schema.parse(COLUMNS.replace("columns.sex", "columns.level"))
    with pytest.raises(UsageError, match="'level' has the name of a column of tables"):
        pp.measure(invent_persons(), schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()
