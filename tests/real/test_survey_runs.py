"""Whole runs on real surveys: NHANES with weights, strata and psus, and samples of schools of a known population."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.estimates_bundle import Estimates
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows

ROOT = Path(__file__).parents[2]
NHANES = ROOT.parent / "shared/data/nhanes/NHANESraw.parquet"
SCHOOLS = ROOT.parent / "shared/data/california-schools"
EXAMPLES = ROOT / "examples/survey"


@pytest.fixture(scope="module")
def nhanes(tmp_path_factory: pytest.TempPathFactory) -> Estimates:
    return nhanes_at(10, tmp_path_factory.mktemp("nhanes"))


def nhanes_at(epsilon: int, folder: Path) -> Estimates:
    if not NHANES.is_file():
        pytest.skip("shared/data/nhanes is not here")
    return estimate(
        NHANES,
        schema=EXAMPLES / "nhanes-schema.toml",
        design=EXAMPLES / "nhanes-design.toml",
        queries=EXAMPLES / "nhanes-queries.toml",
        epsilon=epsilon,
        delta="1e-9",
        ledger=folder / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(3)),
    )


@pytest.mark.slow
def test_nhanes_estimates_are_near_the_exact_ones(nhanes: Estimates) -> None:
    """Within five privacy errors each; most sampling errors within a factor of two, which few runs would miss."""
    exact = estimate_public_rows(pq.read_table(NHANES), design=nhanes.design, queries=nhanes.queries)
    truth = {(row.query, tuple(v for _, v in row.group)): row for row in exact if row.estimate is not None}
    told = [row for row in nhanes.rows if row.estimate is not None]
    assert len(told) == len(nhanes.rows) == 20
    off, errors = [], []
    for row, other in zip(told, truth.values(), strict=True):
        assert row.query == other.query
        off.append(abs(row.estimate - other.estimate) / row.privacy_error)
        errors.append(row.sampling_error / other.sampling_error)
        assert row.low <= other.estimate <= row.high
    # Quantiles are read off lines between bins: farther than noise alone takes them.
    assert max(gap for gap, row in zip(off, told, strict=True) if "quartiles" not in row.query) < 5
    assert np.mean([1 / 2 < error < 2 for error in errors]) > 0.6
    assert 2 / 3 < np.median(errors) < 3 / 2


@pytest.mark.slow
def test_nhanes_estimates_tell_no_sampling_error_too_small_where_noise_hides_it(tmp_path: Path) -> None:
    """A third of the budget: between psus there is mostly noise, and what it may hide counts as sampling error."""
    told = nhanes_at(3, tmp_path)
    exact = estimate_public_rows(pq.read_table(NHANES), design=told.design, queries=told.queries)
    known = [row for row in exact if row.estimate is not None]
    for row, other in zip(told.rows, known, strict=True):
        assert row.low <= other.estimate <= row.high
        assert row.sampling_error > other.sampling_error / 2


def test_nhanes_verifies_but_for_the_rehearsal(nhanes: Estimates, tmp_path: Path) -> None:
    nhanes.save(tmp_path / "out", report=False)
    assert [check.name for check in verify(tmp_path / "out").checks if not check.passed] == ["real noise"]


SCHOOL_SCHEMA = """
[table]
unit = "school"

[columns.stype]
kind = "categorical"
values = ["E", "H", "M"]

[columns.dnum]
kind = "categorical"
values = {districts}

[columns.api00]
kind = "integer"
min = 300
max = 1000

[columns.meals]
kind = "integer"
min = 0
max = 100
"""
SCHOOL_QUERIES = """
[[query]]
statistic = "mean"
column = "api00"

[[query]]
statistic = "proportion"
that = "meals >= 50"

[[query]]
statistic = "mean"
column = "api00"
by = ["stype"]
"""
# How R's documentation of the package survey declares them.
DESIGNS = {
    "apisrs": "[design]\nbase = 30.97\nfpc = 6194",
    "apistrat": '[design]\nbase = { E = 44.21, H = 15.1, M = 20.36 }\nstrata = "stype"\n'
    "fpc = { E = 4421, H = 755, M = 1018 }",
    "apiclus1": '[design]\nbase = 33.847\npsu = "dnum"\nfpc = 757',
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_schools_hold_the_population(name: str, tmp_path: Path) -> None:
    """These very samples and this noise do; bench/coverage.py tells how often others do."""
    if not SCHOOLS.is_dir():
        pytest.skip("shared/data/california-schools is not here")
    sample = pq.read_table(SCHOOLS / f"{name}.parquet", columns=["stype", "dnum", "api00", "meals"])
    population = pq.read_table(SCHOOLS / "apipop.parquet", columns=["stype", "api00", "meals"])
    sample = sample.set_column(1, "dnum", sample["dnum"].cast(pa.int64()))
    districts = sorted({str(number) for number in sample["dnum"].to_pylist()})
    schema = Schema.parse(SCHOOL_SCHEMA.format(districts=districts))
    found = estimate(
        sample,
        schema=schema,
        design=Design.parse(DESIGNS[name], schema=schema),
        queries=Queries.parse(SCHOOL_QUERIES, schema=schema),
        epsilon=30,
        delta="1e-6",
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(2)),
    )
    kind, api = np.array(population["stype"].to_pylist()), population["api00"].to_numpy()
    truths = [
        api.mean(),
        (population["meals"].to_numpy() >= 50).mean(),
        *(api[kind == k].mean() for k in "EHM"),
    ]
    for row, truth in zip(found.rows, truths, strict=True):
        assert row.low <= truth <= row.high, row
        assert row.privacy_error < 2 * row.sampling_error
