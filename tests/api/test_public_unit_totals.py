"""Public totals of a geography through a whole run: exact in every file, free, and with the same promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.core.errors import SchemaError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.bundle import Release
from populace.release.row_selection import RowCountOrigin
from populace.schema.schema import Schema
from tests.helpers.small_geography import COLUMNS, invent_persons

TABLE = '[table]\ndataset = "land"\nunit = "person"\n'
TOTALS = """
[[totals]]
by = ["county"]
counts = { A = 350, B = 50 }
[[totals]]
by = ["sex"]
counts = { f = 190, m = 210 }
"""
ASKED: dict[str, Any] = {"epsilon": 2, "delta": "1e-9"}


def run(text: str, folder: Path, persons: pa.Table | None = None, **more: Any) -> Release:
    schema = Schema.parse(TABLE + COLUMNS + text)
    rows = invent_persons() if persons is None else persons
    return pp.synthesize(rows, schema=schema, ledger=folder / "ledger.db", **(ASKED | more))


@pytest.mark.slow
def test_totals_are_exact_in_every_file_and_cost_nothing(tmp_path: Path) -> None:
    release = run(TOTALS, tmp_path, seed=3)
    release.save(tmp_path / "release")
    statement = release.statement
    assert statement["neighbours"] == "add-remove"
    assert statement["total"]["origin"] == RowCountOrigin.TOTALS.value
    assert statement["total"]["rows"] == 400
    assert not [line for line in statement["spends"] if line["verb"] == "invariant"]
    tables = pq.read_table(tmp_path / "release" / "tables.parquet").to_pandas()
    counties = tables[tables["level"] == "county"].groupby("county")
    whole = tables[tables["level"] == "all"].groupby("sex")
    for found, wanted in ((counties, [350, 50]), (whole, [190, 210])):
        assert found["published"].sum().tolist() == wanted
        assert np.allclose(found["unbiased"].sum(), wanted, atol=0.01)
    drawn = release.synthetic.to_pandas()
    assert drawn.groupby("county").size().tolist() == [350, 50]
    assert drawn.groupby("sex").size().tolist() == [190, 210]
    area = release.area({"county": ["B"]})
    assert area.table["unbiased"].to_pylist() == [50.0]
    assert area.table["margin"].to_pylist() == [0.0]
    # Neither the total nor sexes of the whole are asked again.
    noisy = pq.read_table(tmp_path / "release" / "noisy_measurements.parquet").to_pandas()
    asked = set(zip(noisy["query"], noisy["level"], strict=True))
    assert ("total", "tract") in asked
    assert ("age", "all") in asked
    assert not asked & {("total", "all"), ("total", "county"), ("sex", "all")}


def test_known_totals_leave_more_for_the_rest(tmp_path: Path) -> None:
    plain, known = (pp.plan(Schema.parse(COLUMNS + text), population=400, **ASKED) for text in ("", TOTALS))
    for level in range(3):
        both = [found.variance(("sex", "age"), level=level) for found in (plain, known)]
        assert (both[1] < both[0]).all()


def test_a_run_does_not_depend_on_whether_rows_agree_with_totals(tmp_path: Path) -> None:
    """Totals are public: rows of another size are no error, and only noisy counts tell of the difference."""
    many = invent_persons(20_000)
    noise = ExactNoise(RehearsalEntropy(3))
    told = [
        text
        for text in run(TOTALS, tmp_path, many, noise=noise).statement["warnings"]
        if "public totals" in text
    ]
    assert told
    assert "“county”" in told[0]
    (tmp_path / "other").mkdir()
    fitting = run("", tmp_path / "other", noise=noise)
    assert not [text for text in fitting.statement["warnings"] if "public totals" in text]


def test_contradictions_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    zero = '[[zeros]]\nwhen = "sex == \'m\'"\nelse = { sex = "f" }\n'
    with pytest.raises(SchemaError, match="structural zeros"):
        run(TOTALS + zero, tmp_path)
    assert not (tmp_path / "ledger.db").exists()


def test_ids_with_a_point_and_zeros_are_ids(tmp_path: Path) -> None:
    persons = invent_persons()
    written = persons.set_column(1, "tract", pa.array([f"{text}.0" for text in persons["tract"].to_pylist()]))
    found = []
    for number, rows in enumerate((persons, written)):
        folder = tmp_path / str(number)
        folder.mkdir()
        release = run("", folder, rows, noise=ExactNoise(RehearsalEntropy(3)))
        found.append([item.counts.tolist() for item in release.measurements.items])
    assert found[0] == found[1]


@pytest.mark.parametrize(("counts", "told"), [([4000, 3000], False), (["many", "few"], True)])
def test_counts_that_count_nobody_show(counts: list[Any], told: bool, tmp_path: Path) -> None:
    text = (
        '[table]\ndataset = "land"\nfrequency = "n"\n[geography]\nlevels = ["county"]\nunits = ["A", "B"]\n'
    )
    schema = Schema.parse(text + COLUMNS[COLUMNS.index("[columns.sex]") : COLUMNS.index("[columns.age]")])
    rows = pa.table({"county": ["A", "B"], "sex": ["f", "m"], "n": counts})
    noise = ExactNoise(RehearsalEntropy(3))
    release = pp.synthesize(rows, schema=schema, ledger=tmp_path / "l.db", noise=noise, **ASKED)
    found = [text for text in release.statement["warnings"] if "cannot be told from 0" in text]
    assert bool(found) == told
    assert not told or "“n” may hold no whole numbers" in found[0]
