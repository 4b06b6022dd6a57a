"""Nonresponse: a logistic model, given or learnt, that hides answers and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from populace.core.errors import SchemaError, UsageError
from populace.privacy.ledger.ledger import Ledger
from populace.studies.nonresponse import (
    drop_answers,
    fit_logistic,
    learn_coefficients,
    nonresponse_probabilities,
)
from populace.studies.truths import digest_inputs
from tests.helpers.small_studies import open_runs

MODEL = """
[nonresponse]
column = "income"
code = "refused"
intercept = -2

[nonresponse.coefficients]
"age" = 0.02
"sex == 'male'" = 1
"""


def test_probabilities_follow_the_coefficients_and_spare_those_who_are_not_asked(tmp_path):
    runs = open_runs(tmp_path, more=MODEL)
    rows = runs.truth.rows
    found = nonresponse_probabilities(runs.study.nonresponse, rows)
    x = -2 + 0.02 * rows.numbers("age") + rows.meets("sex == 'male'")
    asked = rows.known("income")
    assert found[asked] == pytest.approx(1 / (1 + np.exp(-x[asked])))
    assert (~asked).any()
    assert not found[~asked].any()


def test_missing_answers_are_codes_of_the_schema(tmp_path):
    runs = open_runs(tmp_path, more=MODEL)
    silent = np.zeros(runs.truth.size, dtype=bool)
    silent[:3] = True
    table = drop_answers(runs.truth.table, runs.study.nonresponse, silent=silent)
    assert table["income"].to_pylist()[:3] == ["refused"] * 3
    assert table.slice(3).equals(runs.truth.table.slice(3))
    assert table.column_names == runs.truth.table.column_names


def test_coefficients_are_learnt_from_a_file(tmp_path):
    runs = open_runs(tmp_path, more=MODEL, truth='[truth]\npopulation = "embedded"\nhouseholds = 4000\n')
    table, _ = runs.survey(0)
    pq.write_table(table, tmp_path / "public.parquet")
    learn = (
        '[nonresponse]\ncolumn = "income"\ncode = "refused"\nlearn = "public.parquet"\npublic = true\n'
        'terms = ["sex == \'male\'", "age"]\n'
    )
    where = open_runs(tmp_path, more=learn)
    found = learn_coefficients(where.study.nonresponse, schema=where.truth.schema)
    # Those under 15 are not asked and do not count. Five standard errors: the largest is about 0.1.
    assert found == pytest.approx([-2, 1, 0.02], abs=0.5)
    assert found[1] == pytest.approx(1, abs=0.35)
    assert where.truth.internal == ""


OTHER_WORDS = """
[nonresponse]
column = "income"
code = "refused"
learn = "other.csv"
public = true
schema = "other.toml"
learn_column = "PINCP"
[nonresponse.terms]
"sex == 'male'" = "SEX == '1'"
"""


def test_a_file_of_another_schema_says_the_same_in_its_own_words(tmp_path):
    (tmp_path / "other.toml").write_text(
        '[table]\ndataset = "elsewhere"\n[columns.SEX]\nkind = "categorical"\nvalues = ["1", "2"]\n'
        '[columns.PINCP]\nkind = "integer"\nmin = 0\nmax = 9\nmissing = ["-1"]\n'
    )
    # One of four men does not answer, and one of two women.
    (tmp_path / "other.csv").write_text("SEX,PINCP\n" + "1,3\n1,4\n1,5\n1,-1\n2,3\n2,-1\n" * 5)
    where = open_runs(tmp_path, more=OTHER_WORDS)
    found = learn_coefficients(where.study.nonresponse, schema=where.truth.schema)
    assert found == pytest.approx([0, -np.log(3)])
    rows = where.truth.rows
    chances = nonresponse_probabilities(where.study.nonresponse, rows)
    men = rows.meets("sex == 'male'") & rows.known("income")
    assert chances[men] == pytest.approx(0.25)
    assert where.truth.internal == ""
    before = digest_inputs(where.study)
    (tmp_path / "other.toml").write_text((tmp_path / "other.toml").read_text() + "# changed\n")
    assert digest_inputs(where.study) != before


def test_a_dataset_of_the_ledger_that_is_learnt_from_makes_the_study_internal(tmp_path):
    test_a_file_of_another_schema_says_the_same_in_its_own_words(tmp_path)
    Ledger.open(tmp_path / "ledger.db").open_account("elsewhere", epsilon=1, delta=0)
    assert "'elsewhere' has an account" in open_runs(tmp_path, more=OTHER_WORDS).truth.internal


def test_half_a_translation_is_refused(tmp_path):
    with pytest.raises(SchemaError, match="called otherwise"):
        open_runs(tmp_path, more=OTHER_WORDS.replace('learn_column = "PINCP"', ""))


def test_logistic_regression_finds_its_own_coefficients():
    rng = np.random.default_rng(5)
    x = np.stack([np.ones(20_000), rng.normal(size=20_000)], axis=1)
    y = rng.random(20_000) < 1 / (1 + np.exp(-(x @ [-1.0, 0.7])))
    # Standard errors are about 0.02: five of them.
    assert fit_logistic(x, y) == pytest.approx([-1.0, 0.7], abs=0.1)


def test_terms_that_decide_alone_are_refused():
    x = np.array([[1.0, 0.0]] * 4 + [[1.0, 1.0]] * 4)
    with pytest.raises(UsageError, match="does not converge"):
        fit_logistic(x, x[:, 1] == 1)
