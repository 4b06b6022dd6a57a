"""Weights adjusted by cells: for item nonresponse and public totals, with weights, PSUs and every statistic."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.private.private_table import PrivateTable
from populace.private.survey.hot_deck import fill_rows
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows
from tests.helpers.survey_oracle import FakeSurvey, answer_directly, plan_queries

SCHEMA = Schema.parse("""
[columns.H]
kind = "integer"
min = 0
max = 3
[columns.PSU]
kind = "integer"
min = 0
max = 4
[columns.G]
kind = "integer"
min = 0
max = 2
[columns.X]
kind = "integer"
min = 0
max = 50
missing = ["-9"]
[columns.W]
kind = "numeric"
min = 0
max = 4
width = 1
""")
DESIGNS = {
    "rows": "[design]\n",
    "weights": '[design]\nweights = "W"\n',
    "psus": '[design]\nweights = "W"\nstrata = "H"\npsu = "PSU"\n',
}
# Groups of a query that are no whole cells are told by adjusted weights.
MISSING = '[missing.X]\nhow = "model"\nmatch = ["G"]\n'
ALL = """
[[query]]
statistic = "mean"
column = "X"
low = 1
[[query]]
statistic = "proportion"
that = "X >= 20"
by = ["H"]
[[query]]
statistic = "count"
where = "X >= 20"
[[query]]
statistic = "total"
column = "X"
[[query]]
statistic = "variance"
column = "X"
[[query]]
statistic = "quantile"
column = "X"
p = 0.5
"""


def sample(size: int = 20_000, seed: int = 3) -> tuple[pa.Table, dict[str, np.ndarray]]:
    """Rows of three groups that differ in X and in how many of them answer."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, size)
    x = np.clip(np.rint(10 + 10 * group + 5 * rng.standard_normal(size)), 0, 50).astype(int)
    weight = rng.choice([1.0, 2.0, 3.0], size)
    lost = rng.random(size) < np.array([0.1, 0.3, 0.6])[group]
    columns = {"H": rng.integers(0, 4, size), "PSU": rng.integers(0, 5, size), "G": group}
    table = pa.table({**columns, "X": np.where(lost, -9, x), "W": weight})
    return table, {"x": x, "w": weight, "g": group, "h": columns["H"]}


FILLED = '[missing.X]\nhow = "impute"\nmatch = ["G"]\nmax_uses = 2\n'


@pytest.mark.parametrize("missing", [MISSING, FILLED], ids=["model", "impute"])
@pytest.mark.parametrize("name", DESIGNS)
def test_respondents_stand_for_their_cell_in_every_statistic(name: str, missing: str) -> None:
    table, known = sample()
    design = Design.parse(DESIGNS[name] + missing, schema=SCHEMA)
    queries = Queries.parse(ALL, schema=SCHEMA)
    oracle = FakeSurvey(table, schema=SCHEMA, epsilon="400", noise=0.0)
    found = answer_directly(oracle, design=design, queries=queries)
    x, w = known["x"], known["w"] if name != "rows" else np.ones(len(known["x"]))
    mean = np.average(x, weights=w)
    order = np.argsort(x)
    truth = [
        np.average(np.maximum(x, 1), weights=w),
        *(np.average(x[known["h"] == h] >= 20, weights=w[known["h"] == h]) for h in range(4)),
        w[x >= 20].sum(),
        w @ x,
        np.average((x - mean) ** 2, weights=w),
        x[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)],
    ]
    plain = np.average(x[np.array(table["X"]) != -9])
    assert abs(plain - mean) > 2  # leaving them out is wrong
    for row, exact in zip(found, truth, strict=True):
        assert row.estimate == pytest.approx(exact, rel=0.03)
        assert row.low < exact < row.high


