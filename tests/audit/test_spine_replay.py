"""Units come from the public spine and never from rows: neighbours give the same hierarchical release.

Pairs differ by one person: a row more, off the spine or in a unit that had none, or one more in the number of a row. Or
one person is replaced: by anybody, or, where totals are exact, by somebody of the same cell of the finest exact level.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from populace.api import measure as measuring
from populace.api import reservation
from populace.api.measure import measure
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.geocodes import Geography
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from tests.audit.replay import (
    LeakError,
    RecordingNoise,
    ReplayingNoise,
    check_exact_totals,
    check_sensitivities,
)
from tests.audit.tiny_tables import Twin
from tests.audit.transcripts import Workspace
from tests.helpers.planted_faults import seeded

SCHEMA = """
[table]
dataset = "tiny"
unit = "person"
{frequency}
{neighbours}
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1", "C|"]
{invariants}
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


def write_schema(*, frequency: str = "", neighbours: str = "", invariants: str = "") -> str:
    return SCHEMA.format(frequency=frequency, neighbours=neighbours, invariants=invariants)


COUNTED, PLAIN = write_schema(frequency='frequency = "n"'), write_schema()
REPLACED = write_schema(neighbours='neighbours = "replace-one"')
WHOLE, COUNTIES = (write_schema(invariants=f"[[invariants]]\nby = {by}") for by in ("[]", '["county"]'))
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
    # What is given back follows from the spends alone, and takes longer than the rest of a run.
    kept = patch.object(RunRecord, "compute_unneeded", lambda _: None)
    with patch.object(reservation, "Ledger", Workspace), kept:
        common = {"schema": Schema.parse(text), "epsilon": "2", "delta": delta, "method": "topdown"}
        one = measure(frame(first), ledger=Path("nowhere") / "a.db", noise=recorder, **common)
        player = ReplayingNoise(recorder.transcript.entries)
        other = measure(frame(second), ledger=Path("nowhere") / "b.db", noise=player, **common)
    player.finish()
    return Twin(one, other, recorder.transcript.entries, player.transcript.entries)


def check(found: Twin) -> None:
    first, second = found.first, found.second
    assert replace(second.record, run=first.record.run, digest=first.record.digest) == first.record
    check_sensitivities(found.first_transcript, found.second_transcript, record=first.record)
    check_exact_totals(first.items, second.items)
    assert first.schema == second.schema
    for one, other in zip(first.items, second.items, strict=True):
        assert one.marginal == other.marginal
        assert one.counts.shape == other.counts.shape == one.marginal.shape(first.schema.domain)
        assert one.counts.tolist() == other.counts.tolist()
    tables = [MeasuredHierarchy.of(each.schema, each.items).tables for each in (first, second)]
    for mine, theirs in zip(*tables, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("delta", ["1e-3", "0"])
@pytest.mark.parametrize("text", [COUNTED, PLAIN], ids=["counted", "plain"])
def test_a_person_more_changes_no_public_shape(text: str, delta: str) -> None:
    for number, canary in enumerate(CANARIES):
        pair = (BASE, (*BASE, canary))
        check(twin(*(pair if number % 2 else pair[::-1]), text=text, delta=delta))


@pytest.mark.parametrize("delta", ["1e-3", "0"])
@pytest.mark.parametrize("text", [REPLACED, WHOLE], ids=["replace-one", "whole"])
def test_another_person_anywhere_changes_no_public_shape(text: str, delta: str) -> None:
    for number, canary in enumerate(CANARIES[::3]):
        pair = (BASE, (*BASE[:-1], canary))
        check(twin(*(pair if number % 2 else pair[::-1]), text=text, delta=delta))


@pytest.mark.parametrize("delta", ["1e-3", "0"])
def test_another_person_of_the_same_county_changes_no_public_shape(delta: str) -> None:
    """Rows off the spine are recoded in their county, or to the first one."""
    for other in (("A", "1", "f", "1", "1"), ("A", "99", "m", "3", "1"), ("Z", "9", None, "nan", "1")):
        check(twin(BASE, (BASE[0], other, BASE[2]), text=COUNTIES, delta=delta))


def test_another_person_of_another_county_is_no_neighbour() -> None:
    with pytest.raises(LeakError):
        check(twin(BASE, (BASE[0], ("B", "1", "m", "0", "2"), BASE[2]), text=COUNTIES))


def test_a_person_replaced_at_the_price_of_one_more_is_found_out() -> None:
    """The planted fault: √2 and 2 are forgotten, in what is charged and in what a charge is held to."""
    rule = "is Neighbours.ADD_REMOVE else 2"
    with (
        seeded(PrivacyUnit.marginal_l1, rule, "is not None else 2"),
        seeded(PrivacyUnit.marginal_l2_squared, rule, "is not None else 2"),
        pytest.raises(LeakError, match="further than the ledger was told"),
    ):
        check(twin(BASE, (BASE[0], ("A", "1", "f", "1", "1"), BASE[2]), text=COUNTIES))


def test_a_spine_taken_from_rows_is_found_out() -> None:
    """The planted fault: only units that have rows are counted."""

    def list_units(rows: pa.Table, schema: Schema) -> Schema:
        paths = sorted({*zip(rows["county"].to_pylist(), rows["tract"].to_pylist(), strict=True)})
        own = {name: column for name, column in schema.columns.items() if name in ("sex", "age")}
        found = Geography.of_paths(paths, levels=("county", "tract"))
        return replace(schema, columns=own, geography=found)

    with (
        patch.object(measuring, "list_units", list_units, create=True),
        seeded(
            measuring._measure,
            "request.schema, request.data",
            "list_units(request.data, request.schema), request.data",
        ),
    ):
        check(twin(BASE, BASE, text=PLAIN))
        with pytest.raises(LeakError):
            check(twin(BASE, (*BASE, CANARIES[0]), text=PLAIN))


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
