"""The statement follows from the ledger's record, promises no less noise than was paid for, and says so plainly."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import releases
from hypothesis import given
from hypothesis import strategies as st

from populace.privacy.record import RunRecord
from populace.release.page import markdown
from populace.release.statement import (
    STAMP,
    RowsFrom,
    Statement,
    at_most,
    exact_text,
    power,
    promise,
    stages,
    state,
)
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, Unit

KEYS = {
    "epsilon", "delta", "neighbours", "unit", "rows_per_unit", "dataset", "total", "spends", "domains", "not_covered",
    "used",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Schema]:
    table, schema = releases.small_sample()
    measured = releases.measure(table, schema, ledger=tmp_path_factory.mktemp("ledger") / "ledger.db")
    return measured.record, schema


def told(record: RunRecord, schema: Schema) -> Statement:
    return state(record, schema=schema, rows=100, rows_from=RowsFrom.NOISE)


def test_the_statement_has_every_key_and_survives_json(made: tuple[RunRecord, Schema]) -> None:
    statement = told(*made)
    assert set(statement) >= KEYS
    assert json.loads(json.dumps(statement, allow_nan=False)) == statement
    assert statement["epsilon"] == 1.0
    assert statement["delta"] == 1e-9
    assert statement["neighbours"] == "add-remove"
    assert statement["unit"] == "person"
    assert statement["dataset"] == "sample-population"
    assert [line["column"] for line in statement["domains"]] == list(releases.FEW)


def test_it_follows_the_record_and_nothing_else(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    other = replace(record, epsilon=Fraction(2), dataset="other", method="independent")
    statement = told(other, schema)
    assert (statement["epsilon"], statement["dataset"], statement["method"]) == (2.0, "other", "independent")
    assert RunRecord.from_json(statement["record"]) == other


def test_what_a_fixed_plan_gave_back_is_not_promised_away(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(replace(record, returned=(Fraction(1, 4), Fraction(0))), schema)
    assert statement["epsilon"] == 0.75


def test_shares_add_up_to_what_was_used(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(record, schema)
    assert math.isclose(sum(line["share"] for line in statement["spends"]), statement["used"]["share"])
    assert math.isclose(sum(stage.share for stage in stages(statement)), statement["used"]["share"])
    assert sum((Fraction(line["price"]) for line in statement["spends"]), Fraction(0)) == record.used
    assert 0.9 < statement["used"]["share"] <= 1


def test_choices_in_a_row_are_one_stage(made: tuple[RunRecord, Schema]) -> None:
    found = [stage.label for stage in stages(told(*made))]
    assert found == [
        "measure number of rows",
        "measure 5 marginals",
        "choose 4 marginals, one after the other",
        "measure 4 marginals",
    ]


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**6))
def test_the_json_number_is_never_above_the_exact_one_and_never_far_below(value: Fraction) -> None:
    number = at_most(value)
    written = Fraction(json.dumps(number))
    assert written <= value
    assert written >= value * (1 - Fraction(1, 2**51))


@pytest.mark.parametrize("text", ["0.1", "0.3", "1", "10", "1e-9", "1e-300", "2.5", "1/3"])
def test_exact_texts_are_exact_and_short(text: str) -> None:
    value = Fraction(text)
    assert Fraction(exact_text(value)) == value
    assert exact_text(value) == text
    assert float(Fraction(text)) >= at_most(value)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.1", "1e-2"), ("5", "1e-4"), ("2", "0")])
def test_the_plain_reading_is_the_exact_trade_off(tmp_path: Path, epsilon: str, delta: str) -> None:
    """By duality max over α of (power − e^ε·α) is δ: not more, or the reading would understate; not less either."""
    table, schema = releases.small_sample(("sex",), households=20)
    record = releases.measure(table, schema, ledger=tmp_path / "l.db", epsilon=epsilon, delta=delta).record
    alphas = np.concatenate([np.geomspace(1e-9, 0.5, 4000), np.linspace(0.5, 0.999, 500)])
    excess = max(power(record, false_alarms=a) - math.exp(float(epsilon)) * a for a in alphas)
    assert excess <= float(delta) * (1 + 1e-6) + 1e-12
    assert excess >= float(delta) * 0.99 - 1e-9


def test_the_reading_is_rounded_up(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    found = power(record, false_alarms=0.05)
    assert 0.071 < found < 0.072
    assert "at most 7.2 of 100" in told(record, schema)["reading"]


def test_replace_one_and_ids_are_told(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    unit = Unit(name="household", rows=3, id="home", neighbours=Neighbours.REPLACE_ONE)
    statement = told(replace(record, unit=unit), schema)
    assert "any one household with up to 3 rows been replaced by another" in promise(statement)
    assert "which of two versions of one household" in statement["reading"]
    assert any("“home”" in line for line in statement["not_covered"])
    assert statement["rows_per_unit"] == 3
    trusted = told(record, schema)
    assert any("trusted, not checked" in line for line in trusted["not_covered"])
    assert "added to the data or taken out of it" in promise(trusted)


def test_what_is_not_covered(made: tuple[RunRecord, Schema]) -> None:
    lines = "\n".join(told(*made)["not_covered"])
    for words in (
        "overlap must share one account",
        "header",
        "“income” was declared",
        "not a breach",
        "memory",
    ):
        assert words in lines


def test_the_origin_of_the_number_of_rows(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    noisy = state(record, schema=schema, rows=5, rows_from=RowsFrom.NOISE)["total"]
    chosen = state(record, schema=schema, rows=5, rows_from=RowsFrom.CURATOR)["total"]
    assert (noisy["origin"], chosen["origin"]) == ("noisy", "chosen by the curator")
    assert noisy["rows"] == chosen["rows"] == 5


def test_a_rehearsal_is_stamped_everywhere(made: tuple[RunRecord, Schema]) -> None:
    record, schema = made
    statement = told(replace(record, rehearsal=True), schema)
    assert statement["stamp"] == STAMP == "REHEARSAL – noise was repeatable; not private"
    assert STAMP in markdown(statement).splitlines()[0]
    assert STAMP in statement["not_covered"][0]
    assert promise(statement).startswith("Nothing is promised")
    assert STAMP not in markdown(told(record, schema))


def test_the_page_is_one_page_even_for_many_columns(made: tuple[RunRecord, Schema]) -> None:
    record, _ = made
    schema = Schema.from_sizes({f"column_{number}": 3 for number in range(110)})
    choices = [charged for charged in record.spends if charged.spend.verb == "choose"]
    page = markdown(told(replace(record, spends=(*record.spends[:2], *choices * 40)), schema))
    assert len(page.splitlines()) < 66
    assert len(page) < 6000


def test_names_cannot_break_the_page(made: tuple[RunRecord, Schema]) -> None:
    record, _ = made
    schema = Schema.from_sizes({"a|b": 2, "<script>": 2})
    page = markdown(told(replace(record, dataset="x | # y\n\n# z"), schema))
    assert "a\\|b" in page
    assert "<script>" not in page
    assert "\n# z" not in page
