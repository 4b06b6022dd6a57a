"""Estimates of public rows are those of R's survey package, to six digits, standard errors included."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ReplicateDesign
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows

pytestmark = pytest.mark.slow

SCHOOLS = """
[columns.stype]
kind = "categorical"
values = ["E", "H", "M"]
[columns."sch.wide"]
kind = "categorical"
values = ["No", "Yes"]
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
[columns."api.stu"]
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
ASKED = """
[[query]]
name = "mean"
statistic = "mean"
column = "api00"
[[query]]
name = "total"
statistic = "total"
column = "enroll"
[[query]]
name = "count"
statistic = "count"
[[query]]
name = "ratio"
statistic = "ratio"
column = "api.stu"
y = "enroll"
[[query]]
name = "that"
statistic = "proportion"
that = "api00 >= 700"
[[query]]
name = "values"
statistic = "proportion"
column = "stype"
[[query]]
name = "variance"
statistic = "variance"
column = "api00"
[[query]]
name = "correlation"
statistic = "correlation"
column = "api00"
y = "meals"
[[query]]
name = "domain"
statistic = "mean"
column = "api00"
where = "`sch.wide` == 'Yes'"
[[query]]
name = "domaintotal"
statistic = "total"
column = "enroll"
where = "`sch.wide` == 'Yes' and meals >= 20"
[[query]]
name = "domaincount"
statistic = "count"
where = "`sch.wide` == 'Yes'"
[[query]]
name = "domainvariance"
statistic = "variance"
column = "api00"
where = "`sch.wide` == 'Yes'"
[[query]]
name = "by"
statistic = "mean"
column = "api00"
by = ["stype"]
[[query]]
name = "quantile"
statistic = "quantile"
column = "api00"
p = [0.25, 0.5, 0.75]
"""
PAIRS = {"E": list(range(10)), "H": list(range(5)), "M": list(range(5))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables and the numbers of R."""
    if shutil.which("Rscript") is None:
        pytest.skip("there is no R here")
    asked = ["Rscript", "-e", 'quit(status = !requireNamespace("survey", quietly = TRUE))']
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("R has no package survey")
    made = tmp_path_factory.mktemp("r")
    subprocess.run(
        ["Rscript", str(Path(__file__).with_name("survey.R")), str(made)], check=True, capture_output=True
    )
    return made


@pytest.fixture(scope="module")
def numbers(folder: Path) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in (folder / "numbers.txt").read_text("utf-8").splitlines():
        key, _, value, error = line.split()
        found[key].append((float(value), float(error)))
    return found


def listed(name: str, values: object) -> str:
    texts = ", ".join(f'"{value}"' for value in sorted(set(values)))
    return f'[columns.{name}]\nkind = "categorical"\nvalues = [{texts}]\n'


def design_of(key: str, table: pd.DataFrame, numbers: dict[str, list[tuple[float, float]]]) -> Design:
    """The same design as in survey.R."""
    schema, psus = SCHOOLS, {stratum: list(map(str, each)) for stratum, each in PAIRS.items()}
    given: dict[str, object] = {"weights": "pw"}
    if key in ("strat", "stratnofpc"):
        given |= {"strata": "stype", "fpc": {"E": 4421, "H": 755, "M": 1018} if key == "strat" else None}
    elif key == "srs":
        given |= {"fpc": 6194}
    elif key.startswith("clus"):
        schema += listed("dnum", table["dnum"])
        given |= {"psu": "dnum", "fpc": None if key == "clus1nofpc" else 757}
        if key == "clus2":
            given["fpc_within"] = dict(zip(table["dnum"].map(str), table["fpc2"].map(int), strict=True))
    elif f"{key}.scales" in numbers:
        scales = numbers[f"{key}.scales"]
        names = [f"rep{number + 1}" for number in range(len(scales))]
        for name in names:
            schema += f'[columns.{name}]\nkind = "numeric"\nmin = -100\nmax = 2000\nwidth = 100\n'
        kind = {"jk1": "JK1", "jkn": "JKn", "brr": "BRR", "fay": "Fay", "bootstrap": "bootstrap"}[key]
        # R holds the finite population of the clusters in the scale of their jackknife.
        own = kind in ("BRR", "Fay")
        given["replicates"] = ReplicateDesign(
            columns=tuple(names),
            type=kind,
            scale=None if own else scales[0][0],
            rscales=() if own else tuple(rscale for _, rscale in scales),
            rho=0.3 if kind == "Fay" else None,
        )
    else:
        schema += '[columns.pair]\nkind = "integer"\nmin = 0\nmax = 9\n'
        single = {} if key == "nested" else {"H": ["0"]}
        given |= {"strata": "stype", "psu": "pair", "psus": psus | single}
        given |= {"lonely": "fail" if key == "nested" else key}
    return Design(schema=Schema.parse(schema), **given)


TABLES = {
    "strat": "apistrat",
    "stratnofpc": "apistrat",
    "nested": "apistrat",
    "srs": "apisrs",
    "clus1": "apiclus1",
    "clus1nofpc": "apiclus1",
    "clus2": "apiclus2",
    **dict.fromkeys(("remove", "certainty", "adjust", "average"), "lonely"),
    **{key: key for key in ("jk1", "jkn", "brr", "fay", "bootstrap")},
}


@pytest.mark.parametrize("key", TABLES)
def test_schools_are_estimated_as_r_does(
    key: str, folder: Path, numbers: dict[str, list[tuple[float, float]]]
) -> None:
    table = pd.read_csv(folder / f"{TABLES[key]}.csv")
    design = design_of(key, table, numbers)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in estimate_public_rows(
        table, design=design, queries=Queries.parse(ASKED, schema=design.schema)
    ):
        error = math.nan if each.sampling_error is None else each.sampling_error
        found[each.query].append((each.estimate, error))
    for query, told in found.items():
        expected = numbers[f"{key}.{query}"]
        assert len(told) == len(expected)
        for ours, theirs in zip(told, expected, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9, nan_ok=True), f"{key} {query}"


def test_nhanes_is_estimated_as_r_does(folder: Path, numbers: dict[str, list[tuple[float, float]]]) -> None:
    table = pd.read_csv(folder / "nhanes.csv")
    strata = table.groupby("SDMVSTRA")["SDMVPSU"].unique()
    schema = Schema.parse(
        listed("SDMVSTRA", table["SDMVSTRA"])
        + listed("SDMVPSU", table["SDMVPSU"])
        + listed("race", table["race"])
        + listed("RIAGENDR", table["RIAGENDR"])
        + '[columns.HI_CHOL]\nkind = "integer"\nmin = 0\nmax = 1\n'
        + '[columns.WTMEC2YR]\nkind = "numeric"\nmin = 0\nmax = 500_000\nwidth = 10_000\n'
    )
    design = Design(
        schema=schema,
        weights="WTMEC2YR",
        strata="SDMVSTRA",
        psu="SDMVPSU",
        psus={str(stratum): list(map(str, psus)) for stratum, psus in strata.items()},
    )
    queries = Queries.parse(
        """
        [[query]]
        name = "mean"
        statistic = "mean"
        column = "HI_CHOL"
        [[query]]
        name = "by"
        statistic = "mean"
        column = "HI_CHOL"
        by = ["RIAGENDR", "race"]
        [[query]]
        name = "count"
        statistic = "count"
        """,
        schema=schema,
    )
    found = estimate_public_rows(table, design=design, queries=queries)
    expected = [pair for query in ("mean", "by", "count") for pair in numbers[f"nhanes.{query}"]]
    assert [each.estimate for each in found] == pytest.approx([value for value, _ in expected], rel=1e-6)
    assert [each.sampling_error for each in found] == pytest.approx([e for _, e in expected], rel=1e-6)
    assert [design.degrees] == [int(value) for value, _ in numbers["degf"][2:]]
