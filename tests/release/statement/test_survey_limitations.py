"""Statements of estimates say what was cut, what was declared and not used, and call the unit by its name."""

from __future__ import annotations

import pytest

from populace.release.statement.survey_limitations import list_survey_limitations
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from tests.helpers import small_survey
from tests.helpers.survey_oracle import plan_queries

SCHOOLS = Schema.parse(small_survey.SCHEMA.replace('unit = "person"', 'unit = "school"'))


def words(design):
    held = Queries.parse(small_survey.QUERIES, schema=SCHOOLS)
    return " ".join(list_survey_limitations(plan_queries(Design.parse(design, schema=SCHOOLS), held)))


def test_cut_weights_make_totals_too_small_and_means_lean():
    told = words('[design]\nweights = "weight"\nmax_weight = 30\n')
    assert "above 30 counted as 30: totals and counts are too small by what was cut off" in told
    assert "weighted means are biased towards rows of small weight" in told


def test_a_declared_secret_sample_is_said_not_to_be_used():
    told = words('[design]\nsampling = { design = "simple", share = 0.1 }\n')
    assert "each school was sampled in secret is declared, and was not used" in told
    assert "drawn in secret" not in words("[design]")


def test_a_declared_number_of_rows_is_named_as_public():
    assert "treated as public: about how many rows there are" in words("[design]\nrows = 900\n")
    assert "how many rows" not in words("[design]")


def test_totals_are_said_to_have_done_what_they_did():
    clustered, direct = words(small_survey.DESIGN + small_survey.TOTALS), words(small_survey.TOTALS)
    assert "weights that were adjusted by cells to meet the totals" in clustered
    assert "A count that one set" not in clustered
    assert "Counts did not use" not in clustered
    assert "A count that one set" in direct


def test_schools_are_not_called_persons():
    for design in (
        "[design]",
        small_survey.DESIGN,
        '[design]\nsampling = { design = "simple", share = 0.1 }\n',
    ):
        assert "person" not in words(design)
        assert "people" not in words(design)


@pytest.mark.slow
def test_a_whole_statement_about_schools_speaks_of_no_people(tmp_path, monkeypatch):
    monkeypatch.setattr(
        small_survey, "SCHEMA", small_survey.SCHEMA.replace('unit = "person"', 'unit = "school"')
    )
    found = small_survey.run(small_survey.rows(150), tmp_path, epsilon="1", seed=3)
    told = " ".join(found.statement["not_covered"])
    assert "released about the same school adds to it" in told
    assert "people" not in told
    assert "person" not in told


def test_a_declared_effect_is_said_where_it_was_used():
    design = Design.parse(small_survey.DESIGN + "max_design_effect = 3\n", schema=SCHOOLS)
    mean, rows = (
        f'[[query]]\nname = "{name}"\nstatistic = "{name}"\n{more}'
        for name, more in (("mean", 'column = "income"\n'), ("frequency", ""))
    )

    def told(*asked):
        return " ".join(
            list_survey_limitations(plan_queries(design, Queries.parse("".join(asked), schema=SCHOOLS)))
        )

    assert "No design effect above 3 was taken to be possible, as declared" in told(mean, rows)
    assert "not used" not in told(mean, rows)
    assert "That no design effect is above 3 is declared, and was not used." in told(rows)
    assert "design effects are taken to be around 2.5, 95 % of them within a factor of 16." in told(mean)
