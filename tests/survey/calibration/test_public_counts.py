"""Counts that public totals decide, through whole runs: exact, free, verified, and told in the release."""

from __future__ import annotations

from pathlib import Path

import pytest

from populace.core.errors import SchemaError, UsageError
from populace.release.statement.survey_limitations import list_survey_limitations
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.estimate_notes import PUBLIC_TOTAL
from populace.survey.queries.queries import Queries
from tests.helpers import small_survey
from tests.helpers.survey_oracle import plan_queries


def test_a_public_total_is_exact_and_free_and_all_of_the_release_says_so(tmp_path: Path) -> None:
    poor = '[[query]]\nname = "old"\nstatistic = "count"\nwhere = "age >= 65"\n'
    sexes = '[[query]]\nname = "sexes"\nstatistic = "count"\nby = ["sex"]\n'
    found = small_survey.run(
        small_survey.rows(), tmp_path, design=small_survey.TOTALS, queries=poor + sexes, delta="0"
    )
    found.save(tmp_path / "out", report=False)
    assert all(check.passed for check in verify(tmp_path / "out").checks)
    old, *told = found.rows
    assert [(row.low, row.estimate, row.high) for row in told] == [(5100.0,) * 3, (4900.0,) * 3]
    assert {row.note for row in told} == {PUBLIC_TOTAL}
    assert old.low < old.estimate < old.high
    page = (tmp_path / "out" / "statement.md").read_text("utf-8")
    assert "A count that one set of them decides is told as it stands there" in page
    assert 0.99 < found.statement["used"]["share"] <= 1
    (stage,) = found.document().stages
    assert stage.label == "old"
    assert stage.share == pytest.approx(found.statement["used"]["share"])


def test_public_totals_alone_are_refused_and_beside_others_leave_them_all(tmp_path: Path) -> None:
    sexes = '[[query]]\nname = "sexes"\nstatistic = "count"\nby = ["sex"]\n'
    with pytest.raises(UsageError, match="all that is asked for are public totals"):
        small_survey.run(small_survey.rows(), tmp_path, design=small_survey.TOTALS, queries=sexes)
    assert not (tmp_path / "ledger.db").exists()
    income = '[[query]]\nname = "income"\nstatistic = "mean"\ncolumn = "income"\n'
    schema = Schema.parse(small_survey.SCHEMA)
    design = Design.parse(small_survey.TOTALS + small_survey.FILLED, schema=schema)
    plan = plan_queries(design, Queries.parse(sexes + income, schema=schema))
    # A mean meets the totals too, with all of the budget.
    (adjusted,) = plan.adjusted
    assert (adjusted.share, adjusted.filled) == (1, ("income",))


def test_totals_say_which_parts_of_the_design_counts_do_not_use() -> None:
    schema = Schema.parse(small_survey.SCHEMA)
    design = Design.parse(
        '[design]\nstrata = "stratum"\nbase = { a = 2, b = 5 }\n' + small_survey.TOTALS, schema=schema
    )
    queries = Queries.parse('[[query]]\nstatistic = "count"\nwhere = "age >= 65"\n', schema=schema)
    told = " ".join(list_survey_limitations(plan_queries(design, queries)))
    assert "Counts did not use the strata and the base weights" in told
    assert "Counts did not use" not in " ".join(
        list_survey_limitations(plan_queries(Design.parse(small_survey.TOTALS, schema=schema), queries))
    )


CONTRADICTING = '\n[[totals]]\nby = ["age"]\ncounts = { 0 = 1000, 18 = 4000, 65 = 1000.5 }\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            small_survey.TOTALS + CONTRADICTING,
            "[[totals]] by 'sex' add up to 10000, [[totals]] by 'age' add up to 6000.5.",
        ),
        (
            "[design]\npopulation = 10001\n" + small_survey.TOTALS,
            "[[totals]] by 'sex' add up to 10000, population is 10001.",
        ),
    ],
)
def test_totals_that_contradict_are_named(text: str, told: str) -> None:
    with pytest.raises(SchemaError) as refused:
        Design.parse(text, schema=Schema.parse(small_survey.SCHEMA))
    assert refused.value.message.endswith(told)
