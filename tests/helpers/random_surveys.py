"""Random surveys: a schema, a design, queries and rows drawn from one seed, and a whole run of estimates on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from populace.api.estimate import estimate
from populace.core.errors import SchemaError, UsageError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.estimates_bundle import Estimates
from populace.release.report.render import embed_json, to_plain
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.estimate_result import ERROR_COLUMNS
from populace.survey.queries.queries import Queries

SIZES = (0, 1, 2, 3, 10, 50)
STRATA = ("north", "south", "west")


@dataclass(frozen=True)
class Survey:
    """The files of a survey, its rows, and what may be spent on it."""

    schema: str
    design: str
    queries: str
    rows: dict[str, list[Any]]
    epsilon: str
    delta: str


def draw_survey(seed: int) -> Survey:
    """Return the survey of a seed."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice(SIZES))
    strata, psus = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    most = float(rng.choice([1, 20, 1000, 1e9]))
    kind = str(rng.choice(["rows", "strata", "base", "weights", "psus", "replicates", "impute", "totals"]))
    richest = float(rng.choice([1000, 1000, 1000, 1e-6, 1e100]))
    unit = str(rng.choice(["", "", 'neighbours = "replace-one"', 'id = "person"\nrows_per_unit = 3']))
    design = _design(rng, kind, strata=strata, psus=psus)
    schema = _schema(strata, psus, most=most, richest=richest, unit=unit)
    rows = {
        "person": rng.integers(0, max(1, size // 2), size).astype(str).tolist(),
        "stratum": rng.choice(STRATA[:strata], size).tolist(),
        "psu": rng.integers(1, psus + 1, size).tolist(),
        "weight": rng.choice([0.0, 1.0, most, most / 3, -1.0], size, p=[0.1, 0.3, 0.3, 0.2, 0.1]).tolist(),
        "rep1": (most * rng.random(size)).tolist(),
        "rep2": (most * rng.random(size)).tolist(),
        "rep3": (most * rng.random(size)).tolist(),
        # One value of three is never there: its group is empty.
        "area": rng.choice(["a", "b"], size).tolist(),
        "age": rng.integers(0, 100, size).tolist(),
        "income": rng.choice(
            ["0", f"{richest:g}", f"{richest / 2:g}", f"{richest / 99:g}", "refused", "x"], size
        ).tolist(),
        "rent": rng.choice(["0", "-50", "50", "7"], size).tolist(),
    }
    epsilon = str(rng.choice(["0.001", "0.05", "1", "8", "100", "10000", "1000000"]))
    return Survey(
        schema=schema,
        design=design,
        queries=_queries(rng, kind, richest=richest),
        rows=rows,
        epsilon=epsilon,
        delta=str(rng.choice(["0", "1e-6"])),
    )


def run_survey(survey: Survey, *, folder: Path, seed: int, report: bool = True) -> Estimates | None:
    """Estimate, save, verify and load; None where the survey is refused before anything is reserved."""
    schema = Schema.parse(survey.schema)
    ledger = folder / f"{seed}.db"
    try:
        found = estimate(
            pa.table({name: pa.array(held, _type(name)) for name, held in survey.rows.items()}),
            schema=schema,
            design=Design.parse(survey.design, schema=schema),
            queries=Queries.parse(survey.queries, schema=schema),
            epsilon=survey.epsilon,
            delta=survey.delta,
            ledger=ledger,
            noise=ExactNoise(RehearsalEntropy(seed)),
        )
    except (SchemaError, UsageError):
        assert not ledger.exists(), "refused after money was set aside"
        return None
    for row in found.rows:
        check_numbers(row)
    # What a report is made of; the page itself takes a second.
    embed_json(to_plain(found.document()))
    out = folder / str(seed)
    found.save(out, report=report)
    failed = [check for check in verify(out).checks if not check.passed and check.name != "real noise"]
    assert not failed, failed
    assert Estimates.load(out).rows == found.rows
    return found


def check_numbers(row: Any) -> None:
    """Every number is finite or None, errors are not below 0, and the estimate lies in its interval."""
    told = row.to_json()
    for name in ("estimate", *ERROR_COLUMNS, "low", "high", "degrees"):
        assert told[name] is None or math.isfinite(told[name]), (name, row)
    assert all(told[name] is None or told[name] >= 0 for name in ERROR_COLUMNS), row
    if row.estimate is None:
        assert row.note, row
        assert row.low is row.high is None, row
    else:
        assert row.low <= row.estimate <= row.high, row


def _type(name: str) -> pa.DataType:
    kinds = {"psu": pa.int64(), "age": pa.int64(), "weight": pa.float64()}
    return kinds.get(name, pa.float64() if name.startswith("rep") else pa.string())


def _schema(strata: int, psus: int, *, most: float, richest: float, unit: str) -> str:
    reps = "".join(
        f'[columns.rep{n}]\nkind = "numeric"\nmin = 0\nmax = {most:g}\nwidth = {most:g}\n' for n in (1, 2, 3)
    )
    return f"""
[table]
dataset = "random"
unit = "person"
max_rows = 1000
{unit}

[columns.stratum]
kind = "categorical"
values = {list(STRATA[:strata])}

[columns.psu]
kind = "integer"
min = 1
max = {psus}

[columns.weight]
kind = "numeric"
min = 0
max = {most:g}
width = {most:g}

{reps}
[columns.area]
kind = "categorical"
values = ["a", "b", "c"]

[columns.age]
kind = "integer"
edges = [0, 18, 65, 100]

[columns.income]
kind = "numeric"
min = 0
max = {richest:g}
width = {richest / 4:g}
missing = ["refused"]

[columns.rent]
kind = "numeric"
min = -50
max = 50
width = 25
"""


def _design(rng: np.random.Generator, kind: str, *, strata: int, psus: int) -> str:
    lines = ["[design]"]
    if kind in ("weights", "psus", "replicates") or (kind == "totals" and rng.random() < 0.4):
        lines.append('weights = "weight"')
    if kind in ("strata", "base") or (kind in ("psus", "weights", "totals") and rng.random() < 0.6):
        lines.append('strata = "stratum"')
    if kind == "base":
        held = ", ".join(f"{name} = {int(rng.integers(1, 500))}" for name in STRATA[:strata])
        lines.append(f"base = {{ {held} }}")
    if kind == "psus":
        lines.append('psu = "psu"')
        if rng.random() < 0.3:
            lines.append("max_design_effect = 4")
    if kind != "replicates" and kind != "totals" and rng.random() < 0.5:
        lines.append(f"fpc = {rng.choice(['0.5', '1', '4', '60', '5000'])}")
    if kind == "replicates":
        type_ = str(rng.choice(["JK1", "BRR", "bootstrap", "ACS"]))
        lines.append(f'replicates = {{ columns = ["rep1", "rep2", "rep3"], type = "{type_}" }}')
    if kind == "impute":
        how = str(rng.choice(["impute", "model", "ignore"]))
        lines.append(f'[missing.income]\nhow = "{how}"')
        if how != "ignore":
            lines.append('match = ["area", "age"]')
        if how == "impute" and rng.random() < 0.3:
            lines.append('k = 3\ntake = "mean"')
    if kind == "totals":
        if rng.random() < 0.3:
            lines.append("shrink = 0.5")
        bins = (
            '\n[[totals.bins]]\n[[totals.bins]]\njoin = { area = [["a", "b", "c"]] }'
            if rng.random() < 0.4
            else ""
        )
        counts = rng.choice(["{ a = 900, b = 600, c = 0 }", "{ a = 500, b = 500, c = 500 }"])
        lines.append(f'[[totals]]\nby = ["area"]\ncounts = {counts}{bins}')
        if rng.random() < 0.5:
            lines.append('[[totals]]\nby = ["age"]\ncounts = { "0" = 300, "20" = 1000, "70" = 200 }')
    return "\n".join(lines) + "\n"


def _queries(rng: np.random.Generator, kind: str, *, richest: float) -> str:
    income = kind == "impute"
    choices = [
        'statistic = "mean"\ncolumn = "income"',
        f'statistic = "proportion"\nthat = "income >= {richest / 2:g}"',
    ]
    if not income:
        choices += [
            'statistic = "mean"\ncolumn = "rent"',
            'statistic = "total"\ncolumn = "rent"',
            f'statistic = "total"\ncolumn = "income"\nhigh = {richest / 2:g}',
            'statistic = "ratio"\ncolumn = "income"\ny = "rent"',
            'statistic = "variance"\ncolumn = "income"',
            'statistic = "correlation"\ncolumn = "income"\ny = "rent"',
            'statistic = "quantile"\ncolumn = "income"\np = [0.1, 0.5]',
            'statistic = "proportion"\ncolumn = "area"',
            'statistic = "frequency"',
        ]
    count = ['statistic = "count"']
    choices = count if kind == "totals" else choices if income else choices + count
    told = []
    for number in range(int(rng.integers(1, 4))):
        lines = [f'[[query]]\nname = "q{number}"', str(rng.choice(choices))]
        if rng.random() < 0.4 and 'column = "area"' not in lines[1]:
            lines.append('by = ["area"]')
        where = rng.choice(["", "", "age < 18", "age >= 65 and area != 'a'", "rent < 0"])
        if where:
            lines.append(f'where = "{where}"')
        told.append("\n".join(lines))
    return "\n\n".join(told) + "\n"
