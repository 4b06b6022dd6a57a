"""Queries are read in full, and refused from the schema alone; public rows are counted as they say."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pytest

from populace.api.estimate import estimate
from populace.core.errors import DataError, SchemaError, UsageError
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.design_parts import ItemNonresponse, MissingHandling
from populace.survey.queries.queries import Queries, Query
from populace.survey.variance.public_estimates import estimate_public_rows

SCHEMA = Schema.parse(
    """
[columns.AGE]
kind = "integer"
min = 0
max = 99
[columns.INCOME]
kind = "numeric"
min = 0
max = 1000
width = 100
missing = ["-1"]
[columns.SEX]
kind = "categorical"
values = ["f", "m"]
[columns.WEIGHT]
kind = "numeric"
min = -1
max = 1000
width = 1
[columns.BIG]
kind = "integer"
min = 0
max = 9999
"""
)


def parsed(text: str) -> Queries:
    return Queries.parse(f"[[query]]\n{text}", schema=SCHEMA)


def test_queries_are_read_in_full() -> None:
    queries = parsed(
        """
statistic = "mean"
column = "INCOME"
where = "AGE>=18"
by = ["SEX"]
high = 500
share = 3
[[query]]
statistic = "quantile"
column = "INCOME"
p = [0.25, 0.5]
[[query]]
name = "poor"
statistic = "proportion"
that = "INCOME < 100 and (AGE > 3 or SEX is missing)"
"""
    )
    mean, quantile, poor = queries
    assert mean.name == "mean of INCOME where AGE >= 18 by SEX"
    assert mean.span("INCOME", SCHEMA) == (0, 500)
    assert (quantile.name, quantile.p) == ("quantile 0.25, 0.5 of INCOME", (Fraction(1, 4), Fraction(1, 2)))
    assert poor.known == ("INCOME", "AGE")
    assert queries.shares == (Fraction(3, 5), Fraction(1, 5), Fraction(1, 5))


REFUSED = [
    ('statistic = "maen"\ncolumn = "AGE"', "statistic is 'maen'", "'mean'"),
    ('statistic = "average"\ncolumn = "AGE"', "statistic is 'average'", "correlation, quantile"),
    ('column = "AGE"', "has no statistic", "mean"),
    ('statistic = "mean"', "1: a mean needs a column.", "column ="),
    ('statistic = "mean"\ncolumn = "AEG"', "no column 'AEG'", "'AGE'"),
    ('statistic = "mean"\ncolumn = "SEX"', "'SEX' holds no numbers", "integer"),
    ('statistic = "count"\ncolumn = "AGE"', "count takes no column", "where"),
    ('statistic = "correlation"\ncolumn = "AGE"', "needs a second column (y)", "two columns"),
    ('statistic = "correlation"\ncolumn = "AGE"\ny = "AGE"', "twice", "once"),
    ('statistic = "quantile"\ncolumn = "AGE"', "needs shares (p)", "p ="),
    ('statistic = "quantile"\ncolumn = "AGE"\np = [50]', "50 is no share", "median"),
    ('statistic = "proportion"', "needs a column or a condition", "that ="),
    ('statistic = "proportion"\ncolumn = "SEX"\nthat = "AGE > 3"', "and not both", "either"),
    ('statistic = "mean"\ncolumn = "AGE"\nwhere = "AGE >"', "a value is missing", "single quotes"),
    ('statistic = "mean"\ncolumn = "AGE"\nwhere = "AEG > 3"', "no column 'AEG'", "'AGE'"),
    ('statistic = "mean"\ncolumn = "AGE"\nwhere = "AGE > 3 and AGE < 2"', "no row can meet", "schema"),
    ('statistic = "mean"\ncolumn = "AGE"\nlow = 50\nhigh = 40', "no values of 'AGE'", "low first"),
    (
        'statistic = "mean"\ncolumn = "AGE"\nhigh = 400',
        "high is 400, and 'AGE' goes from 0 to",
        "leave high out",
    ),
    ('statistic = "mean"\ncolumn = "AGE"\nlow = -1', "low is -1, and 'AGE' goes from 0 to", "leave low out"),
    ('statistic = "count"\nlow = 50', "no low or high", "leave"),
    ('statistic = "count"\nby = ["BIG", "SEX"]', "20000 groups", "fewer"),
    ('statistic = "proportion"\ncolumn = "BIG"', "10000 values", "fewer bins"),
    ('statistic = "count"\nby = ["SEX", "SEX"]', "twice", "once"),
    ('statistic = "count"\nshare = 0', "share is not positive", "above 0"),
    ('statistic = "count"\nhwere = "AGE > 3"', "unknown key 'hwere'", "'where'"),
]


@pytest.mark.parametrize(("text", "said", "hint"), REFUSED, ids=[said for _, said, _ in REFUSED])
def test_a_query_that_does_not_fit_is_refused(text: str, said: str, hint: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parsed(text)
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_texts_and_lists_in_the_wrong_place_are_refused_in_python() -> None:
    with pytest.raises(SchemaError, match="by is the text 'SEX'") as refused:
        Query(statistic="count", by="SEX")
    assert "by=['SEX']" in refused.value.hint
    assert Query(statistic="quantile", column="AGE", p=0.5).p == (Fraction(1, 2),)
    for wrong in (Query(statistic="count"), [{"statistic": "count"}]):
        with pytest.raises(UsageError, match="no query") as spoken:
            Queries(schema=SCHEMA, queries=wrong)
        assert "Query(statistic=" in spoken.value.hint


def test_a_list_in_the_place_of_queries_or_a_design_is_refused() -> None:
    design, queries = Design(schema=SCHEMA), [Query(statistic="count")]
    with pytest.raises(UsageError, match="queries is a list") as refused:
        estimate(ROWS, schema=SCHEMA, design=design, queries=queries, epsilon=1)
    assert "pp.Queries(schema=" in refused.value.hint
    with pytest.raises(UsageError, match="design is a dict"):
        estimate(ROWS, schema=SCHEMA, design={}, queries=queries, epsilon=1)


def test_no_queries_and_two_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="no queries"):
        Queries.parse("", schema=SCHEMA)
    with pytest.raises(SchemaError, match="two queries are named 'count'"):
        Queries(schema=SCHEMA, queries=(Query(statistic="count"), Query(statistic="count")))


ROWS = pd.DataFrame(
    {
        "AGE": [20, 30, 40, 50, 60, 17, 30, 30],
        "INCOME": ["100", "300", "-1", "2000", "400", "50", "999", "999"],
        "SEX": ["f", "f", "f", "m", "m", "m", "f", "f"],
        "WEIGHT": [2.0, 1.0, 1.0, 5.0, 1.0, 3.0, 0.0, None],
        "BIG": 0,
    }
)


def test_rows_count_by_their_weight_and_only_where_they_have_an_answer() -> None:
    queries = (
        Query(statistic="mean", column="INCOME", where="AGE >= 18", by=("SEX",)),
        Query(statistic="total", column="INCOME", high=500),
        Query(statistic="count"),
        Query(statistic="frequency", where="SEX == 'f'"),
        Query(statistic="proportion", that="INCOME is missing"),
        Query(statistic="proportion", column="SEX", where="INCOME >= 700"),
        Query(statistic="mean", column="INCOME", where="AGE > 98", name="nobody"),
    )
    design = Design(schema=SCHEMA, weights="WEIGHT", max_weight=4)
    found = estimate_public_rows(ROWS, design=design, queries=Queries(schema=SCHEMA, queries=queries))
    told = [(dict(each.group), each.estimate) for each in found]
    # A weight of 5 is cut to 4, an income of 2000 to 1000; nobody counts without a weight above 0.
    assert told == [
        ({"SEX": "f"}, pytest.approx((2 * 100 + 300) / 3)),
        ({"SEX": "m"}, pytest.approx((4 * 1000 + 400) / 5)),
        ({}, pytest.approx(2 * 100 + 300 + 4 * 500 + 400 + 3 * 50)),
        ({}, 12),
        ({}, 3),
        ({}, pytest.approx(1 / 12)),
        ({"SEX": "f"}, 0),
        ({"SEX": "m"}, 1),
        ({}, None),
    ]
    assert found[-1].note == "no rows"


def test_tables_that_do_not_hold_the_columns_are_refused() -> None:
    design, queries = Design(schema=SCHEMA), Queries(schema=SCHEMA, queries=(Query(statistic="count"),))
    with pytest.raises(DataError, match="'BIG'"):
        estimate_public_rows(ROWS.drop(columns="BIG"), design=design, queries=queries)
    with pytest.raises(DataError, match="no table"):
        estimate_public_rows("rows.csv", design=design, queries=queries)
    other = Queries(schema=Schema.from_sizes({"AGE": 2}), queries=queries.queries)
    with pytest.raises(UsageError, match="other schemas"):
        estimate_public_rows(ROWS, design=design, queries=other)


def test_what_public_rows_cannot_do_is_refused() -> None:
    mean = Queries(schema=SCHEMA, queries=(Query(statistic="mean", column="INCOME"),))
    filled = ItemNonresponse(column="INCOME", how=MissingHandling.MODEL, match=("SEX",))
    with pytest.raises(UsageError, match="'INCOME' are not filled"):
        estimate_public_rows(ROWS, design=Design(schema=SCHEMA, missing={"INCOME": filled}), queries=mean)
    with pytest.raises(UsageError, match="more rows than its fpc"):
        estimate_public_rows(ROWS, design=Design(schema=SCHEMA, fpc=7), queries=mean)
    for everybody in (8, 1):  # so many rows, or all of them
        (whole,) = estimate_public_rows(ROWS, design=Design(schema=SCHEMA, fpc=everybody), queries=mean)
        assert whole.sampling_error == 0


def test_a_stratum_without_rows_adds_nothing() -> None:
    design = Design(schema=SCHEMA, strata="SEX", base=10)
    queries = Queries(schema=SCHEMA, queries=(Query(statistic="count", where="AGE >= 30"),))
    (found,) = estimate_public_rows(ROWS[ROWS["SEX"] == "f"], design=design, queries=queries)
    # Five rows of f, of which four are 30 or older: 5/4·(4·(10 − 8)² + 8²).
    assert (found.estimate, found.sampling_error) == (40, pytest.approx(10.0))