def test_totals_are_met_by_means_and_shares_of_clusters() -> None:
    table, _ = sample()
    counts = "{ 0 = 30000, 1 = 20000, 2 = 10000 }"
    design = Design.parse(DESIGNS["psus"] + f'[[totals]]\nby = ["G"]\ncounts = {counts}\n', schema=SCHEMA)
    text = """
[[query]]
statistic = "mean"
column = "G"
[[query]]
statistic = "count"
[[query]]
statistic = "quantile"
column = "X"
p = 0.5
"""
    oracle = FakeSurvey(table, schema=SCHEMA, epsilon="400", noise=0.0)
    mean, count, _ = answer_directly(oracle, design=design, queries=Queries.parse(text, schema=SCHEMA))
    assert mean.estimate == pytest.approx(2 / 3, abs=0.01)
    assert count.estimate == pytest.approx(60_000, rel=0.01)


@pytest.mark.slow
def test_noise_of_factors_is_part_of_the_privacy_error() -> None:
    """Estimates of 60 runs move by what is told, never more, and by a third of it at least."""
    table, _ = sample(4_000)
    design = Design.parse(DESIGNS["weights"] + MISSING, schema=SCHEMA)
    # Squares of its scores are told exactly; those of a mean are bounded by the range.
    moved, told = move(table, design, 'statistic = "proportion"\nthat = "X >= 20"', epsilon="0.5")
    assert 1 / 3 < moved[0] / told[0] < 1.1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adjusted", ["filled", "totals"])
def test_a_small_group_is_told_the_noise_of_its_own_factor(adjusted: str) -> None:
    """One row of twenty is in the third cell, whose factor is the least sure and moves all of the group."""
    table, held = sample(8_000)
    few = table.filter(pa.array((held["g"] < 2) | (np.arange(8_000) % 10 == 0)))
    totals = '[[totals]]\nby = ["G"]\ncounts = { 0 = 5000, 1 = 5000, 2 = 500 }\n'
    asked = 'statistic = "total"\ncolumn = "X"\nby = ["G"]'
    design = Design.parse(DESIGNS["weights"] + (MISSING if adjusted == "filled" else totals), schema=SCHEMA)
    moved, told = move(few, design, asked, epsilon="4")
    assert 1 / 3 < moved[2] / told[2] < 1.2


def move(table: pa.Table, design: Design, query: str, *, epsilon: str) -> tuple[np.ndarray, np.ndarray]:
    """Return how far noise moves each estimate of a query in 60 runs, and what is told of it."""
    queries = Queries.parse(f"[[query]]\n{query}", schema=SCHEMA)
    runs = [
        answer_directly(
            FakeSurvey(table, schema=SCHEMA, epsilon=epsilon, seed=seed), design=design, queries=queries
        )
        for seed in range(60)
    ]
    moved = np.std([[row.estimate for row in run] for run in runs], axis=0)
    return moved, np.median([[row.privacy_error for row in run] for run in runs], axis=0)


@pytest.mark.parametrize(
    ("design", "query", "hint"),
    [
        (
            DESIGNS["weights"] + MISSING.replace("model", "impute") + 'k = 3\ntake = "mean"\n',
            'statistic = "mean"\ncolumn = "X"',
            "leave k",
        ),
    ],
)
def test_what_does_not_combine_is_refused_with_what_does(design: str, query: str, hint: str) -> None:
    queries = Queries.parse(f"[[query]]\n{query}", schema=SCHEMA)
    with pytest.raises(UsageError) as refused:
        plan_queries(Design.parse(design, schema=SCHEMA), queries)
    assert hint in refused.value.hint


@pytest.mark.parametrize("missing", [MISSING, FILLED], ids=["model", "impute"])
def test_a_frequency_counts_filled_rows_with_the_error_of_imputation(missing: str) -> None:
    """It is of rows: weights do not count, and what imputation leaves open is its only error but noise."""
    table, known = sample()
    queries = Queries.parse('[[query]]\nstatistic = "frequency"\nwhere = "X >= 20"', schema=SCHEMA)
    oracle = FakeSurvey(table, schema=SCHEMA, epsilon="400", noise=0.0)
    (found,) = answer_directly(
        oracle, design=Design.parse(DESIGNS["psus"] + missing, schema=SCHEMA), queries=queries
    )
    exact = int((known["x"] >= 20).sum())
    assert found.estimate == pytest.approx(exact, rel=0.02)
    assert found.low < exact < found.high
    assert found.sampling_error is None
    assert found.degrees is None
    assert found.imputation_error > 50


