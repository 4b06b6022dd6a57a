"""Twenty mistakes of curators: each is seen by free counts, by counts of rules or by a look; right schemas by none.

Layers: (a) noisy counts that are paid for anyway, (b) --check-rules, (c) `schema check --data`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.evaluation.schema_fit import read_misfits
from populace.release.statement.domain_fit import find_out_of_domain
from populace.release.statement.rule_fit import find_broken_rules
from populace.schema.schema import Schema

ROWS = 2000
PEOPLE = np.random.default_rng(7)
AGE = PEOPLE.integers(0, 90, ROWS)
SEX = PEOPLE.integers(1, 3, ROWS)
HOURS = PEOPLE.integers(1, 81, ROWS)
SHARE = PEOPLE.integers(0, 101, ROWS) / 100
WORK = PEOPLE.integers(1, 4, ROWS)
SATISFACTION = PEOPLE.integers(1, 6, ROWS)


def texts(values: object) -> list[str]:
    return [str(value) for value in values]  # type: ignore[attr-defined]


def listed(name: str, *values: str, more: str = "") -> str:
    return f'[columns.{name}]\nkind = "categorical"\nvalues = {json.dumps(values)}\n{more}\n'


def whole(name: str, low: int, high: int, more: str = "") -> str:
    return f'[columns.{name}]\nkind = "integer"\nmin = {low}\nmax = {high}\n{more}\n'


JOB = ["N" if age < 15 else str(work) for age, work in zip(AGE, WORK, strict=True)]
SEXES = 'labels = { 1 = "male", 2 = "female" }'
AGES = whole("age", 0, 99, 'other = "0"')
NUMBERED = [f"h{place // 4}" for place in range(ROWS)]
SINGLE = [f"p{place}" for place in range(ROWS)]


def job(universe: str, outside: str = "N") -> str:
    return AGES + listed(
        "job", "1", "2", "3", more=f"universe = `{universe}`\noutside = `{outside}`".replace("`", '"')
    )


@dataclass(frozen=True)
class Case:
    """Rows with the right schema and a wrong one, and a word of the hint that the look must give."""

    rows: dict[str, list[object]]
    right: str
    wrong: str
    hint: str
    table: str = ""
    wrong_table: str = ""
    wrong_rows: dict[str, list[object]] | None = None


def table(**columns: object) -> dict[str, list[object]]:
    return {name: list(values) for name, values in columns.items()}  # type: ignore[call-overload]


GENDER = table(sex=texts(SEX))
RIGHT_SEX = listed("sex", "1", "2", more=SEXES)
CASES: dict[str, Case] = {
    "labels for codes": Case(
        GENDER, RIGHT_SEX, listed("sex", "male", "female"), "codes where the schema lists labels"
    ),
    "codes for labels": Case(
        table(sex=[("male", "female")[code - 1] for code in SEX]),
        listed("sex", "male", "female"),
        RIGHT_SEX,
        "labels where the schema lists codes",
    ),
    "01 for 1": Case(
        table(sex=[f"0{code}" for code in SEX]),
        listed("sex", "01", "02"),
        listed("sex", "1", "2"),
        "1.0 or 01",
    ),
    "other capitals": Case(
        table(sex=[("Male", "Female")[code - 1] for code in SEX]),
        listed("sex", "Male", "Female"),
        listed("sex", "MALE", "FEMALE"),
        "other capitals",
    ),
    "universe too narrow": Case(table(age=AGE, job=JOB), job("age >= 15"), job("age >= 25"), "too narrow"),
    "universe too wide": Case(table(age=AGE, job=JOB), job("age >= 15"), job("age >= 5"), "too wide"),
    "universe turned round": Case(table(age=AGE, job=JOB), job("age >= 15"), job("age < 15"), "turned round"),
    "universe of another column": Case(
        table(age=AGE, sex=texts(SEX), job=JOB),
        job("age >= 15") + listed("sex", "1", "2"),
        job("sex == '1'") + listed("sex", "1", "2"),
        "too narrow",
    ),
    "another code for outside": Case(
        table(age=AGE, job=JOB),
        job("age >= 15"),
        job("age >= 15", outside="NA"),
        "another code than `outside`",
    ),
    "wrong rule": Case(
        table(age=AGE, sex=texts(SEX)),
        AGES + listed("sex", "1", "2"),
        AGES + listed("sex", "1", "2") + "[[zeros]]\nwhen = \"age < 30 and sex == '2'\"\n",
        "is the rule right",
    ),
    "bins one off": Case(table(like=SATISFACTION), whole("like", 1, 5), whole("like", 0, 4), "one off"),
    "missing code of numbers": Case(
        table(hours=[-9 if place % 20 == 0 else value for place, value in enumerate(HOURS)]),
        whole("hours", 0, 80, 'missing = ["-9"]'),
        whole("hours", 0, 80),
        "missing codes that are not declared",
    ),
    "missing code of values": Case(
        table(sex=["9" if place % 20 == 0 else value for place, value in enumerate(texts(SEX))]),
        listed("sex", "1", "2", more='missing = ["9"]'),
        listed("sex", "1", "2"),
        "a missing code",
    ),
    "empty cells": Case(
        table(sex=[None if place % 20 == 0 else value for place, value in enumerate(texts(SEX))]),
        listed("sex", "1", "2", more='missing = [""]'),
        listed("sex", "1", "2"),
        'missing = [""]',
    ),
    "wrong id": Case(
        table(person=SINGLE, household=NUMBERED, sex=texts(SEX)),
        RIGHT_SEX,
        RIGHT_SEX,
        "rows_per_unit = 1 enough",
        table='[table]\nunit = "person"\nid = "person"\n',
        wrong_table='[table]\nunit = "person"\nid = "household"\n',
    ),
    "row number for an id": Case(
        table(person=SINGLE, household=NUMBERED, sex=texts(SEX)),
        RIGHT_SEX,
        RIGHT_SEX,
        "number of a row",
        table='[table]\nunit = "household"\nid = "household"\nrows_per_unit = 4\n',
        wrong_table='[table]\nunit = "household"\nid = "person"\nrows_per_unit = 4\n',
    ),
    "swapped columns": Case(
        table(sex=[("m", "f")[code - 1] for code in SEX], work=texts(WORK)),
        listed("sex", "m", "f") + listed("work", "1", "2", "3"),
        listed("work", "m", "f") + listed("sex", "1", "2", "3"),
        "swapped",
    ),
    "percent for share": Case(
        table(share=SHARE * 100),
        '[columns.share]\nkind = "numeric"\nedges = [0, 25, 50, 75, 100]\n',
        '[columns.share]\nkind = "numeric"\nedges = [0, 0.25, 0.5, 0.75, 1]\n',
        "percentages",
    ),
    "stale codebook": Case(
        table(work=texts(WORK)), listed("work", "1", "2", "3"), listed("work", "1", "2"), "newer codebook"
    ),
    "format of dates": Case(
        table(born=[f"{1 + day % 28:02d}.{1 + day % 12:02d}.{1950 + day % 50}" for day in range(ROWS)]),
        '[columns.born]\nkind = "date"\nmin = "1900-01-01"\nmax = "2029-12-31"\nwidth = "year"\nformat = "%d.%m.%Y"\n',
        '[columns.born]\nkind = "date"\nmin = "1900-01-01"\nmax = "2029-12-31"\nwidth = "year"\n',
        "declare a format",
    ),
    "numbers with units": Case(
        table(hours=texts(HOURS)),
        whole("hours", 0, 80),
        whole("hours", 0, 80),
        "with units",
        wrong_rows=table(hours=[f"{value} h" for value in HOURS]),
    ),
    "range too short": Case(table(age=AGE), whole("age", 0, 99), whole("age", 0, 65), "too narrow"),
}


@functools.cache
def find_by_layer(name: str, folder: Path, *, right: bool) -> dict[str, list[str]]:
    case = CASES[name]
    head, columns = (case.table, case.right) if right else (case.wrong_table or case.table, case.wrong)
    schema = Schema.parse(head + columns)
    rows = pa.table(case.rows if right or case.wrong_rows is None else case.wrong_rows)
    ledger = folder / f"{right}.db"
    measured = pp.measure(
        rows,
        schema=schema,
        epsilon=20,
        delta="1e-6",
        method="independent",
        ledger=ledger,
        dataset="people",
        check_rules=bool(schema.rules.rules),
    )
    return {
        "a": [each.text for each in find_out_of_domain(measured)],
        "b": [each.text for each in find_broken_rules(measured)],
        "c": [str(each) for each in read_misfits(rows, schema=schema, ledger=ledger, dataset="people")],
    }


def test_there_are_twenty() -> None:
    assert len(CASES) >= 20


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_mistake_is_seen_and_its_right_twin_is_not(name: str, tmp_path: Path) -> None:
    found = find_by_layer(name, tmp_path, right=False)
    assert any(found.values())
    assert any(CASES[name].hint in each for each in found["c"]), found
    assert not any(find_by_layer(name, tmp_path, right=True).values()), "a right schema raises no alarm"


def test_wrong_rules_are_seen_by_the_paid_layer(tmp_path: Path) -> None:
    """What leaves no trace in the release without it: each broken rule is counted, and said in the statement."""
    for name in ("universe too narrow", "universe too wide", "universe turned round", "wrong rule"):
        folder = tmp_path / name
        folder.mkdir()
        assert find_by_layer(name, folder, right=False)["b"]
