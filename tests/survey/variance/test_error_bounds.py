"""Errors of estimates are no larger than they can be, and statements say whose rows are taken for independent ones."""

from __future__ import annotations

from math import inf

from populace.release.statement.survey_limitations import list_survey_limitations
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit
from populace.survey.answer_queries import possible_range
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from tests.helpers import small_survey
from tests.helpers.survey_oracle import plan_queries

CORRELATION = '[[query]]\nname = "r"\nstatistic = "correlation"\ncolumn = "income"\ny = "age"\n'
SHARE = '[[query]]\nname = "p"\nstatistic = "proportion"\nthat = "income >= 500"\n'
MEAN = '[[query]]\nname = "m"\nstatistic = "mean"\ncolumn = "income"\n'
HALF = {"r": 1.0, "p": 0.5, "m": 500.0}


def test_no_error_is_larger_than_half_of_the_range(tmp_path):
    """So few rows that noise hides nearly all: what is told is still possible."""
    queries, told = CORRELATION + SHARE + MEAN, 0
    for seed in (3, 11):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = small_survey.run(
            small_survey.rows(150), folder, design="[design]", queries=queries, epsilon="1", seed=seed
        )
        for row in found.rows:
            if row.estimate is None:
                continue
            told += 1
            for error in (row.sampling_error, row.imputation_error, row.privacy_error):
                assert 0 <= error <= HALF[row.query]
            assert row.high - row.low <= 2 * HALF[row.query]
    assert told == 5, "the correlation of seed 3 is told, with an error of 5 if nothing held it"


def test_a_total_of_numbers_above_nought_is_not_told_below():
    """A total has the sign of its values, whatever noise says."""
    schema = Schema.parse(small_survey.SCHEMA)
    text = '[[query]]\nstatistic = "total"\ncolumn = "income"\n'
    (total,) = Queries.parse(text, schema=schema)
    assert possible_range(total, schema) == (0.0, inf)
    debts = Schema.parse(small_survey.SCHEMA.replace("min = 0\nmax = 1000", "min = -1000\nmax = 1000"))
    (total,) = Queries.parse(text, schema=debts)
    assert possible_range(total, debts) == (-inf, inf)


REPEATED = small_survey.SCHEMA.replace('unit = "person"', 'id = "who"\nrows_per_unit = 2')


def words(design: str, *, schema: str) -> str:
    held = Schema.parse(schema)
    return " ".join(
        list_survey_limitations(
            plan_queries(Design.parse(design, schema=held), Queries.parse(small_survey.QUERIES, schema=held))
        )
    )


def test_a_statement_says_that_rows_of_one_unit_are_taken_for_independent_ones():
    told = "sampling errors assume independent rows"
    assert told in words("[design]", schema=REPEATED)
    assert "One unit may have up to 2 rows" in words("[design]", schema=REPEATED)
    assert told not in words("[design]", schema=small_survey.SCHEMA)
    assert told not in words(small_survey.DESIGN, schema=REPEATED)


def test_a_unit_with_an_id_is_never_called_a_row():
    assert PrivacyUnit(rows=2, id="who").word == "unit"
    assert PrivacyUnit(rows=2, id="who", name="person").word == "person"
    assert PrivacyUnit().word == "row"
