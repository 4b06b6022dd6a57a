"""Methods of studies: without noise they are exact, with it they have the noise of a release."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.studies.study_methods import METHOD_KINDS, SimulatedSurvey, build_design, draw_piece
from tests.helpers.small_studies import METHOD, open_runs

ALL = '[sample]\ndesign = "all"\n'
COUNTS = """
[[queries]]
name = "women"
statistic = "count"
where = "sex == 'female'"

[[queries]]
name = "old women"
statistic = "count"
where = "sex == 'female' and age >= 60"
within = "age >= 60"
"""


def survey_of(runs, number=0, seed=1):
    table, sample = runs.survey(seed)
    return SimulatedSurvey.of(
        table,
        runs.study.methods[number],
        truth=runs.truth,
        fields=sample.fields,
        queries=runs.study.queries,
        seed=seed,
    )


@pytest.mark.parametrize("kind", ["estimate", "known_size", "synthesize"])
def test_a_census_without_noise_is_the_truth(tmp_path, kind):
    runs = open_runs(tmp_path, sample=ALL, methods=f'[[methods]]\nkind = "{kind}"\n', queries=COUNTS)
    found = METHOD_KINDS[kind](survey_of(runs))
    assert [row.estimate for row in found] == pytest.approx(list(runs.answers.values()))


@pytest.mark.slow
def test_noise_has_the_size_that_estimates_declare(tmp_path):
    """Counts of 50 areas in 4 runs: 200 draws, so a ratio of variances beyond 0.5 to 2 is a fault, not chance.

    The relative error of a variance of 200 Laplace draws is 0.16; noise halved or doubled makes it 0.25 or 4.
    """
    by_area = '[[queries]]\nname = "persons"\nstatistic = "count"\nby = ["area"]\n'
    runs = open_runs(tmp_path, sample=ALL, queries=by_area)
    silent = survey_of(runs)
    alone = np.array([row.estimate for row in METHOD_KINDS["estimate"](silent)])
    squares = []
    for seed in range(4):
        noisy = METHOD_KINDS["estimate"](replace(silent, noise_seed=seed, epsilon=Fraction(1)))
        squares += [
            ((row.estimate - exact) / row.privacy_error) ** 2 for row, exact in zip(noisy, alone, strict=True)
        ]
    assert 0.5 < np.mean(squares) < 2


def test_the_same_seed_gives_the_same_noise(tmp_path):
    survey = replace(survey_of(open_runs(tmp_path)), noise_seed=7, epsilon=Fraction(1))
    first, again = (METHOD_KINDS["estimate"](survey)[0].estimate for _ in range(2))
    other = METHOD_KINDS["estimate"](replace(survey, noise_seed=8))[0].estimate
    assert first == again != other


def test_pieces_part_the_sample_and_weigh_more(tmp_path):
    runs = open_runs(tmp_path, methods=METHOD + "pieces = 4\n")
    table, sample = runs.survey(1)
    survey = survey_of(runs)
    # Persons are put into pieces one by one: within five standard deviations of a quarter.
    assert survey.table.num_rows == pytest.approx(
        table.num_rows / 4, abs=5 * (table.num_rows * 3 / 16) ** 0.5
    )
    assert survey.design.base == 4 * sample.fields["base"]
    first, again = (draw_piece(100, 4, truth=runs.truth, seed=3) for _ in range(2))
    assert np.array_equal(first, again)


def test_totals_are_counted_in_the_population(tmp_path):
    totals = '[[methods.totals]]\nby = ["age"]\nedges = { age = [0, 15, 65] }\n'
    totals += '[[methods.totals]]\nby = ["sex", "tenure"]\n'
    runs = open_runs(tmp_path, methods=METHOD + totals)
    design = build_design(runs.study.methods[0], truth=runs.truth, fields={})
    ages, both = design.totals
    wanted = [runs.truth.count(text) for text in ("age < 15", "age >= 15 and age < 65", "age >= 65")]
    assert list(ages.populations[:3]) == wanted
    assert sum(both.populations) == runs.truth.size


GLOBAL = """
[[methods]]
name = "global"
kind = "global_sensitivity"
missing = { income = { how = "impute", match = ["age", "sex"], widths = { age = 15 } } }
"""
MEAN = '[[queries]]\nname = "income"\nstatistic = "mean"\ncolumn = "income"\n'
SILENT = """
[nonresponse]
column = "income"
code = "refused"
intercept = -2

[nonresponse.coefficients]
"age" = 0.01
"""


@pytest.mark.slow
def test_global_sensitivity_has_noise_for_as_many_rows_as_are_missing(tmp_path):
    schema = Path(__file__).parents[2] / "examples/studies/schemas/people.toml"
    truth = f'[truth]\npopulation = "embedded"\nhouseholds = 300\nschema = "{schema}"\n'
    runs = open_runs(tmp_path, truth=truth, methods=GLOBAL, queries=MEAN, more=SILENT)
    survey = survey_of(runs)
    exact = METHOD_KINDS["global_sensitivity"](survey)[0].estimate
    noisy = [
        METHOD_KINDS["global_sensitivity"](replace(survey, noise_seed=seed, epsilon=Fraction(1)))[0]
        for seed in range(3)
    ]
    assert exact == pytest.approx(runs.answers[("income", ())], rel=0.2)
    assert all(row.low is None for row in noisy)
    # Twenty missing answers and more move a mean of 300 by far more than its sampling error.
    assert max(abs(row.estimate - exact) for row in noisy) > 3000


def test_known_sizes_need_counts(tmp_path):
    runs = open_runs(
        tmp_path,
        methods='[[methods]]\nkind = "known_size"\n',
        queries='[[queries]]\nstatistic = "mean"\ncolumn = "age"\n',
    )
    with pytest.raises(UsageError, match="is no count of a condition"):
        METHOD_KINDS["known_size"](survey_of(runs))
