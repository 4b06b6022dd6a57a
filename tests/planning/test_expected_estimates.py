"""What to expect of estimates, before anything is spent: near to what a run then tells, and from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from populace.cli.main import main
from populace.core.errors import UsageError
from populace.planning.expected_estimates import (
    MAX_SIMULATED_ROWS,
    PublicFacts,
    SimulatedSurveyOracle,
    predict_errors,
)
from populace.planning.invented_rows import invent_rows, read_column_shares
from populace.planning.published_errors import read_published_errors
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
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
        predict_errors(
            design=design, queries=queries, rows=500, epsilon=1, facts=PublicFacts(like=TABLE.slice(0, 0))
        )


def test_rows_like_a_public_table_are_not_more_than_are_simulated() -> None:
    design, _ = asked("rows")
    oracle = SimulatedSurveyOracle.of(design, rows=40 * MAX_SIMULATED_ROWS, facts=PublicFacts(like=TABLE))
    assert {len(own) for own in oracle.rows.codes.values()} == {MAX_SIMULATED_ROWS}
    assert oracle.times == 40


def load_people() -> tuple[Design, Queries]:
    schema = Schema.load(SURVEY / "people-schema.toml")
    design = Design.load(SURVEY / "people-design.toml", schema=schema)
    return design, Queries.load(SURVEY / "people-queries.toml", schema=schema)


def test_invented_rows_have_published_shares_and_keep_universes() -> None:
    design, _ = load_people()
    known = {"age": {"0": 0.5, "30": 0.5}, "work": {"unemployed": 0.25}, "income": {"20000": 1.0}}
    shares = read_column_shares(known, schema=design.schema)
    rng = np.random.default_rng(5)
    design = replace(design, population=Fraction(80_000), weighting_effect=Fraction(3, 2))
    rows = invent_rows(design, count=20_000, rows=10_000, shares=shares, rng=rng)
    child = rows.codes["age"] == 0
    assert child.mean() == pytest.approx(0.5, abs=0.02)
    work = design.schema.columns["work"]
    assert (rows.codes["work"][child] == work.outside_code).all()
    assert (rows.codes["work"][~child] == 2).mean() == pytest.approx(0.25, abs=0.02)
    assert np.isnan(rows.numbers["income"][child]).all()
    adults = rows.numbers["income"][~child]
    assert 20_000 <= np.nanmin(adults) <= np.nanmax(adults) <= 25_000
    weights = rows.numbers["weight"]
    assert weights.mean() == pytest.approx(8, rel=0.01)
    assert weights.max() <= 12


def test_published_errors_are_those_that_are_expected() -> None:
    design, queries = load_people()
    two = Queries(schema=design.schema, queries=queries.queries[:2])
    margins = []
    for error in (1_000.0, 4_000.0):
        facts = PublicFacts(published={"mean income": error})
        found = predict_errors(design=design, queries=two, rows=6_800, epsilon=500, facts=facts)
        margins.append({each.query: each.margin for each in found})
        # Next to no noise: 20 degrees of freedom, and the spread of estimates of a variance.
        assert found[0].margin == pytest.approx(2.09 * error, rel=0.2)
        assert found[0].low <= found[0].margin <= found[0].high
        assert found[0].by_design_effect == 0
    assert margins[0]["unemployed"] == margins[1]["unemployed"]


def test_published_errors_are_read_from_files_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "errors.csv"
    path.write_text("query,estimate,cv,error,rows\na,200,0.1,,\nb,,,3,400\nb,,,5,400\n", "utf-8")
    assert read_published_errors(path, queries=["a", "b"], rows=100) == {"a": 20.0, "b": 8.0}
    for text, words in (
        ("query,error\nc,1\n", "'c' is given, which is no query"),
        ("query,error\na,-1\n", "is -1"),
        ("query,fault\na,1\n", "holds no published errors"),
        ("query,error\na,much\n", "holds no published errors"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(UsageError, match=words):
            read_published_errors(path, queries=["a", "b"], rows=100)
    with pytest.raises(UsageError, match="there is no file"):
        read_published_errors(tmp_path / "none.csv", queries=["a"], rows=100)
    design, queries = asked("rows")
    facts = PublicFacts(published={queries.queries[0].name: 1.0})
    with pytest.raises(UsageError, match="published errors go with PSUs"):
        predict_errors(design=design, queries=queries, rows=500, epsilon=1, facts=facts)
