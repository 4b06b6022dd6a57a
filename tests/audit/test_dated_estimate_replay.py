"""Surveys with dates: neighbours with frozen barrier outputs give the same estimates, whatever bytes a cell holds.

The columns of dates and times are asked about, or only read: both must go one way for every cell.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import dump_json
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from tests.audit.arrow_shapes import coded, unchecked
from tests.audit.replay import RecordingNoise, ReplayingNoise, check_sensitivities

SCHEMA = Schema.parse("""
[table]
dataset = "visits"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.born]
kind = "date"
min = "1990-01-01"
max = "1999-12-31"
width = "year"

[columns.came]
kind = "datetime"
min = "2020-01-01 00:00:00"
max = "2020-12-31 23:59:59"
width = "month"
missing = ["never"]

[columns.woke]
kind = "time"
min = "00:00:00"
max = "23:59:59"
width = "hour"
format = "%H:%M"
""")
DESIGN = Design.parse('[design]\nbase = 10\nstrata = "sex"', schema=SCHEMA)
COUNT = '[[query]]\nname = "persons"\nstatistic = "count"\nby = ["sex"]\n'
ASKED = COUNT + '[[query]]\nname = "born"\nstatistic = "count"\nwhere = "born >= \'1995-01-01\'"\n'
QUERIES = {"read": COUNT, "asked": ASKED}
NAMES = ("sex", "born", "came", "woke")
ROWS = [
    (b"f", b"1991-03-04", b"2020-02-03 04:05:06", b"07:30"),
    (b"m", b"1997-12-31", b"never", b"23:59"),
    (b"f", b"1999-01-01", b"2020-12-31T23:59:59", b""),
] * 20
HOSTILE = {
    "no text": (b"f", b"\xff", b"\xed\xa0\x80", b"\xc3"),
    "odd dates": (b"m", b"1997-02-30", b"9999-99-99 99:99:99", b"24:61"),
    "nought": (b"\x00", b"\x00", b"\x00", b"\x00"),
    "digits": (b"f", "١٩٩٧-٠١-٠١".encode(), b"1" * 5000, b"1e400"),
}


def as_csv(rows: list[Any], path: Path) -> Path:
    path.write_bytes(
        b"\n".join(b",".join(each) for each in [[name.encode() for name in NAMES], *rows]) + b"\n"
    )
    return path


def as_table(rows: list[Any], *, make: Callable[..., pa.Array]) -> pa.Table:
    return pa.table({name: make([each[place] for each in rows]) for place, name in enumerate(NAMES)})


def as_parquet(rows: list[Any], path: Path) -> Path:
    pq.write_table(as_table(rows, make=unchecked(pa.string())), path)
    return path


FORMS: dict[str, Callable[[list[Any], Path], Any]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "dictionaries": lambda rows, _: as_table(
        rows, make=coded(unchecked(pa.large_string()), index=pa.int32())
    ),
    "views": lambda rows, _: as_table(rows, make=unchecked(pa.string_view())),
}


@pytest.fixture(autouse=True)
def one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours are compared within one run, under one random name."""
    name = secrets.token_hex(16)
    monkeypatch.setattr("populace.privacy.ledger.ledger.secrets.token_hex", lambda size: name)


def run(data: Any, noise: RecordingNoise | ReplayingNoise, *, asked: str, ledger: Path) -> Estimates:
    return estimate(
        data,
        schema=SCHEMA,
        design=DESIGN,
        queries=Queries.parse(QUERIES[asked], schema=SCHEMA),
        epsilon="20",
        delta="0",
        ledger=ledger,
        noise=noise,
    )


SOME = [
    ("csv", "no text"),
    ("parquet", "no text"),
    ("dictionaries", "odd dates"),
    ("views", "nought"),
    ("csv", "digits"),
]
CASES = [
    pytest.param(form, row, asked, marks=() if (form, row) in SOME and asked == "asked" else pytest.mark.slow)
    for form in FORMS
    for row in HOSTILE
    for asked in QUERIES
]


@pytest.mark.parametrize(("form", "row", "asked"), CASES)
def test_surveys_with_dates_agree_to_the_byte(form: str, row: str, asked: str, tmp_path: Path) -> None:
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    first = run(FORMS[form](ROWS, tmp_path / "people"), recorder, asked=asked, ledger=tmp_path / "first.db")
    player = ReplayingNoise(recorder.transcript.entries)
    beside = FORMS[form]([*ROWS, HOSTILE[row]], tmp_path / "people")
    second = run(beside, player, asked=asked, ledger=tmp_path / "second.db")
    player.finish()
    check_sensitivities(recorder.transcript.entries, player.transcript.entries, record=first.record)
    assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record
    # The name of the run and the hash of its ledger are random; all else is written down alike.
    same = replace(second, record=first.record)
    for written in (
        Estimates.to_csv,
        lambda each: dump_json(each.to_json()),
        lambda each: dump_json(each.statement),
    ):
        assert written(first) == written(same)
    assert first.transcript == second.transcript
