"""Margins of error of hierarchical estimates: exact where one count decides, right where noise has long tails."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from populace.core.marginals import Domain, Marginal
from populace.core.spine import Spine
from populace.inference.gls.interval_half_width import interval_half_width
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates, choose_filter
from populace.inference.hierarchy.hierarchy_margins import area_margins, unit_margins
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery
from tests.inference.hierarchy.brute_force import DenseProblem, random_plan

NORMAL = NormalDist().inv_cdf(0.975)


def query(*clique: str, variance: float) -> MeasuredQuery:
    return MeasuredQuery(marginal=Marginal(clique), variance=variance)


def estimate(plan: HierarchyPlan) -> HierarchyEstimates:
    """The filter of a plan; margins need no counts."""
    return HierarchyEstimates(form=choose_filter(plan), cells=())


def small_plan(variance: float, *, root: float | None = None, children: int = 4) -> HierarchyPlan:
    first = () if root is None else (query(variance=root),)
    return HierarchyPlan(
        spine=Spine(("all", "block"), (np.zeros(children, dtype=np.int64),)),
        domain=Domain({"x": 3}),
        levels=(LevelQueries(queries=first), LevelQueries(queries=(query("x", variance=variance),))),
    )


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("deviation", [0.5, 1.0, 3.0, 50.0])
def test_a_count_by_itself_has_the_margin_of_its_noise(deviation: float, laplace: bool) -> None:
    found = unit_margins(estimate(small_plan(deviation**2)), ("x",), level=1, laplace=laplace)
    alone = interval_half_width(np.array(deviation**2), noise=deviation**2, laplace=laplace)
    assert found.shape == (4, 3)
    assert found == pytest.approx(float(alone), rel=1e-6)


def test_sums_of_many_are_normal() -> None:
    plan = small_plan(100.0, children=400)
    for laplace in (False, True):
        found = unit_margins(estimate(plan), (), level=0, laplace=laplace)
        assert found == pytest.approx(NORMAL * np.sqrt(400 * 3 * 100.0), rel=2e-3)


def test_exact_totals_have_no_margin() -> None:
    plan = small_plan(9.0)
    exact = HierarchyPlan(
        spine=plan.spine,
        domain=plan.domain,
        levels=(LevelQueries(has_exact_total=True), plan.levels[1]),
    )
    for laplace in (False, True):
        assert unit_margins(estimate(exact), (), level=0, laplace=laplace).tolist() == [0.0]
        everybody = np.ones(4, dtype=np.bool_)
        variance = estimate(exact).form.area_variance((), members=everybody)
        area = area_margins(estimate(exact), (), members=everybody, variance=variance, laplace=laplace)
        assert area.tolist() == 0.0


def test_chunks_of_units_have_the_margins_of_all() -> None:
    plan = random_plan(np.random.default_rng(3), depth=3, columns=2)
    estimates = estimate(plan)
    whole = unit_margins(estimates, plan.columns, level=2, laplace=True)
    middle = slice(1, len(whole) - 1)
    part = unit_margins(estimates, plan.columns, level=2, units=middle, laplace=True)
    assert part == pytest.approx(whole[middle], rel=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_an_area_that_is_a_unit_has_its_margin(seed: int, laplace: bool) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, depth=3, columns=2, has_invariants=seed % 2 == 1, has_zeros=seed > 1)
    estimates = estimate(plan)
    for level in range(3):
        for clique in ((), ("a",), plan.columns):
            units = unit_margins(estimates, clique, level=level, laplace=laplace)
            for unit in range(plan.spine.units(level)):
                members = plan.spine.ancestors(level) == unit
                variance = estimates.form.area_variance(clique, members=members)
                area = area_margins(estimates, clique, members=members, variance=variance, laplace=laplace)
                assert area == pytest.approx(units[unit], rel=2e-3, abs=1e-6)


def laplace_draws(variance: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Integer Laplace noise of a variance: the difference of two geometric numbers."""
    fall = np.log1p((1 + np.sqrt(2 * variance + 1)) / variance)
    return rng.geometric(-np.expm1(-fall), size) - rng.geometric(-np.expm1(-fall), size)


@pytest.mark.parametrize("seed", range(6))
def test_laplace_errors_are_covered_as_often_as_said(seed: int) -> None:
    """Weights of dense least squares times drawn noise, 4,000 times, wide enough that whole numbers make no steps.

    A share of 4,000 draws has a deviation of 0.35 %: a sound cell is further than 1.7 % away once in a million.
    Normal margins are too narrow for some cells.
    """
    rng = np.random.default_rng([11, seed])
    drawn = random_plan(rng, depth=3, columns=1 + seed % 2, has_invariants=seed % 3 == 2)
    wide = [
        replace(level, queries=tuple(replace(each, variance=100 * each.variance) for each in level.queries))
        for level in drawn.levels
    ]
    plan = replace(drawn, levels=tuple(wide))
    estimates, problem = estimate(plan), DenseProblem(plan)
    rows, variances = problem.design
    noise = np.stack([laplace_draws(float(variance), 4000, rng) for variance in variances])
    errors = problem.covariance @ (rows.T / variances) @ noise
    shares, normal = [], []
    for level in range(3):
        rows = problem.unit_sums(Marginal(plan.columns), level=level).reshape(-1, problem.size)
        own = np.abs(rows @ errors)
        margin = unit_margins(estimates, plan.columns, level=level, laplace=True).reshape(-1, 1)
        deviation = estimates.standard_deviation(plan.columns, level=level).reshape(-1, 1)
        told = margin[:, 0] > 0.05
        shares += (own <= margin).mean(axis=1)[told].tolist()
        normal += (own <= NORMAL * deviation).mean(axis=1)[told].tolist()
    assert max(abs(share - 0.95) for share in shares) < 0.017
    assert abs(np.mean(shares) - 0.95) < 0.004
    assert min(normal) < 0.945
