"""Invariant 4: the privacy statement is computed from the ledger, never from the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from populace.api.synthesize import synthesize
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.ledger.run_record import PublicTable, RunRecord
from populace.release.bundle import Release
from populace.release.row_selection import RowCountOrigin, RowSelection
from populace.release.statement.limitations import MeasuredContent
from populace.release.statement.statement import compute_statement
from populace.schema.schema import Schema

SCHEMA = Schema.from_sizes({"a": 2, "b": 3})
TABLE = pa.table({"a": [0, 1, 1, 0], "b": [2, 0, 0, 1]})
ASKED: dict[str, Any] = {"epsilon": "1", "delta": "1e-6", "method": "independent"}


def made(folder: Path, **asked: Any) -> Release:
    return synthesize(TABLE, schema=SCHEMA, ledger=folder / "ledger.db", dataset="d", **{**ASKED, **asked})


def promised(release: Release) -> tuple[str, str]:
    return release.statement["epsilon_exact"], release.statement["delta_exact"]


def follows_the_ledger(
    make: Callable[[Path], Release], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Let the ledger tell of another budget than was asked for, and see which of the two is promised."""
    told = Run.record

    def altered(run: Run) -> RunRecord:
        return replace(told(run), epsilon=Fraction("0.75"), delta=Fraction("1e-7"))

    with monkeypatch.context() as patch:
        patch.setattr(Run, "record", altered)
        return promised(make(folder)) == ("0.75", "1e-7")


def test_statement_follows_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follows_the_ledger(made, tmp_path, monkeypatch)


def test_a_statement_from_the_configuration_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check fails on a pipeline that promises what was asked for."""

    class Configured(Release):
        @property
        def statement(self) -> Any:
            return {**super().statement, "epsilon_exact": ASKED["epsilon"], "delta_exact": ASKED["delta"]}

    def make(folder: Path) -> Release:
        real = made(folder)
        return Configured(
            synthetic=real.synthetic, measurements=real.measurements, model=real.model, seed=real.seed
        )

    assert not follows_the_ledger(make, tmp_path, monkeypatch)


def test_statement_can_only_see_the_record_and_the_schema() -> None:
    """There is no argument through which a configuration could reach it.

    `answers` tell which columns were measured, five more of rows already drawn, and the last asks for an older format.
    """
    assert list(inspect.signature(compute_statement).parameters) == [
        *("record", "schema", "answers"),
        *("rows", "rows_from", "selection", "implicates", "in_blocks", "form"),
    ]


def test_how_rows_were_drawn_changes_no_word_about_cost(tmp_path: Path) -> None:
    record = made(tmp_path).measurements.record
    plain = compute_statement(
        record, schema=SCHEMA, answers=MeasuredContent(), rows=4, rows_from=RowCountOrigin.NOISE
    )
    drawn = compute_statement(
        record,
        schema=SCHEMA,
        answers=MeasuredContent(),
        rows=4,
        rows_from=RowCountOrigin.NOISE,
        selection=RowSelection(where="a == 1", share=0.5),
        implicates=3,
    )
    told = {"total", "where", "implicates"}
    assert {key for key in drawn if drawn.get(key) != plain.get(key)} == told


def test_what_answers_are_about_changes_no_word_about_cost(tmp_path: Path) -> None:
    record = replace(made(tmp_path).measurements.record, public=PublicTable("p.csv", "0"))
    answers = (MeasuredContent(), MeasuredContent(measured=((),), public_tables=(("a",), ("b",), ("a", "b"))))
    one, other = (
        compute_statement(record, schema=SCHEMA, answers=each, rows=4, rows_from=RowCountOrigin.NOISE)
        for each in answers
    )
    assert {key for key in one if one.get(key) != other.get(key)} == {"warnings", "not_covered"}


def test_every_word_about_cost_comes_from_the_record(tmp_path: Path) -> None:
    release = made(tmp_path)
    ledger = Ledger.existing(tmp_path / "ledger.db")
    record = ledger.record(ledger.account("d").runs[0])
    assert release.measurements.record == record
    told = release.statement
    assert [line["price"] for line in told["spends"]] == [str(spend.price) for spend in record.spends]
    assert told["ledger_entry"] == record.digest
    for change in (
        {"epsilon": Fraction(1, 2)},
        {"delta": Fraction(1, 10**8)},
        {"dataset": "another"},
        {"method": "another"},
        {"spends": record.spends[1:]},
        {"rehearsal": True},
    ):
        other = compute_statement(
            replace(record, **change),
            schema=SCHEMA,
            answers=MeasuredContent(),
            rows=4,
            rows_from=RowCountOrigin.CURATOR,
        )
        same = compute_statement(
            record, schema=SCHEMA, answers=MeasuredContent(), rows=4, rows_from=RowCountOrigin.CURATOR
        )
        assert other != same
