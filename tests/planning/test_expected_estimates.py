"""What to expect of estimates, before anything is spent: near to what a run then tells, and from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from populace.cli.main import main
from populace.core.errors import UsageError
from populace.planning.expected_estimates import MAX_SIMULATED_ROWS, SimulatedSurveyOracle, predict_errors
from tests.helpers.survey_oracle import FakeSurvey, answer_directly
from tests.survey.test_answer_queries import SCHEMA, TABLE, asked

SURVEY = Path(__file__).parents[2] / "examples/survey"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["rows", "psus"])
def test_expected_errors_are_near_those_of_a_run(name: str) -> None:
    design, queries = asked(name)
    found = answer_directly(FakeSurvey(TABLE, schema=SCHEMA, epsilon="40"), design=design, queries=queries)
    expected = predict_errors(design=design, queries=queries, rows=TABLE.num_rows, epsilon=40, delta="1e-6")
    assert [each.query for each in expected] == [query.name for query in queries]
    for query, each in zip(queries, expected, strict=True):
        errors = [row.privacy_error for row in found if row.query == each.query and row.privacy_error]
        ratio = each.privacy_error / np.median(errors)
        if query.statistic in ("total", "count", "frequency"):
            assert ratio == pytest.approx(1, rel=0.02), each.query
        else:
            # What rows weigh together is not public here, and they are taken to be light.
            assert 0.8 < ratio < 3, each.query
    (counted,) = (query.name for query in queries if query.statistic == "count")
    people = sum(row.estimate for row in found if row.query == counted)
    # A public population is planned by as well.
    counted_design = replace(design, population=Fraction(round(people)))
    found = answer_directly(
        FakeSurvey(TABLE, schema=SCHEMA, epsilon="40"), design=counted_design, queries=queries
    )
    public = predict_errors(
        design=counted_design,
        queries=queries,
        rows=TABLE.num_rows,
        epsilon=40,
    )
    for query, each in zip(queries, public, strict=True):
        if query.statistic != "correlation":
            errors = [row.privacy_error for row in found if row.query == each.query and row.privacy_error]
            assert 0.7 < each.privacy_error / np.median(errors) < 1.3, each.query


def test_more_rows_and_more_budget_mean_smaller_errors() -> None:
    design, queries = asked("rows", '[[query]]\nstatistic = "mean"\ncolumn = "income"')
    known = {"design": design, "queries": queries}
    (few,), (many,), (dear,) = (
        predict_errors(**known, rows=rows, epsilon=epsilon)
        for rows, epsilon in ((20_000, 1), (2_000_000, 1), (20_000, 10))
    )
    assert many.worst_privacy_error < few.worst_privacy_error
    assert dear.worst_privacy_error == pytest.approx(few.worst_privacy_error / 10, rel=0.2)
    # With one weight for all, it is the sum of weights that counts, and a public population is that.
    counted = {**known, "design": replace(design, population=Fraction(10**6))}
    one, other = (
        predict_errors(**counted, rows=rows, epsilon=1)[0].worst_privacy_error for rows in (50_000, 80_000)
    )
    # Noise is drawn, and moves what a mean is divided by.
    assert one == pytest.approx(other, rel=0.03)
    with pytest.raises(UsageError, match="0 rows"):
        predict_errors(**known, rows=0, epsilon=1)


def test_the_data_is_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (SURVEY / "people-queries.toml").read_text("utf-8").partition('[[query]]\nname = "unemployed"')[0]
    (tmp_path / "queries.toml").write_text(asked, "utf-8")
    words = [f"--{key}={SURVEY / f'people-{key}.toml'}" for key in ("schema", "design")]
    words += [f"--queries={tmp_path / 'queries.toml'}"]
    ledger = tmp_path / "ledger.db"
    gone = ["estimate", str(tmp_path / "none.csv"), *words, "--epsilon", "2", "--ledger", str(ledger)]
    assert main([*gone, "--expect", "5000"]) == 0
    said = capsys.readouterr()
    assert "mean income" in said.out
    assert "Nothing was read or spent" in said.err
    assert not ledger.exists()
    assert main(gone) == 2
    assert "--expect" in capsys.readouterr().err


def test_a_private_table_is_not_taken_for_a_public_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--{key}={SURVEY / f'people-{key}.toml'}" for key in ("schema", "design", "queries")]
    data = tmp_path / "people.csv"
    data.write_text("stratum\n", "utf-8")
    asked_for = ["estimate", str(data), *words, "--epsilon", "2", "--ledger", str(tmp_path / "ledger.db")]
    assert main([*asked_for, "--expect", "5000", "--like", str(data)]) == 2
    assert "the public table is the private table" in capsys.readouterr().err


def test_a_public_table_without_rows_is_refused() -> None:
    design, queries = asked("rows")
    with pytest.raises(UsageError, match="the public table has no rows"):
        predict_errors(design=design, queries=queries, rows=500, epsilon=1, like=TABLE.slice(0, 0))


def test_rows_like_a_public_table_are_not_more_than_are_simulated() -> None:
    design, _ = asked("rows")
    oracle = SimulatedSurveyOracle.of(design, rows=40 * MAX_SIMULATED_ROWS, like=TABLE)
    assert {len(own) for own in oracle.rows.codes.values()} == {MAX_SIMULATED_ROWS}
    assert oracle.times == 40