def test_imputation_adds_to_errors_and_fewer_uses_leave_more_rows_to_weights() -> None:
    """With 60 % missing in one group and f rows for each respondent of it, errors are f times those of filled rows."""
    table, _ = sample()
    queries = Queries.parse('[[query]]\nstatistic = "mean"\ncolumn = "X"', schema=SCHEMA)
    oracle = FakeSurvey(table, schema=SCHEMA, epsilon="400", noise=0.0)
    found = []
    for uses in (1, 2, 8):
        design = Design.parse(FILLED.replace("= 2", f"= {uses}"), schema=SCHEMA)
        (row,) = answer_directly(oracle, design=design, queries=queries)
        # Of 60 %, 0.6^(uses + 1) are left over, in clumps.
        added = 2.5**2 - 1 + 0.6 ** (uses + 1) * 1.6 / 0.4
        assert row.imputation_error == pytest.approx(row.sampling_error * added**0.5, rel=0.05)
        found.append(row)
    # More uses take more noise, since one row then changes more others.
    assert found[1].privacy_error < found[2].privacy_error
    assert len({row.estimate for row in found}) == 3


def test_uses_of_donors_are_those_of_the_design() -> None:
    queries = Queries.parse('[[query]]\nstatistic = "count"\nwhere = "X >= 20"', schema=SCHEMA)
    for text, uses in ((FILLED, 2), (FILLED.replace("= 2", "= 7"), 7), (FILLED.split("max_uses")[0], 2)):
        (adjusted,) = plan_queries(Design.parse(text, schema=SCHEMA), queries).adjusted
        asked = [each for each in adjusted.plan_sums(None).shares if each.filled is not None]
        assert {each.filled.max_uses for each in asked} == {uses}
        # What respondents of cells weigh is counted as it is.
        assert all(each.filled is None for each in adjusted.first[0])


@pytest.mark.parametrize(
    "text",
    ["max_uses = 0", "max_uses = 101", 'max_uses = 2\nties = "lowest"', 'max_uses = 2\nk = 2\ntake = "mean"'],
)
def test_uses_that_no_donor_can_have_are_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="donors cannot be used"):
        Design.parse(FILLED.replace("max_uses = 2", text), schema=SCHEMA)


@pytest.mark.parametrize("name", DESIGNS)
def test_without_noise_estimates_are_those_of_the_filled_file(name: str) -> None:
    """Where every row finds a donor: to six digits what R's survey package gives for the file as it was filled.

    `estimate_public_rows` is held against R in tests/slow/test_r_survey.py.
    """
    table, _ = sample(4000)
    text = FILLED.replace("max_uses = 2", "max_uses = 40")
    design, queries = Design.parse(DESIGNS[name] + text, schema=SCHEMA), Queries.parse(ALL, schema=SCHEMA)
    rows = PrivateTable.of(table, schema=SCHEMA).survey_rows()
    filled = fill_rows(rows, design.missing["X"].hot_deck(SCHEMA), schema=SCHEMA, key="").numbers["X"]
    whole = table.set_column(table.column_names.index("X"), "X", pa.array(filled.astype(np.int64)))
    plain = Design.parse(DESIGNS[name], schema=SCHEMA)
    expected = {
        (row.query, row.group): row for row in estimate_public_rows(whole, design=plain, queries=queries)
    }
    oracle = FakeSurvey(table, schema=SCHEMA, epsilon="4000", noise=0.0)
    for row in answer_directly(oracle, design=design, queries=queries):
        # Quantiles are read off noisy bins, and variances are divided by n: both as for rows without missing answers.
        if not row.query.startswith(("quantile", "variance")):
            assert row.estimate == pytest.approx(expected[row.query, row.group].estimate, rel=5e-6)
