"""Small-area estimates: the area-level model against its own formulas, and how often intervals hold the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import UsageError
from populace.survey.estimate_result import Estimate
from populace.survey.small_areas import CONSTANT, fit_area_variance, small_areas


def make_rows(direct, errors, *, query="poor", noise=None):
    noise = np.zeros(len(direct)) if noise is None else noise
    return [
        Estimate(
            query=query,
            group=(("area", f"a{number}"),),
            estimate=None if np.isnan(y) else float(y),
            sampling_error=float(s),
            privacy_error=float(t),
        )
        for number, (y, s, t) in enumerate(zip(direct, errors, noise, strict=True))
    ]


def by_area(values):
    return {(("area", f"a{number}"),): float(value) for number, value in enumerate(values)}


def draw(rng, *, areas=40, between=1.0):
    x, errors = rng.normal(size=areas), rng.uniform(0.5, 2.0, areas)
    truth = 3 + 2 * x + np.sqrt(between) * rng.normal(size=areas)
    return x, errors, truth, truth + errors * rng.normal(size=areas)


def restricted_likelihood(between, y, design, variances):
    weight = 1 / (between + variances)
    crossed = design.T @ (weight[:, None] * design)
    beta = np.linalg.solve(crossed, design.T @ (weight * y))
    residual = y - design @ beta
    return -0.5 * (-np.log(weight).sum() + np.linalg.slogdet(crossed)[1] + (weight * residual**2).sum())


def test_the_variance_between_areas_is_the_restricted_maximum_likelihood():
    rng = np.random.default_rng(4)
    x, errors, _, y = draw(rng)
    design = np.stack([np.ones_like(x), x], axis=1)
    found = fit_area_variance(y, design, errors**2)
    grid = np.linspace(max(found - 0.5, 0), found + 0.5, 2001)
    best = grid[np.argmax([restricted_likelihood(each, y, design, errors**2) for each in grid])]
    assert found == pytest.approx(best, abs=6e-4)


def test_estimates_and_errors_are_those_of_the_formulas():
    rng = np.random.default_rng(5)
    x, errors, _, y = draw(rng, areas=12, between=9.0)
    noise = np.full(12, 0.7)
    found = small_areas(make_rows(y, errors, noise=noise), query="poor", covariates={"x": by_area(x)})
    psi, a = errors**2 + 0.49, found.area_variance
    assert a > 0
    design = np.stack([np.ones(12), x], axis=1)
    v = np.diag(a + psi)
    q = np.linalg.inv(design.T @ np.linalg.inv(v) @ design)
    beta = q @ design.T @ np.linalg.inv(v) @ y
    assert list(found.coefficients) == [CONSTANT, "x"]
    assert list(found.coefficients.values()) == pytest.approx(beta.tolist())
    gamma = a / (a + psi)
    assert [area.weight for area in found.areas] == pytest.approx(gamma.tolist())
    eblup = gamma * y + (1 - gamma) * (design @ beta)
    assert [area.estimate for area in found.areas] == pytest.approx(eblup.tolist())
    g1, g2 = gamma * psi, (1 - gamma) ** 2 * np.diag(design @ q @ design.T)
    g3 = psi**2 / (a + psi) ** 3 * 2 / (1 / (a + psi) ** 2).sum()
    assert [area.error**2 for area in found.areas] == pytest.approx((g1 + g2 + 2 * g3).tolist())


def test_a_suppressed_area_has_what_the_covariates_say():
    rng = np.random.default_rng(6)
    x, errors, _, y = draw(rng, areas=15)
    y[3] = np.nan
    found = small_areas(make_rows(y, errors), query="poor", covariates={"x": by_area(x)})
    area = found.areas[3]
    assert (area.direct, area.weight) == (None, 0.0)
    assert area.estimate == pytest.approx(found.coefficients[CONSTANT] + found.coefficients["x"] * x[3])
    assert area.error**2 > found.area_variance


@pytest.mark.slow
def test_intervals_hold_the_truth_and_errors_fall():
    # 200 draws of 30 areas: pooled coverage has a deviation below 0.5 %, so that the limits fail by chance 1e-4.
    rng = np.random.default_rng(7)
    held, gain, mse = [], [], []
    for _ in range(200):
        x, errors, truth, y = draw(rng, areas=30)
        found = small_areas(make_rows(y, errors), query="poor", covariates={"x": by_area(x)})
        estimate, error = (
            np.array([getattr(area, key) for area in found.areas]) for key in ("estimate", "error")
        )
        low, high = (np.array([getattr(area, key) for area in found.areas]) for key in ("low", "high"))
        held.append(((low <= truth) & (truth <= high)).mean())
        gain.append(((estimate - truth) ** 2).mean() / ((y - truth) ** 2).mean())
        mse.append((error**2).mean() / ((estimate - truth) ** 2).mean())
    assert 0.93 < np.mean(held) < 0.975
    assert np.mean(gain) < 0.7
    assert 0.9 < np.mean(mse) < 1.25


def test_refusals(tmp_path: Path):
    rows = make_rows(np.arange(8.0), np.ones(8))
    with pytest.raises(UsageError, match="no estimates of 'rich'"):
        small_areas(rows, query="rich")
    with pytest.raises(UsageError, match="3 groups"):
        small_areas(rows[:3], query="poor")
    with pytest.raises(UsageError, match="no number for area = a7"):
        small_areas(rows, query="poor", covariates={"x": by_area(np.arange(7))})
    with pytest.raises(UsageError, match="8 groups"):
        small_areas(rows, query="poor", covariates={"x": by_area(np.ones(8))})
    path = tmp_path / "areas.csv"
    for text, words in (("area\na1\n", "no other column"), ("area,x\na1,much\n", "no number"), ("", "lacks")):
        path.write_text(text, "utf-8")
        with pytest.raises(UsageError, match=words):
            small_areas(rows, query="poor", covariates=path)
    with pytest.raises(UsageError, match="no file"):
        small_areas(rows, query="poor", covariates=tmp_path / "none.csv")


@pytest.mark.slow
def test_the_command_reads_a_folder_of_estimates(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rng = np.random.default_rng(8)
    schema = pp.Schema.from_sizes({"area": 8, "poor": 2})
    area = rng.integers(0, 8, 2_000)
    table = {"area": area, "poor": (rng.random(2_000) < 0.2 + 0.05 * area).astype(int)}
    queries = pp.Queries.parse(
        '[[query]]\nname = "poor"\nstatistic = "mean"\ncolumn = "poor"\nby = ["area"]', schema=schema
    )
    import pyarrow as pa

    made = pp.estimate(
        pa.table(table), schema=schema, design=pp.Design(schema=schema), queries=queries, epsilon=2,
        dataset="areas", ledger=tmp_path / "ledger.db",
    )  # fmt: skip
    made.save(tmp_path / "estimates", report=False)
    (tmp_path / "areas.csv").write_text("area,number\n" + "".join(f"{n},{n}\n" for n in range(8)), "utf-8")
    asked = ["smallarea", str(tmp_path / "estimates"), "--query", "poor"]
    assert main([*asked, "--covariates", str(tmp_path / "areas.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["coefficients"]["number"] == pytest.approx(0.05, abs=0.03)
    assert all(row["low"] < row["estimate"] < row["high"] for row in told["areas"])
    assert main([*asked, "--out", str(tmp_path / "found.csv")]) == 0
    assert "estimate" in (tmp_path / "found.csv").read_text("utf-8")
    assert main(asked) == 0
    assert "direct_error" in capsys.readouterr().out
    assert main([*asked[:-1], "none"]) == 2
