"""Whom the rows stand for, beside what a design declares; and shrinking by a design."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from populace.api.estimate import estimate
from populace.cli.estimate import note_population_mismatch
from populace.core.errors import SchemaError
from populace.schema.schema import Schema
from populace.survey.calibration.calibrated_counts import Calibration
from populace.survey.design.design import Design
from tests.helpers import small_survey
from tests.survey.test_answer_queries import SCHEMA

TOTALS = '\n[[totals]]\nby = ["sex"]\ncounts = { f = 500, m = 400 }\n'


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("population", "noted"), [(None, False), ("right", False), ("hundredth", True)])
def test_weights_that_are_off_are_noted(
    population: str | None, noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table: pa.Table = small_survey.rows()
    whole = round(sum(min(max(float(each or 0), 0.0), 50.0) for each in table["weight"].to_pylist()))
    declared = {None: "", "right": f"population = {whole}\n", "hundredth": f"population = {whole // 100}\n"}
    schema = Schema.parse(small_survey.SCHEMA)
    design = small_survey.DESIGN.replace("[design]\n", f"[design]\n{declared[population]}")
    paths = small_survey.files(tmp_path / "files", design=design)
    found = estimate(
        table,
        schema=schema,
        design=paths["design"],
        queries=paths["queries"],
        epsilon=40,
        delta="1e-6",
        ledger=tmp_path / "ledger.db",
    )
    people, unsure = found.people
    assert people == pytest.approx(whole, abs=0.2 * whole + 6 * unsure)
    note_population_mismatch(found)
    assert ("check the weights" in capsys.readouterr().err) is noted
    last = found.document().summary[-1]
    assert "represent about" in last
    assert ("the design declares" in last) is (population is not None)


def test_a_design_may_shrink_weights() -> None:
    design = Design.parse("[design]\nshrink = 0.25" + TOTALS, schema=SCHEMA)
    assert Calibration.of(design).shrink == Fraction(1, 4)
    assert replace(Calibration.of(design), shrink=Fraction(1, 2)).shrink == Fraction(1, 2)
    for text in ("[design]\nshrink = 0.25", "[design]\nshrink = 2" + TOTALS):
        with pytest.raises(SchemaError, match="shrink"):
            Design.parse(text, schema=SCHEMA)
