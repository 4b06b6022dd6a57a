"""Neighbours with frozen barrier outputs give the same estimates, and no row moves a sum further than was declared."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from populace.api.estimate import estimate
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.estimates_bundle import Estimates
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from tests.audit.replay import LeakError, NoisyAnswer, RecordingNoise, ReplayingNoise, check_sensitivities
from tests.helpers import small_survey

SCHEMA = Schema.parse(small_survey.SCHEMA)
MEAN = '[[query]]\nname = "income"\nstatistic = "mean"\ncolumn = "income"\nby = ["sex"]'
MEDIAN = '\n[[query]]\nname = "median"\nstatistic = "quantile"\ncolumn = "income"\np = [0.5]\n'
# So many queries that noise is Gaussian.
MANY = MEAN + MEDIAN + "".join(MEAN.replace('"income"', f'"q{each}"', 1) + "\n" for each in range(30))
COUNT = '[[query]]\nname = "old"\nstatistic = "count"\nwhere = "age >= 65"\nby = ["sex"]'
DONORS = small_survey.FILLED.replace("model", "impute")
RICH = '[[query]]\nname = "rich"\nstatistic = "frequency"\nwhere = "income >= 500"\nby = ["sex"]'
RUNS = {
    "psus": (small_survey.DESIGN, small_survey.QUERIES),
    "rows of strata": (
        '[design]\nweights = "weight"\nstrata = "stratum"\nfpc = 0.1',
        MEAN + '\n[[query]]\nstatistic = "correlation"\ncolumn = "income"\ny = "age"',
    ),
    "base weights": ('[design]\nbase = { a = 10, b = 3 }\nstrata = "stratum"', small_survey.QUERIES),
    "filled after the barrier": (small_survey.FILLED, MEAN),
    "filled inside the barrier": (small_survey.FILLED.replace("model", "impute"), MEAN),
    "totals": (small_survey.TOTALS, COUNT),
    "clusters, filled by weights": (small_survey.DESIGN + small_survey.FILLED, MEAN + MEDIAN),
    "clusters, totals": (small_survey.DESIGN + small_survey.TOTALS, MEAN + MEDIAN),
    "clusters, filled by weights, with δ": (small_survey.DESIGN + small_survey.FILLED, MANY),
    "clusters, filled by donors": (small_survey.DESIGN + DONORS, MEAN + MEDIAN),
    "donors decide who counts": (DONORS + "max_uses = 3\n", RICH),
}
DELTAS = {"clusters, filled by weights, with δ": "1e-6"}
# The heaviest, richest and oldest there can be; one beyond all ranges; one that says nothing.
LOUD = {"stratum": "a", "psu": 1, "weight": 50.0, "sex": "f", "age": 99, "income": "1000"}
WILD = {"stratum": "b", "psu": 3, "weight": 1e308, "sex": "m", "age": -4, "income": "-1e308"}
MUTE = {"stratum": "", "psu": 9, "weight": -1.0, "sex": "x", "age": 3, "income": "refused"}


@pytest.fixture(autouse=True)
def one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours are compared within one run, under one random name: it decides which donors are taken."""
    name = secrets.token_hex(16)
    monkeypatch.setattr("populace.privacy.ledger.ledger.secrets.token_hex", lambda size: name)


def run(table: pa.Table, noise: RecordingNoise | ReplayingNoise, *, name: str, folder: Path) -> Estimates:
    design, queries = RUNS[name]
    return estimate(
        table,
        schema=SCHEMA,
        design=Design.parse(design, schema=SCHEMA),
        queries=Queries.parse(queries, schema=SCHEMA),
        epsilon="6",
        delta=DELTAS.get(name, "0"),
        ledger=folder / f"{id(noise)}.db",
        noise=noise,
    )


def twins(
    rows: pa.Table, other: pa.Table, *, name: str, folder: Path
) -> tuple[Estimates, Estimates, list, list]:
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    first = run(rows, recorder, name=name, folder=folder)
    player = ReplayingNoise(recorder.transcript.entries)
    second = run(other, player, name=name, folder=folder)
    player.finish()
    return first, second, recorder.transcript.entries, player.transcript.entries


def added(row: dict[str, object], *, count: int) -> tuple[pa.Table, pa.Table]:
    rows = small_survey.rows(count)
    return rows, pa.concat_tables([rows, pa.Table.from_pylist([row], schema=rows.schema)])


ROWS = {"loud": LOUD, "wild": WILD, "mute": MUTE}
SOME = [*((name, "loud") for name in RUNS), ("psus", "wild"), ("psus", "mute"), ("totals", "wild")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param(name, row, marks=() if (name, row) in SOME else pytest.mark.slow)
        for name in RUNS
        for row in ROWS
    ],
)
def test_neighbours_agree_under_frozen_outputs(name: str, row: str, tmp_path: Path) -> None:
    small, large = added(ROWS[row], count=40)
    first, second, transcript, other = twins(small, large, name=name, folder=tmp_path)
    check_sensitivities(transcript, other, record=first.record)
    assert first.rows == second.rows
    assert first.transcript == second.transcript
    assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record


def test_an_empty_table_and_one_row_agree_too(tmp_path: Path) -> None:
    small, large = added(LOUD, count=0)
    first, second, transcript, other = twins(small, large, name="psus", folder=tmp_path)
    check_sensitivities(transcript, other, record=first.record)
    assert first.rows == second.rows


def test_two_rows_are_seen_to_move_further(tmp_path: Path) -> None:
    """The same check fails where a unit moves more than one row can."""
    rows = small_survey.rows(40)
    more = pa.concat_tables([rows, pa.Table.from_pylist([LOUD, LOUD], schema=rows.schema)])
    first, _, transcript, other = twins(rows, more, name="psus", folder=tmp_path)
    with pytest.raises(LeakError, match="further"):
        check_sensitivities(transcript, other, record=first.record)


def test_a_question_that_depends_on_rows_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leak planted into the street: the number of queries follows the number of rows."""
    rows, large = added(LOUD, count=3)
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    run(rows, recorder, name="psus", folder=tmp_path)
    monkeypatch.setitem(
        RUNS, "psus", (small_survey.DESIGN, small_survey.QUERIES + COUNT.replace("old", "more"))
    )
    with pytest.raises(LeakError):
        run(large, ReplayingNoise(recorder.transcript.entries), name="psus", folder=tmp_path)


def test_tapes_hold_what_met_noise(tmp_path: Path) -> None:
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    found = run(small_survey.rows(5), recorder, name="psus", folder=tmp_path)
    assert all(isinstance(meeting, NoisyAnswer) for meeting in recorder.transcript.entries)
    assert len(recorder.transcript.entries) == len(found.transcript)
