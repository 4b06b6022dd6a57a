"""Estimates from noisy sums: without noise they are those of the rows, with noise they say how far off they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import PopulaceError, SchemaError
from populace.measurements.answer_record import AnswerRecord
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_queries
from populace.survey.design.design import Design
from populace.survey.estimate_notes import SUPPRESSED, VARIANCE_NOT_ESTIMABLE
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.survey_transcript import SurveyRecorder, SurveyReplay
from populace.survey.variance.confidence_intervals import NoiseTerms, SamplingVariance, half_width
from populace.survey.variance.public_estimates import estimate_public_rows
from tests.helpers.survey_oracle import FakeSurvey, answer_directly, plan_queries

SCHEMA = Schema.parse("""
[table]
unit = "person"

[columns.stratum]
kind = "categorical"
values = ["a", "b", "c"]

[columns.psu]
kind = "integer"
min = 1
max = 4

[columns.weight]
kind = "numeric"
min = 0
max = 50
width = 1

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.age]
kind = "integer"
min = 0
max = 99

[columns.income]
kind = "numeric"
min = 0
max = 1000
width = 10
missing = ["refused"]
""")
QUERIES = """
[[query]]
statistic = "mean"
column = "income"
[[query]]
statistic = "mean"
column = "income"
by = ["sex"]
[[query]]
statistic = "total"
column = "income"
where = "age >= 18"
[[query]]
statistic = "count"
by = ["sex", "stratum"]
[[query]]
statistic = "proportion"
column = "sex"
[[query]]
statistic = "proportion"
that = "age >= 65"
by = ["sex"]
[[query]]
statistic = "ratio"
column = "income"
y = "age"
[[query]]
statistic = "correlation"
column = "income"
y = "age"
[[query]]
statistic = "frequency"
where = "age < 18"
"""
DESIGNS = {
    "rows": '[design]\nweights = "weight"',
    "rows of strata": '[design]\nweights = "weight"\nstrata = "stratum"\nfpc = { a = 5000, b = 4000, c = 3000 }',
    "base weights": '[design]\nbase = { a = 10, b = 20, c = 2.5 }\nstrata = "stratum"\nfpc = 0.1',
    "psus": '[design]\nweights = "weight"\nstrata = "stratum"\npsu = "psu"',
    "psus of base weights": '[design]\nbase = { a = 10, b = 20, c = 2.5 }\nstrata = "stratum"\npsu = "psu"\nfpc = 0.2',
    "some psus": '[design]\nstrata = "stratum"\npsu = "psu"\n[design.psus]\na = ["1", "2"]\nb = ["1", "3", "4"]',
}


def rows(count: int = 600, *, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, 3, count)
    psu = rng.integers(1, 5, count)
    age = rng.integers(0, 100, count)
    income = np.clip(rng.normal(300 + 100 * stratum + 2 * age + 30 * psu, 100), 0, 1000).round(2)
    told = [str(value) for value in income]
    for place in np.flatnonzero(rng.random(count) < 0.1):
        told[place] = "refused"
    return pa.table(
        {
            "stratum": np.array(list("abc"))[stratum],
            "psu": psu,
            "weight": rng.integers(1, 50, count).astype(float),
            "sex": np.array(list("fm"))[rng.integers(0, 2, count)],
            "age": age,
            "income": told,
        }
    )


TABLE = rows()


def asked(name: str, text: str = QUERIES) -> tuple[Design, Queries]:
    return Design.parse(DESIGNS[name], schema=SCHEMA), Queries.parse(text, schema=SCHEMA)


def played(
    transcript: list[AnswerRecord], *, design: Design, queries: Queries, budget: Budget
) -> tuple[Estimate, ...]:
    player = SurveyReplay(transcript, schema=SCHEMA)
    found = answer_queries(player, plan=QueryPlan.of(design, queries, budget=budget))
    player.finish()
    return found


def close(one: Estimate, other: Estimate, *, noise_of_variance: float = 2.0) -> None:
    assert (one.query, one.group) == (other.query, other.group)
    assert one.estimate == pytest.approx(other.estimate, rel=1e-4)
    if other.sampling_error is not None:
        assert one.sampling_error == pytest.approx(other.sampling_error, rel=1e-2, abs=noise_of_variance)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DESIGNS)
def test_without_noise_estimates_are_those_of_the_rows(name: str) -> None:
    design, queries = asked(name)
    oracle = FakeSurvey(TABLE, schema=SCHEMA, epsilon="1000000", noise=0.0)
    found = answer_directly(oracle, design=design, queries=queries)
    for one, other in zip(found, estimate_public_rows(TABLE, design=design, queries=queries), strict=True):
        close(one, other)


@pytest.mark.parametrize(("name", "delta"), [("rows of strata", "0"), ("psus", "1e-6")])
@pytest.mark.slow
def test_errors_say_how_far_noise_moves_estimates(name: str, delta: str) -> None:
    design, queries = asked(name)
    exact = answer_directly(
        FakeSurvey(TABLE, schema=SCHEMA, epsilon="1000000", noise=0.0), design=design, queries=queries
    )
    off = []
    for seed in range(5):
        oracle = FakeSurvey(TABLE, schema=SCHEMA, epsilon="60", delta=delta, seed=seed)
        for one, truth in zip(answer_directly(oracle, design=design, queries=queries), exact, strict=True):
            if one.estimate is not None and truth.estimate is not None and one.privacy_error:
                off.append((one.estimate - truth.estimate) / one.privacy_error)
    # Some hundred errors, not all independent: their mean square is far from that of half or twice the noise.
    assert 0.6 < np.mean(np.square(off)) < 1.7


def test_a_group_that_is_lost_in_noise_is_not_told() -> None:
    text = '[[query]]\nstatistic = "mean"\ncolumn = "income"\nwhere = "age == 7"\nby = ["sex"]'
    design, queries = asked("rows", text)
    found = answer_directly(FakeSurvey(TABLE, schema=SCHEMA, epsilon="0.01"), design=design, queries=queries)
    assert [(row.estimate, row.note) for row in found] == [(None, SUPPRESSED)] * 2


def test_a_sampling_error_that_noise_hides_says_so() -> None:
    for text, epsilon, note in (
        ('statistic = "count"', "0.05", VARIANCE_NOT_ESTIMABLE),
        ('statistic = "proportion"\ncolumn = "sex"', "0.5", VARIANCE_NOT_ESTIMABLE),
        ('statistic = "proportion"\ncolumn = "sex"', "500", ""),
    ):
        design, queries = asked("psus", f"[[query]]\n{text}")
        found, *_ = answer_directly(
            FakeSurvey(TABLE, schema=SCHEMA, epsilon=epsilon), design=design, queries=queries
        )
        assert found.note == note
        assert found.sampling_error > 0


def test_replicate_weights_without_noise_are_those_of_the_rows() -> None:
    """Jackknife weights: each leaves out a quarter of the rows."""
    quarter = np.arange(TABLE.num_rows) % 4
    weight = TABLE["weight"].to_numpy()
    table, text = TABLE, ""
    for number in range(4):
        own = np.where(quarter == number, 0.0, weight * 4 / 3)
        table = table.append_column(f"w{number}", pa.array(own))
        text += f'\n[columns.w{number}]\nkind = "numeric"\nmin = 0\nmax = 70\nwidth = 10\n'
    schema = Schema.parse(SCHEMA.to_toml() + text)
    design = Design.parse(
        '[design]\nweights = "weight"\nreplicates = { columns = ["w0", "w1", "w2", "w3"], type = "JK1" }',
        schema=schema,
    )
    queries = Queries.parse(QUERIES, schema=schema)
    oracle = FakeSurvey(table, schema=schema, epsilon="1000000", noise=0.0)
    found = answer_directly(oracle, design=design, queries=queries)
    for one, other in zip(found, estimate_public_rows(table, design=design, queries=queries), strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-4)
        if other.sampling_error:
            assert one.sampling_error == pytest.approx(other.sampling_error, rel=0.05)


def test_sums_that_queries_share_are_asked_once() -> None:
    design, queries = asked("psus", QUERIES)
    twice = (queries.queries[0], replace(queries.queries[0], name="again"))
    one, both = (plan_queries(design, Queries(schema=SCHEMA, queries=own)).sums for own in (twice[:1], twice))
    # Half of the budget would compare units in another way, but the estimate is one sum of both.
    own = one.questions[0].sum
    assert own in both.shares
    assert both.shares[own] > Fraction(1, 3)
    whole = plan_queries(design, queries).sums
    assert sum(whole.shares.values()) + sum(whole.second_shares) == 1


def test_a_larger_share_means_less_noise() -> None:
    design, queries = asked("psus")
    first, second, *_ = queries.queries
    plain = plan_queries(design, Queries(schema=SCHEMA, queries=(first, second))).sums
    eager = plan_queries(
        design, Queries(schema=SCHEMA, queries=(replace(first, share=Fraction(3), name="first"), second))
    ).sums
    own = plain.questions[0].sum
    assert plain.shares[own] < eager.shares[own]


def test_the_transcript_gives_the_same_estimates_again_and_no_other() -> None:
    design, queries = asked("psus")
    oracle = FakeSurvey(TABLE, schema=SCHEMA, epsilon="5", delta="1e-6")
    recorder = SurveyRecorder(oracle)
    found = answer_queries(recorder, plan=QueryPlan.of(design, queries, budget=oracle.budget))
    transcript = [AnswerRecord.from_json(each.to_json()) for each in recorder.transcript]
    assert played(transcript, design=design, queries=queries, budget=oracle.budget) == found
    for wrong in (
        transcript[1:],
        [*transcript[:1], *transcript],
        [replace(transcript[0], mechanism={"law": "other"}), *transcript[1:]],
    ):
        with pytest.raises(PopulaceError):
            played(wrong, design=design, queries=queries, budget=oracle.budget)


def test_rows_are_not_told_apart_by_one_column_twice() -> None:
    text = '[[query]]\nstatistic = "proportion"\ncolumn = "sex"\nby = ["sex"]'
    with pytest.raises(SchemaError, match="twice"):
        plan_queries(*asked("rows", text))


def test_an_interval_without_noise_is_that_of_t() -> None:
    """2.776 and 2.228: the 97.5 % points of Student's t with 4 and 10 degrees of freedom."""
    for degrees, quantile in ((4, 2.776), (10, 2.228)):
        assert half_width(SamplingVariance(value=1.0, degrees=degrees), noise=NoiseTerms()) == pytest.approx(
            quantile, rel=1e-3
        )


def test_an_interval_of_both_holds_both() -> None:
    rng = np.random.default_rng(5)
    draws = 2.0 * rng.standard_t(20, 400_000) + sum(rng.laplace(0, scale, 400_000) for scale in (2.0, 1.4))
    spread, noise = SamplingVariance(value=4.0, degrees=20), NoiseTerms(laplace=(2.0, 1.4))
    inside = np.mean(np.abs(draws) <= half_width(spread, noise=noise))
    assert inside == pytest.approx(0.95, abs=0.004)
