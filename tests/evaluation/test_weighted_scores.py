"""Weighted scores: a row of weight k counts as k rows, and what is estimated has the spread that weights give it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import DataError
from populace.core.marginals import Domain
from populace.evaluation.score_row_pair import WITHOUT_WEIGHTS
from populace.evaluation.scores.equivalent_sample_size import CellShares, score_sample_size
from populace.evaluation.scores.logistic_regression import area_under_curve, fit_logistic
from populace.evaluation.scores.marginal_distance import Weights, pair_tables, total_variation
from populace.evaluation.scores.propensity import score_propensity
from populace.evaluation.scores.regression_overlap import fit_coefficients
from tests.evaluation.test_score_files import SCHEMA, people

# The rows that these look at are drawn, and those of a repeated file are others.
DRAWN = ("conjunctions", "prediction_loss", "propensity_mse", "propensity_ratio")
# The features of a repeated file have another mean and spread, and its standard errors are smaller.
DRAWN += ("regression_overlap", "regression_coefficients")


def weigh(table: pa.Table, weights: np.ndarray) -> pa.Table:
    place = table.column_names.index("WEIGHT")
    return table.set_column(place, "WEIGHT", pa.array(weights))


def test_every_score_has_a_weighted_version_or_says_why_not() -> None:
    text = "[[claims]]\nclaim = \"share(SEX == 'f') < 0.9\"\n"
    found = pp.evaluate(
        people(300, 1),
        people(300, 2),
        schema=SCHEMA,
        weights="WEIGHT",
        areas=["AREA"],
        income="INCOME",
        gender="SEX",
        claims=pp.Claims.parse(text, schema=SCHEMA),
    )
    names = {score.name for score in found.scores}
    plain = {name for name in names if not name.endswith("_weighted")}
    assert {name for name in plain if f"{name}_weighted" not in names} == set(WITHOUT_WEIGHTS)
    assert all(any(name in note for note in found.notes) for name in WITHOUT_WEIGHTS)


def test_a_row_of_weight_k_counts_as_k_rows() -> None:
    rng = np.random.default_rng(3)
    # Incomes are cut into bins of equal numbers of real rows, which repeated rows move.
    schema = replace(SCHEMA, columns={n: c for n, c in SCHEMA.columns.items() if n != "INCOME"})
    real, drawn = people(400, 4), people(300, 5)
    first, second = rng.integers(0, 4, 400), rng.integers(1, 4, 300)
    asked = {"schema": schema, "areas": ["AREA"], "subgroups": ["SEX", "JOB"]}
    weighed = pp.evaluate(weigh(real, first), weigh(drawn, second), weights="WEIGHT", **asked)
    repeated = pp.evaluate(
        real.take(np.repeat(np.arange(400), first)), drawn.take(np.repeat(np.arange(300), second)), **asked
    )
    compared = [score for score in repeated.scores if score.name not in (*DRAWN, *WITHOUT_WEIGHTS)]
    assert len(compared) >= 12
    for score in compared:
        assert weighed[f"{score.name}_weighted"].value == pytest.approx(score.value, abs=1e-9), score.name


def test_regressions_and_curves_count_a_row_of_weight_k_as_k_rows() -> None:
    rng = np.random.default_rng(11)
    weights = rng.integers(0, 4, 200)
    codes = {name: rng.integers(0, 2, 200) for name in "xyz"}
    again = {name: np.repeat(column, weights) for name, column in codes.items()}
    domain, ones = Domain(dict.fromkeys("xyz", 2)), np.ones(200)
    held = Weights(ones, weights.astype(float))
    found = fit_coefficients(codes, codes, ({}, {}), domain=domain, weights=held)
    other = fit_coefficients(codes, again, ({}, {}), domain=domain)
    assert [each.synthetic for each in found] == pytest.approx([each.synthetic for each in other])
    features, outcome, score = (
        np.column_stack([codes["x"], codes["y"]]),
        codes["z"].astype(float),
        rng.integers(0, 9, 200),
    )
    model = fit_logistic(features, outcome, weights=held.synthetic)
    twice = fit_logistic(np.repeat(features, weights, axis=0), np.repeat(outcome, weights))
    assert model.coefficients == pytest.approx(twice.coefficients, abs=1e-4)
    area = area_under_curve(score, outcome, weights=held.synthetic)
    assert area == pytest.approx(area_under_curve(np.repeat(score, weights), np.repeat(outcome, weights)))


def test_the_equivalent_size_of_a_weighted_file_is_that_of_a_sample_of_its_population() -> None:
    rng = np.random.default_rng(6)
    codes = {name: rng.integers(0, 5, 800).astype(np.uint8) for name in "abc"}
    domain, weights = Domain(dict.fromkeys("abc", 5)), np.where(codes["a"] < 2, 9.0, 1.0)
    cells = CellShares.of(
        (table for _, table, _ in pair_tables(codes, codes, domain, weights=Weights(weights, weights))),
        rows=800,
    )
    inside = 0
    for _ in range(20):
        places = rng.choice(800, size=500, p=weights / weights.sum())
        sample = {name: column[places] for name, column in codes.items()}
        tables = pair_tables(codes, sample, domain, weights=Weights(weights, np.ones(500)))
        distance = float(np.mean([total_variation(*table) for _, *table in tables]))
        found = score_sample_size(codes, cells=cells, distance=distance, domain=domain, weights=weights)
        inside += found[0].interval[0] <= 500 <= found[0].interval[1]
    # At 95 % fewer than 16 of 20 have a probability of 0.003.
    assert inside >= 16
    assert [each.name for each in found] == ["equivalent_sample_size"]


def test_weighted_standard_errors_are_the_spread_of_weighted_coefficients() -> None:
    rng = np.random.default_rng(7)
    domain, found = Domain({"x": 2, "y": 2}), []
    for _ in range(300):
        codes = {"x": rng.integers(0, 2, 200), "y": rng.integers(0, 2, 200)}
        weights = Weights(rng.exponential(size=200), np.ones(200))
        pair = ({}, {})
        found.append(fit_coefficients(codes, codes, pair, domain=domain, weights=weights)[0])
    spread = np.std([each.real for each in found])
    errors = np.sqrt(np.mean([each.real_error**2 for each in found]))
    # 300 runs give a standard deviation to 4 %; without weights it would be 1/√2 of this.
    assert errors == pytest.approx(spread, rel=0.16)
    assert np.mean([each.synthetic_error for each in found]) == pytest.approx(errors / np.sqrt(2), rel=0.1)


@pytest.mark.slow
def test_the_weighted_propensity_ratio_is_about_one_for_the_same_population() -> None:
    # The mean of 8 ratios, each of a standard deviation of √(2/k) for k of about 30: within 0.36 but for 1 of 10⁴.
    domain, ratios = Domain({"a": 3, "b": 3, "c": 2, "d": 2}), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        files = [
            {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in domain.items()}
            for rows in (1500, 800)
        ]
        weights = Weights(rng.exponential(size=1500), rng.uniform(1, 3, 800))
        ratios.append(score_propensity(*files, ({}, {}), domain=domain, ordered={}, weights=weights)[1].value)
    assert abs(np.mean(ratios) - 1) < 0.36


def test_weights_that_are_all_nought_are_refused() -> None:
    table = people(50, 8)
    with pytest.raises(DataError, match="no row of the real file has a weight above 0"):
        pp.evaluate(weigh(table, np.zeros(50)), people(50, 9), schema=SCHEMA, weights="WEIGHT")
