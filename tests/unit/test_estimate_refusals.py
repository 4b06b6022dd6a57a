"""What a newcomer to estimates stumbles over is refused in words that lead on."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.errors import SchemaError, UsageError
from populace.privacy.budget import Budget
from populace.schema.schema import Schema
from populace.survey.design import Design
from populace.survey.queries import Queries
from populace.survey.ways import Ways
from populace.survey.wishes import Laws

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
""")
MEAN = '[[query]]\nname = "mean pay"\nstatistic = "mean"\ncolumn = "PAY"\nby = ["AGE"]\n'


def ways(how, *, design=""):
    return Ways.of(
        Design.parse(
            f'[design]\n{design}\n[missing.PAY]\nhow = "{how}"\nmatch = ["AGE"]\n',
            schema=SCHEMA,
        ),
        Queries.parse(MEAN, schema=SCHEMA),
    )


@pytest.mark.parametrize("design", ['weights = "W"', 'psu = "AGE"'])
def test_nobody_is_told_to_leave_weights_or_psus_out(design):
    with pytest.raises(UsageError, match="cannot be filled yet in samples with weights or psus") as refused:
        ways("model", design=design)
    assert 'how = "ignore"' in refused.value.hint
    assert "leave" not in refused.value.hint


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_imputed_answers_say_what_they_would_take(delta):
    ((filling, share),) = ways("impute").filled
    with pytest.raises(UsageError, match="query 'mean pay': each of 4 imputed answers") as refused:
        Laws.of(filling, budget=Budget.of(Fraction(3), Fraction(delta), unit=SCHEMA.unit), share=share)
    hint = refused.value.hint
    assert "an epsilon of 3.24 with --delta 0" in hint
    assert 'how = "model"' in hint
    assert Laws.of(filling, budget=Budget.of(Fraction("3.24"), Fraction(0), unit=SCHEMA.unit), share=share)


def test_two_queries_and_a_share_count_in_what_they_would_take():
    more = MEAN + '[[query]]\nname = "poor"\nstatistic = "proportion"\nthat = "PAY <= 10"\n'
    queries = Queries.parse(more + '[[query]]\nstatistic = "count"\n', schema=SCHEMA)
    design = Design.parse('[missing.PAY]\nhow = "impute"\nmatch = ["AGE"]\n', schema=SCHEMA)
    ((filling, share),) = Ways.of(design, queries).filled
    with pytest.raises(UsageError, match="queries 'mean pay', 'poor': each of 5") as refused:
        Laws.of(filling, budget=Budget.of(Fraction(5), Fraction(0), unit=SCHEMA.unit), share=share)
    assert "an epsilon of 5.95 with" in refused.value.hint


def test_a_column_in_the_place_of_sizes_of_strata_is_refused():
    with pytest.raises(SchemaError, match="a column cannot be named here") as refused:
        Design.parse('[design]\nfpc = "W"\n', schema=SCHEMA)
    assert "one for each stratum: fpc = { north = 40" in refused.value.hint
    with pytest.raises(SchemaError, match="one for each stratum"):
        Design(schema=SCHEMA, fpc="W")


def test_a_cap_that_no_weight_reaches_is_refused():
    with pytest.raises(SchemaError, match="most_weight is 51, and 'W' goes to 50 in the schema"):
        Design(schema=SCHEMA, weights="W", most_weight=51)
    assert Design(schema=SCHEMA, weights="W", most_weight=50).heaviest == 50
