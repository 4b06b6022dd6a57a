"""Units come from the public spine and never from rows: neighbours give the same hierarchical release.

Pairs differ by one person: a row more, off the spine or in a unit that had none, or one more in the number of a row.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from populace.api import reservation
from populace.api.measure import measure
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema
from tests.audit.replay import LeakError, RecordingNoise, ReplayingNoise, check_sensitivities
from tests.audit.tiny_tables import Twin
from tests.audit.transcripts import Workspace

SCHEMA = """
[table]
dataset = "tiny"
unit = "person"
{frequency}
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1", "C|"]
[[zeros]]
when = "sex == 'm' and age >= 2"
else = {{ sex = "f" }}
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.age]
kind = "integer"
min = 0
max = 3
other = "0"
"""
COUNTED = SCHEMA.format(frequency='frequency = "n"')
PLAIN = SCHEMA.format(frequency="")
Row = tuple[object, ...]
NAMES = ("county", "tract", "sex", "age", "n")
BASE: tuple[Row, ...] = (("A", "1", "f", "1", "7"), ("A", "2", "m", "0", "2"), ("B", "1", "f", "3", "11"))
CANARIES: tuple[Row, ...] = (
    ("C", "", "f", "1", "1"),  # a unit without rows
    ("Z", "1", "f", "1", "1"),  # off the spine, at each level
    ("A", "99", "f", "1", "1"),
    (None, None, None, None, "1"),
    ("B", "1", "m", "3", "1"),  # a structural zero
    ("B", "1", "x", "1e308", "1"),
    ("A", "1", "f", "nan", "1"),
    ("C" * 500, "1", "f", "1", "1"),
)


def frame(rows: tuple[Row, ...]) -> pa.Table:
    return pa.table({name: pa.array([row[k] for row in rows], pa.string()) for k, name in enumerate(NAMES)})


def twin(first: tuple[Row, ...], second: tuple[Row, ...], *, text: str, delta: str = "1e-3") -> Twin:
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(5)))
    schema = Schema.parse(text)
    with patch.object(reservation, "Ledger", Workspace):
        common = {"schema": schema, "epsilon": "2", "delta": delta, "method": "topdown"}
        one = measure(frame(first), ledger=Path("nowhere") / "a.db", noise=recorder, **common)
        player = ReplayingNoise(recorder.transcript.entries)
        other = measure(frame(second), ledger=Path("nowhere") / "b.db", noise=player, **common)
    player.finish()
    return Twin(one, other, recorder.transcript.entries, player.transcript.entries)


def check(found: Twin) -> None:
    first, second = found.first, found.second
    assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record
    check_sensitivities(found.first_transcript, found.second_transcript, record=first.record)
    assert first.schema == second.schema
    for one, other in zip(first.items, second.items, strict=True):
        assert one.marginal == other.marginal
        assert one.counts.shape == other.counts.shape == one.marginal.shape(first.schema.domain)
        assert one.counts.tolist() == other.counts.tolist()
    tables = [MeasuredHierarchy.of(each.schema, each.items).tables for each in (first, second)]
    for mine, theirs in zip(*tables, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("delta", ["1e-3", "0"])
@pytest.mark.parametrize("text", [COUNTED, PLAIN], ids=["counted", "plain"])
def test_a_person_more_changes_no_public_shape(text: str, delta: str) -> None:
    for number, canary in enumerate(CANARIES):
        pair = (BASE, (*BASE, canary))
        check(twin(*(pair if number % 2 else pair[::-1]), text=text, delta=delta))


def test_one_more_in_the_number_of_a_row_is_one_person() -> None:
    for row in range(len(BASE)):
        more = tuple(
            (*held[:-1], str(int(str(held[-1])) + (place == row))) for place, held in enumerate(BASE)
        )
        check(twin(BASE, more, text=COUNTED))
    check(twin((), ((("C", "", "f", "1", "1")),), text=COUNTED))


@pytest.mark.parametrize("cell", ["-1", "2.5", "nan", "", "many", None])
def test_numbers_that_are_none_count_nobody(cell: object) -> None:
    found = twin(BASE, (*BASE, ("Z", "9", "f", "1", cell)), text=COUNTED)
    check(found)
    for one, other in zip(found.first_transcript, found.second_transcript, strict=True):
        assert one.exact.tolist() == other.exact.tolist()


def test_two_persons_in_one_row_are_found_out() -> None:
    with pytest.raises(LeakError, match="further than the ledger was told"):
        check(twin(BASE, (*BASE, ("A", "1", "f", "1", "2")), text=COUNTED))


def test_units_without_rows_are_measured_and_released_like_any_other() -> None:
    empty = twin((), (), text=COUNTED).first
    schema = empty.schema
    shapes = {
        item.marginal.shape(schema.domain)[0]
        for item in empty.items
        if item.marginal.clique[:1] == ("geocode",)
    }
    assert shapes == {3, 4}
    detailed = next(
        item for item in empty.items if len(item.marginal.clique) == 3 and not item.marginal.groupings
    )
    # Every unit has noise of its own.
    assert all(np.abs(unit).sum() > 0 for unit in detailed.counts)
