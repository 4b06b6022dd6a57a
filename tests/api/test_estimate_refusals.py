"""What a newcomer to estimates stumbles over is refused in words that lead on."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import SchemaError, UsageError
from populace.privacy.accounting.budget import Budget
from populace.release.statement.survey_limitations import list_survey_limitations
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.variance.public_estimates import estimate_public_rows
from tests.helpers.survey_oracle import plan_queries

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 3
[columns.PAY]
kind = "integer"
min = 0
max = 100
missing = ["R"]
[columns.W]
kind = "numeric"
min = 0
max = 50
width = 10
[columns.OFTEN]
kind = "integer"
min = 1
max = 2
missing = ["R"]
[columns.EVER]
kind = "categorical"
values = ["once", "twice"]
missing = ["R"]
function_of = ["OFTEN"]
map = { 1 = "once", 2 = "twice", R = "R" }
""")
MEAN = '[[query]]\nname = "mean pay"\nstatistic = "mean"\ncolumn = "PAY"\nby = ["AGE"]\n'


def planned(how, *, design="", epsilon=40, delta="0"):
    return QueryPlan.of(
        Design.parse(
            f'[design]\n{design}\n[missing.PAY]\nhow = "{how}"\nmatch = ["AGE"]\n',
            schema=SCHEMA,
        ),
        Queries.parse(MEAN, schema=SCHEMA),
        budget=Budget.of(Fraction(epsilon), Fraction(delta), unit=SCHEMA.unit),
    )


@pytest.mark.parametrize("design", ['weights = "W"', 'psu = "AGE"'])
def test_weights_and_psus_go_with_filled_answers(design):
    assert planned("model", design=design).adjusted
    (inside,) = planned("impute", design=design).adjusted
    assert inside.deck is not None
    assert planned("impute").imputations


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_imputed_answers_say_what_they_would_take(delta):
    with pytest.raises(UsageError, match="query 'mean pay': each of 4 imputed answers") as refused:
        planned("impute", epsilon=3, delta=delta)
    hint = refused.value.hint
    assert "an epsilon of 3.24 with --delta 0" in hint
    assert 'how = "model"' in hint
    assert planned("impute", epsilon="3.24")


def test_two_queries_and_a_share_count_in_what_they_would_take():
    more = MEAN + '[[query]]\nname = "poor"\nstatistic = "proportion"\nthat = "PAY <= 10"\n'
    queries = Queries.parse(more + '[[query]]\nstatistic = "count"\n', schema=SCHEMA)
    design = Design.parse('[missing.PAY]\nhow = "impute"\nmatch = ["AGE"]\n', schema=SCHEMA)
    with pytest.raises(UsageError, match="queries 'mean pay', 'poor': each of 5") as refused:
        plan_queries(design, queries, epsilon=5)
    assert "an epsilon of 5.95 with" in refused.value.hint


def declared(column, how):
    match = "" if how == "ignore" else 'match = ["AGE"]'
    return Design.parse(f'[missing.{column}]\nhow = "{how}"\n{match}\n', schema=SCHEMA)


ASKED = {
    "where": 'statistic = "count"\nwhere = "PAY >= 10"',
    "by": 'statistic = "count"\nby = ["PAY"]',
    "its own mean": 'statistic = "mean"\ncolumn = "PAY"\nwhere = "PAY > 10"',
    "another mean": 'statistic = "mean"\ncolumn = "OFTEN"\nwhere = "AGE < 2 and not PAY < 9"',
}
FUNCTIONS = {
    "where": "statistic = 'count'\nwhere = \"EVER == 'once'\"",
    "share": "statistic = 'proportion'\nthat = \"EVER == 'once'\"",
}


@pytest.mark.parametrize("name", ASKED)
def test_conditions_on_filled_answers_go_the_way_of_adjusted_weights(name):
    """As plain sums, who does not answer would drop out."""
    queries = Queries.parse(f"[[query]]\n{ASKED[name]}\n", schema=SCHEMA)
    for how in ("model", "impute"):
        plan = plan_queries(declared("PAY", how), queries)
        assert plan.sums is None
        (adjusted,) = plan.adjusted
        assert adjusted.filled == ("PAY",)
        assert (adjusted.deck is None) == (how == "model")
        assert not plan.fixed
    assert plan_queries(declared("PAY", "ignore"), queries).sums is not None
    # Donors without a limit are for means and proportions of plain rows.
    alone = Design.parse('[missing.PAY]\nhow = "impute"\nmatch = ["AGE"]\nties = "lowest"\n', schema=SCHEMA)
    with pytest.raises(UsageError, match="k, take and ties of 'PAY'") as refused:
        plan_queries(alone, queries)
    assert "leave k, take and ties out of [missing.PAY]" in refused.value.hint


@pytest.mark.parametrize("how", ["impute", "model"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_that_would_not_be_filled_are_not_asked_for(name, how):
    queries = Queries.parse(f"[[query]]\n{FUNCTIONS[name]}\n", schema=SCHEMA)
    with pytest.raises(UsageError, match="answers of 'OFTEN' are not filled in 'EVER', which") as refused:
        plan_queries(declared("OFTEN", how), queries)
    assert "OFTEN >= …" in refused.value.hint
    assert 'how = "ignore" under [missing.OFTEN]' in refused.value.hint
    assert plan_queries(declared("OFTEN", "ignore"), queries).sums is not None


@pytest.mark.parametrize("where", ["PAY is missing", "PAY is not missing and PAY >= 10", "AGE >= 2"])
def test_who_did_not_answer_can_be_asked(where):
    queries = Queries.parse(f'[[query]]\nstatistic = "count"\nwhere = "{where}"\n', schema=SCHEMA)
    assert plan_queries(declared("PAY", "model"), queries).sums is not None


def test_the_statement_says_filled_only_where_answers_are():
    silent = '[[query]]\nstatistic = "count"\nwhere = "PAY is missing"\n'
    told = " ".join(
        list_survey_limitations(plan_queries(declared("PAY", "model"), Queries.parse(silent, schema=SCHEMA)))
    )
    assert "filled" not in told


def test_public_tables_fill_nothing_in_where_either():
    rich = Queries.parse('[[query]]\nstatistic = "count"\nwhere = "PAY >= 10"\n', schema=SCHEMA)
    with pytest.raises(UsageError, match="answers of 'PAY' are not filled in public tables"):
        estimate_public_rows(None, design=declared("PAY", "model"), queries=rich)


def test_a_column_in_the_place_of_sizes_of_strata_is_refused():
    with pytest.raises(SchemaError, match="a column cannot be named here") as refused:
        Design.parse('[design]\nfpc = "W"\n', schema=SCHEMA)
    assert "one for each stratum: fpc = { north = 40" in refused.value.hint
    with pytest.raises(SchemaError, match="one for each stratum"):
        Design(schema=SCHEMA, fpc="W")


def test_a_cap_that_no_weight_reaches_is_refused():
    with pytest.raises(SchemaError, match="max_weight is 51, and 'W' goes to 50 in the schema"):
        Design(schema=SCHEMA, weights="W", max_weight=51)
    assert Design(schema=SCHEMA, weights="W", max_weight=50).weight_bound == 50
