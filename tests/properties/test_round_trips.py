"""For random schemas, tables and wishes: a whole run is refused for nothing, or its release is sound to the last cell.

`POPULACE_ROUND_TRIPS` says how many are tried; `try_round_trips.py` tells the failures of thousands apart.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from populace.schema.columns.column import CategoricalColumn
from populace.schema.columns.numeric_columns import IntegerColumn
from populace.schema.schema import Schema
from tests.helpers.sampled_cases import sample_cases
from tests.properties.example_counts import TIMES
from tests.properties.round_trips import Job, jobs, round_trip

PLAIN = Job(
    schema=Schema(columns={"x": IntegerColumn(name="x", min=0, max=3)}),
    rows=0,
    seed=7,
    hostile=1.0,
    method="auto",
    epsilon="1",
    delta="1e-9",
    data="csv",
    wishes=(),
    where=None,
    public=False,
    stages=True,
)
RUNS = int(os.environ.get("POPULACE_ROUND_TRIPS", "6" if TIMES == 1 else "100"))


@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck))
@given(jobs(most_rows=300))
def test_a_random_run_verifies_loads_and_encodes_to_what_it_was(job: Job) -> None:
    with tempfile.TemporaryDirectory() as home:
        round_trip(job, Path(home))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("rows", "form"), sample_cases(product([0, 1, 50], ["csv", "parquet"]), to=3))
def test_tables_of_one_column_and_of_no_rows_make_the_round_trip(
    rows: int, form: str, tmp_path: Path
) -> None:
    text = Schema(columns={"x": CategoricalColumn(name="x", values=("a", "NA"))})
    for number, schema in enumerate((PLAIN.schema, text)):
        (home := tmp_path / str(number)).mkdir()
        assert round_trip(replace(PLAIN, schema=schema, rows=rows, data=form), home) == "released"
