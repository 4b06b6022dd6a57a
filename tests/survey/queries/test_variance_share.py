"""What part of a budget shows how units differ, and how queries share it: from public quantities."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.queries.variance_share import choose_units_share
from tests.helpers.survey_oracle import plan_queries

SCHEMA = Schema.from_sizes({"H": 4, "PSU": 5, "X": 50, "G": 12, "W": 20})
QUERIES = Queries.parse(
    '[[query]]\nstatistic = "mean"\ncolumn = "X"\n[[query]]\nstatistic = "mean"\ncolumn = "X"\nby = ["G"]',
    schema=SCHEMA,
)
DESIGN = Design(schema=SCHEMA, strata="H", psu="PSU", weights="W")


def test_intervals_get_wider_with_noise() -> None:
    widths = [choose_units_share(ratio, psus=60, degrees=30, pure=True)[1] for ratio in range(-6, 10, 3)]
    assert all(later < 1.01 * width for width, later in pairwise(widths))


def test_queries_with_more_groups_take_more_and_shares_that_are_given_are_kept() -> None:
    first, second = QUERIES.queries
    plan = plan_queries(DESIGN, QUERIES, epsilon=1).sums
    assert plan.shares[plan.questions[1].sum] > 1.5 * plan.shares[plan.questions[0].sum]
    asked = Queries(schema=SCHEMA, queries=(replace(first, share=Fraction(3), name="a"), second))
    given = plan_queries(DESIGN, asked, epsilon=1).sums
    spent = [
        sum((given.shares[each] for each in (question.sum, question.psu_sum)), Fraction(0))
        for question in given.questions
    ]
    assert spent[0] / spent[1] == 3
    assert sum(given.shares.values()) == sum(plan.shares.values()) == 1


def test_delta_is_used_where_many_sums_share_a_budget() -> None:
    few, none = QueryPlan.narrowest(DESIGN, QUERIES, epsilon=Fraction(1), delta=Fraction("1e-9"))
    assert none == 0
    assert few.budget == Budget.of(Fraction(1), Fraction(0), unit=SCHEMA.unit)
    column = '[[query]]\nname = "{}"\nstatistic = "mean"\ncolumn = "X"\nwhere = "G >= {}"\nby = ["H"]\n'
    many = "".join(column.format(number, number % 9) for number in range(60))
    _, used = QueryPlan.narrowest(
        DESIGN, Queries.parse(many, schema=SCHEMA), epsilon=Fraction(1), delta=Fraction("1e-6")
    )
    assert used == Fraction("1e-6")


def test_what_is_known_of_design_effects_makes_intervals_shorter() -> None:
    sure = replace(DESIGN, design_effect=replace(DESIGN.design_effect, factor=Fraction(2)))
    widths = [plan_queries(each, QUERIES, epsilon=1).sums.log_width for each in (sure, DESIGN)]
    assert widths[0] < widths[1] - 1
