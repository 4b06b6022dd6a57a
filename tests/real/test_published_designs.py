"""The estimates that the documentation of R's survey package prints, and those of NHANES, from public rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries, Query
from populace.survey.variance.public_estimates import estimate_public_rows

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public files are not beside the project")

SCHOOLS = """
[columns.stype]
kind = "categorical"
values = ["E", "H", "M"]
[columns.api00]
kind = "integer"
min = 200
max = 1000
[columns.meals]
kind = "integer"
min = 0
max = 100
[columns.enroll]
kind = "integer"
min = 0
max = 10_000
width = 100
[columns.pw]
kind = "numeric"
min = 0
max = 1000
width = 10
"""


def listed(name: str, values: object) -> str:
    texts = ", ".join(f'"{value}"' for value in sorted(set(values)))
    return f'[columns.{name}]\nkind = "categorical"\nvalues = [{texts}]\n'


def estimated(table: object, design: Design, *queries: Query) -> list[tuple[float, float]]:
    found = estimate_public_rows(table, design=design, queries=Queries(schema=design.schema, queries=queries))
    return [(each.estimate, each.sampling_error) for each in found]


MEAN, TOTAL = Query(statistic="mean", column="api00"), Query(statistic="total", column="enroll")


def test_a_stratified_sample() -> None:
    table = pq.read_table(DATA / "california-schools" / "apistrat.parquet")
    design = Design(
        schema=Schema.parse(SCHOOLS), weights="pw", strata="stype", fpc={"E": 4421, "H": 755, "M": 1018}
    )
    variance = Query(statistic="variance", column="api00")
    by = Query(statistic="mean", column="api00", by=("stype",))
    found = estimated(table, design, MEAN, TOTAL, variance, by)
    expected = [
        (662.287363159, 9.40894080278),
        (3687177.53244, 114641.716101),
        (15190.5862058, 1255.73997868),
    ]
    expected += [(674.43, 12.3824797939), (625.82, 14.9371291854), (636.6, 16.2147073082)]
    assert found == [pytest.approx(pair, rel=1e-6) for pair in expected]


def test_a_sample_of_clusters() -> None:
    table = pq.read_table(DATA / "california-schools" / "apiclus1.parquet")
    schema = Schema.parse(SCHOOLS + listed("dnum", table["dnum"].to_pylist()))
    design = Design(schema=schema, weights="pw", psu="dnum", fpc=757)
    quantile = Query(statistic="quantile", column="api00", p=(0.25, 0.5, 0.75))
    correlation = Query(statistic="correlation", column="api00", y="meals")
    found = estimated(table, design, MEAN, TOTAL, correlation, quantile)
    expected = [(644.169398907, 23.5422406938), (3404940.13453, 932235.027041)]
    expected += [(-0.844679984081, 0.0333168384152)]
    expected += [(552, 31.4716612054), (652, 35.6678826995), (719, 18.8829967232)]
    assert found == [pytest.approx(pair, rel=1e-6) for pair in expected]
    assert design.degrees == 14


def test_a_sample_in_two_stages_with_missing_values() -> None:
    table = pq.read_table(DATA / "california-schools" / "apiclus2.parquet")
    schema = Schema.parse(SCHOOLS + listed("dnum", table["dnum"].to_pylist()))
    within = dict(zip(map(str, table["dnum"].to_pylist()), table["fpc2"].to_pylist(), strict=True))
    design = Design(schema=schema, weights="pw", psu="dnum", fpc=757, fpc_within=within)
    found = estimated(table, design, MEAN, TOTAL)
    expected = [(670.811808118, 30.0990273768), (2639272.93, 799637.773648)]
    assert found == [pytest.approx(pair, rel=1e-6) for pair in expected]


def test_nhanes_with_its_weights_strata_and_missing_values() -> None:
    names = ["WTMEC2YR", "SDMVSTRA", "SDMVPSU", "BMI", "Age", "Gender"]
    table = pq.read_table(DATA / "nhanes" / "NHANESraw.parquet", columns=names)
    places = set(zip(table["SDMVSTRA"].to_pylist(), table["SDMVPSU"].to_pylist(), strict=True))
    schema = Schema.parse(
        listed("SDMVSTRA", table["SDMVSTRA"].to_pylist())
        + listed("SDMVPSU", [1, 2, 3])
        + listed("Gender", ["male", "female"])
        + '[columns.Age]\nkind = "integer"\nmin = 0\nmax = 80\n'
        + '[columns.BMI]\nkind = "numeric"\nmin = 10\nmax = 100\nwidth = 1\n'
        + '[columns.WTMEC2YR]\nkind = "numeric"\nmin = 0\nmax = 250_000\nwidth = 1000\n'
    )
    psus = {str(stratum): [str(psu) for s, psu in sorted(places) if s == stratum] for stratum, _ in places}
    design = Design(schema=schema, weights="WTMEC2YR", strata="SDMVSTRA", psu="SDMVPSU", psus=psus)
    adults = {"where": "Age >= 18"}
    found = estimated(
        table,
        design,
        Query(statistic="mean", column="BMI", **adults),
        Query(statistic="mean", column="BMI", by=("Gender",), **adults),
        Query(statistic="count", **adults),
        Query(statistic="proportion", that="BMI >= 30", **adults),
        Query(statistic="quantile", column="BMI", p=(0.5,), **adults),
    )
    expected = [(28.6368427125, 0.123982327005), (28.76332994, 0.1384070238), (28.50166465, 0.1521993088)]
    expected += [(458245891.658, 18360964.1785), (0.349349666142, 0.00830553381116), (27.5, 0.1474552688)]
    assert found == [pytest.approx(pair, rel=1e-6) for pair in expected]
    assert design.degrees == 33
