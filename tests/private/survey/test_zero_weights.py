"""Rows without a weight above 0 do not count, in no sum and whatever is asked, as designs and statements say."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.api.estimate import estimate
from populace.core.marginals import Marginal
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.privacy.sensitivity.poststratification import Binning
from populace.private.survey import weighted_answers as weighted
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.queries import Queries
from populace.survey.smooth_questions import BaseWeights, BinChoice, WeightedQuestion
from populace.survey.variance.public_estimates import estimate_public_rows

SCHEMA = """
[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.weight]
kind = "numeric"
min = -5
max = 10
width = 5
"""
QUERIES = """
[[query]]
name = "rows"
statistic = "frequency"
where = "sex == 'f'"

[[query]]
name = "people"
statistic = "count"
where = "sex == 'f'"

[[query]]
name = "women"
statistic = "proportion"
that = "sex == 'f'"
"""
NO_WEIGHT = [0.0] * 500 + [-3.0] * 300 + [None] * 100
FRAME = pa.table(
    {"sex": ["f", "m"] * 550, "weight": [*NO_WEIGHT, *[2.0] * 120, *[10.0] * 80]},
)


def test_private_rows_count_as_public_ones_do(tmp_path: Path) -> None:
    schema = Schema.parse(SCHEMA)
    design = Design.parse('[design]\nweights = "weight"\n', schema=schema)
    queries = Queries.parse(QUERIES, schema=schema)
    private = estimate(
        FRAME,
        schema=schema,
        design=design,
        queries=queries,
        epsilon=100_000,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(1)),
    ).rows
    public = estimate_public_rows(FRAME, design=design, queries=queries)
    for one, other in zip(private, public, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-3)
        if other.sampling_error is not None:
            assert one.sampling_error == pytest.approx(other.sampling_error, rel=0.02)
            assert one.degrees == pytest.approx(199, abs=1)


def test_bins_hold_no_row_without_a_weight() -> None:
    schema = Schema.parse(SCHEMA)
    numbers = np.array([0.0, -3.0, np.nan, 2.0, 10.0])
    codes = {"sex": np.array([0, 0, 1, 0, 1]), "weight": np.zeros(5, dtype=np.int64)}
    kept = {name: column[3:] for name, column in codes.items()}
    every = SurveyRows(codes=codes, numbers={"weight": numbers})
    drawn = SurveyRows(codes=kept, numbers={"weight": numbers[3:]})
    by = Marginal(("sex",))
    cells = by.shape(schema.domain)[0]
    alone = Binning(name="alone", bins=tuple((each,) for each in range(cells)))
    joined = Binning(name="joined", bins=(tuple(range(cells)),))
    populations = (Fraction(1000),) * cells
    base = BaseWeights(column="weight", unit=Fraction(1), largest=10)
    question = WeightedQuestion(by=by, binning=joined, populations=populations, where="sex == 'f'", base=base)
    one, other = (weighted.answer(rows, question, schema) for rows in (every, drawn))
    assert one[0] == other[0]
    assert one[1]().overlaps(other[1]())
    choice = BinChoice(by=by, binnings=(alone, joined), populations=populations, base=base)
    assert weighted.scores(every, choice, schema) == weighted.scores(drawn, choice, schema)
