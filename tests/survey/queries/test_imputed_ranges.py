"""Shares of columns with missing answers: which ranges a condition names, and which of them bins tell."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import UsageError
from populace.schema.conditions.syntax_tree import Operator
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.estimate_result import Estimand
from populace.survey.imputation.imputation_plan import CellSum, ImputationPlan
from populace.survey.queries.queries import Queries
from tests.helpers.survey_oracle import plan_queries

SCHEMA = Schema.parse("""
[columns.SEX]
kind = "categorical"
values = ["1", "2"]
[columns."net income"]
kind = "integer"
min = -10
max = 20
missing = ["R"]
[columns.RATE]
kind = "numeric"
edges = [0, 0.5, 1, 2, 3]
decimals = 1
missing = ["R"]
""")


def filling(that, *, how="model", schema=SCHEMA):
    column = "net income" if "net" in that else "RATE"
    design = Design.parse(
        f"[missing.'{column}']\nhow = '{how}'\nmatch = ['SEX']\n",
        schema=schema,
    )
    queries = Queries.parse(f'[[query]]\nstatistic = "proportion"\nthat = "{that}"\n', schema=schema)
    ((found, _),) = plan_queries(design, queries).imputations
    return found


RANGES = {
    Operator.EQUAL: (5, 5),
    Operator.BELOW: (-10, 4),
    Operator.AT_MOST: (-10, 5),
    Operator.ABOVE: (6, 20),
    Operator.AT_LEAST: (5, 20),
}


@pytest.mark.parametrize("how", ["impute", "model"])
@pytest.mark.parametrize("operator", Operator)
def test_every_comparison_is_one_range_or_refused(operator, how):
    that = f"`net income` {operator.value} 5"
    if operator is Operator.UNEQUAL:
        for each in (that, f"`net income` > 3 and {that}"):
            with pytest.raises(UsageError, match="is not one range of 'net income'"):
                filling(each, how=how)
        return
    (estimand,) = filling(that, how=how).estimands
    assert estimand.between == RANGES[operator]


def test_numbers_beyond_the_range_cut_nothing_off():
    """The next decimal after a number that is none of the column is still the next one."""
    assert filling("RATE > -0.05").estimands[0].between == (0, 3)
    assert filling("RATE < 3.05").estimands[0].between == (0, 3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["impute", "model"])
@pytest.mark.parametrize(
    ("that", "between"),
    [
        ("RATE >= 0.5", ("0.5", "3")),
        ("RATE >= 0.5 and RATE < 2", ("0.5", "1.9")),
        ("RATE < 1", ("0", "0.9")),
        ("RATE < 0.5", ("0", "0.4")),
        ("`net income` >= 3", ("3", "20")),
        ("`net income` >= -3 and `net income` < 4", ("-3", "3")),
    ],
)
def test_bins_that_begin_and_end_there_tell_it(that, between, how):
    found = filling(that, how=how)
    ends = tuple(map(Fraction, between))
    assert found.estimands[0].between == ends
    assert found.sums[CellSum.WITHIN, ends].where == that


def test_without_words_ends_are_written_as_decimals():
    found = filling("`net income` >= 3")
    estimands = (Estimand(query="some", between=(Fraction(-3), Fraction(4))),)
    ends = ImputationPlan(donors=found.donors, estimands=estimands, how=MissingHandling.MODEL, schema=SCHEMA)
    assert ends.sums[CellSum.WITHIN, estimands[0].between].where == "`net income` >= -3 and `net income` <= 4"
    donors = filling("RATE >= 1").donors
    for low, told in ((Fraction(1, 2), "0.5"), (Fraction(1, 4), None), (Fraction(1, 3), None)):
        estimand = Estimand(query="some", between=(low, Fraction(3)))
        made = ImputationPlan(donors=donors, estimands=(estimand,), how=MissingHandling.IMPUTE, schema=SCHEMA)
        found = made.sums.get((CellSum.WITHIN, estimand.between))
        assert (found and found.where) == (told and f"RATE >= {told}")


def test_what_bins_do_not_tell_is_refused_in_decimals():
    donors = filling("RATE >= 1").donors
    estimand = Estimand(query="some", between=(Fraction("0.3"), Fraction("1.5")))
    with pytest.raises(UsageError, match=r"do not tell what lies from 0\.3 to 1\.5"):
        ImputationPlan(donors=donors, estimands=(estimand,), how=MissingHandling.MODEL, schema=SCHEMA)
