"""Estimates and variances of hierarchies against dense least squares over all cells."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain, Grouping, Marginal
from populace.core.spine import Spine
from populace.inference.gls.gls import estimate_gls
from populace.inference.gls.observations import Observation
from populace.inference.hierarchy import hierarchy_estimates as module
from populace.inference.hierarchy.area_estimates import estimate_area
from populace.inference.hierarchy.dense_filter import DenseFilter
from populace.inference.hierarchy.effect_filter import EffectFilter
from populace.inference.hierarchy.hierarchy_estimates import (
    HierarchyEstimates,
    choose_filter,
    estimate_hierarchy,
)
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery

from .brute_force import (
    DenseProblem,
    all_cliques,
    exact_totals,
    known_marginals,
    random_plan,
    random_truth,
    with_known,
)

KINDS = {
    "plain": {},
    "invariants": {"has_invariants": True},
    "zeros": {"has_zeros": True},
    "groupings": {"has_groupings": True},
    "invariants and zeros": {"has_invariants": True, "has_zeros": True},
    "everything": {"has_invariants": True, "has_zeros": True, "has_groupings": True},
}


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-8, atol=1e-8))


def compare(
    estimates: HierarchyEstimates, *, leaves: np.ndarray, covariance: np.ndarray, rng: np.random.Generator
) -> None:
    """See that cells, marginals and areas have the estimates and variances of dense least squares."""
    plan = estimates.form.plan
    problem = DenseProblem(plan)
    for clique in all_cliques(plan):
        for level in range(plan.spine.depth):
            sums = problem.unit_sums(Marginal(clique), level=level)
            found = estimates.marginal(clique, level=level)
            assert found.shape == (plan.spine.units(level), *plan.domain.shape(clique))
            assert close(found.reshape(len(sums), -1), sums @ leaves)
            variance = np.einsum("umi,ij,umj->um", sums, covariance, sums)
            assert close(estimates.variance(clique, level=level).reshape(len(sums), -1), variance)
            deviation = estimates.standard_deviation(clique, level=level).reshape(len(sums), -1)
            assert np.allclose(deviation**2, variance, rtol=1e-8, atol=1e-8)
        for share in (0.0, 0.3, 0.7, 1.0):
            members = rng.random(plan.spine.leaves) < share
            sums = problem.sums(Marginal(clique), members=members)
            area = estimates.area(members, clique=clique)
            assert area.estimate.shape == plan.domain.shape(clique)
            assert close(area.estimate.ravel(), sums @ leaves)
            assert close(area.variance.ravel(), np.einsum("mi,ij,mj->m", sums, covariance, sums))


def check_consistent(estimates: HierarchyEstimates) -> None:
    spine = estimates.form.plan.spine
    for level in range(1, spine.depth):
        assert close(spine.sum_children(estimates.cells[level], level=level), estimates.cells[level - 1])


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "depth", [2, pytest.param(3, marks=pytest.mark.slow), 4, pytest.param(5, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_and_variances_are_those_of_dense_least_squares(
    kind: str, columns: int, depth: int
) -> None:
    rng = np.random.default_rng([columns, depth, *kind.encode()])
    most = 3 if depth < 4 and columns < 3 else 2
    plan = random_plan(rng, depth=depth, columns=columns, most=most, **KINDS[kind])
    problem, truth = DenseProblem(plan), random_truth(rng, plan)
    noisy, totals = problem.simulate(rng, truth=truth), exact_totals(plan, truth)
    estimates = estimate_hierarchy(plan, noisy, totals=totals)
    compare(
        estimates,
        leaves=problem.estimate(noisy, truth=truth),
        covariance=problem.covariance,
        rng=rng,
    )
    check_consistent(estimates)
    for level, values in totals.items():
        assert close(estimates.marginal((), level=level), values)
        assert close(estimates.variance((), level=level), np.zeros(len(values)))


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_public_marginals_are_exact_and_all_else_is_dense_least_squares(seed: int, has_zeros: bool) -> None:
    rng = np.random.default_rng([seed, has_zeros])
    plan = random_plan(rng, depth=2 + seed % 3, columns=2 + seed % 2, most=2, has_zeros=has_zeros)
    plan = with_known(rng, plan)
    problem, truth = DenseProblem(plan), random_truth(rng, plan)
    noisy, totals, known = (
        problem.simulate(rng, truth=truth),
        exact_totals(plan, truth),
        known_marginals(plan, truth),
    )
    estimates = estimate_hierarchy(plan, noisy, totals=totals, known=known)
    leaves = problem.estimate(noisy, truth=truth)
    compare(estimates, leaves=leaves, covariance=problem.covariance, rng=rng)
    check_consistent(estimates)
    for level, measured in enumerate(plan.levels):
        for clique, counts in zip(measured.known, known[level], strict=True):
            assert close(estimates.marginal(clique, level=level), counts)
            assert close(estimates.variance(clique, level=level), np.zeros(counts.shape))
    if not has_zeros:
        dense = DenseFilter.of(plan)
        for level in range(plan.spine.depth):
            given = {"level": level, "units": slice(0, plan.spine.units(level))}
            assert close(dense.variance(plan.columns, **given), estimates.variance(plan.columns, level=level))


@pytest.mark.parametrize("seed", range(6))
def test_dense_and_effect_forms_agree_where_both_apply(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, depth=3, columns=2, has_invariants=seed % 2 == 0)
    effect, dense = EffectFilter.of(plan), DenseFilter.of(plan)
    members = rng.random(plan.spine.leaves) < 0.5
    for clique in all_cliques(plan):
        for level in range(3):
            units = slice(plan.spine.units(level) // 2, plan.spine.units(level))
            given = {"level": level, "units": units}
            assert close(dense.variance(clique, **given), effect.variance(clique, **given))
        assert close(
            dense.area_variance(clique, members=members), effect.area_variance(clique, members=members)
        )


@pytest.mark.parametrize("has_invariants", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_zeros_of_many_cells_are_set_aside_until_the_end(
    columns: int, has_invariants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_dense_cells=0))
    rng = np.random.default_rng([columns, has_invariants])
    plan = random_plan(rng, depth=3, columns=columns, has_zeros=True, has_invariants=has_invariants, most=2)
    truth = random_truth(rng, plan)
    unaware = DenseProblem(
        HierarchyPlan(spine=plan.spine, domain=plan.domain, levels=plan.levels, possible=None)
    )
    noisy = unaware.simulate(rng, truth=truth)
    estimates = estimate_hierarchy(plan, noisy, totals=exact_totals(plan, truth))
    assert isinstance(estimates.form, EffectFilter)
    possible = plan.possible.ravel()
    moved = np.diag(possible.astype(float)) + np.outer(possible / possible.sum(), ~possible)
    spread = np.kron(np.eye(plan.spine.leaves), moved)
    compare(
        estimates,
        leaves=spread @ unaware.estimate(noisy, truth=truth),
        covariance=spread @ unaware.covariance @ spread.T,
        rng=rng,
    )
    check_consistent(estimates)
    for level, values in exact_totals(plan, truth).items():
        assert close(estimates.marginal((), level=level), values)
    for cells in estimates.cells:
        assert (cells[:, ~plan.possible] == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_one_measured_level_is_ordinary_least_squares_unit_by_unit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = random_plan(rng, depth=2, columns=3)
    plan = HierarchyPlan(spine=plan.spine, domain=plan.domain, levels=(LevelQueries(), plan.levels[1]))
    problem, truth = DenseProblem(plan), random_truth(rng, plan)
    noisy = problem.simulate(rng, truth=truth)
    estimates = estimate_hierarchy(plan, noisy)
    clique = tuple(plan.domain)
    variance = estimates.variance(clique, level=1)
    for unit in range(plan.spine.leaves):
        observations = []
        for query, counts in zip(plan.levels[1].queries, noisy[1], strict=True):
            order = [query.marginal.clique.index(name) for name in clique if name in query.marginal.clique]
            values = counts[unit].transpose(order)
            ordered = tuple(name for name in clique if name in query.marginal.clique)
            observations.append(Observation(ordered, values, np.full(values.shape, float(query.variance))))
        expected = estimate_gls(observations, domain=plan.domain)
        assert close(estimates.cells[1][unit], expected.marginal(clique))
        assert close(variance[unit], expected.variance(clique))


# 1000 runs of a fixed tree; three counts named beforehand in two forms of the filter. Coverage of a right interval is
# binomial (1000, .95): outside 910 … 980 with probability 5e-8 + 3e-7; means are beyond 5 standard errors with
# probability 6e-7. Six checks of each: false-alarm rate below 1e-5. Half the noise covers .9999, twice the noise .67.
RUNS, FEWEST, MOST = 1000, 910, 980


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("scale", "is_right"), [(1.0, True), (0.5, False), (2.0, False)])
@pytest.mark.parametrize("kind", ["plain", pytest.param("everything", marks=pytest.mark.slow)])
def test_estimates_are_unbiased_and_covered_as_often_as_stated(
    kind: str, scale: float, is_right: bool
) -> None:
    rng = np.random.default_rng(20261118)
    plan = random_plan(rng, depth=3, columns=2, **KINDS[kind])
    problem, truth = DenseProblem(plan), random_truth(rng, plan)
    totals, members = exact_totals(plan, truth), np.arange(plan.spine.leaves) % 2 == 0
    clique = ("a", "b")
    place = next(iter(np.argwhere(np.ones(plan.shape) if plan.possible is None else plan.possible)))
    cell = (0, *place)
    rows = [
        problem.unit_sums(Marginal(clique), level=2).reshape(plan.spine.leaves, *plan.shape, -1)[cell],
        problem.unit_sums(Marginal(clique), level=1).reshape(plan.spine.units(1), *plan.shape, -1)[cell],
        problem.sums(Marginal(clique), members=members).reshape(*plan.shape, -1)[cell[1:]],
    ]
    right = np.array([row @ truth.ravel() for row in rows])
    found = np.empty((RUNS, 3))
    for run in range(RUNS):
        noisy = problem.simulate(rng, truth=truth, scale=scale)
        estimates = estimate_hierarchy(plan, noisy, totals=totals)
        leaf = estimates.marginal(clique, level=2)[cell]
        middle = estimates.marginal(clique, level=1)[cell]
        area = estimates.cells[2][members].sum(axis=0)[cell[1:]]
        found[run] = leaf, middle, area
    deviation = np.array(
        [
            estimates.standard_deviation(clique, level=2)[cell],
            estimates.standard_deviation(clique, level=1)[cell],
            estimates.area(members, clique=clique).standard_deviation[cell[1:]],
        ]
    )
    errors = found - right
    assert (np.abs(errors.mean(axis=0)) < 5 * scale * deviation / np.sqrt(RUNS)).all()
    covered = (np.abs(errors) <= 1.959964 * deviation).sum(axis=0)
    assert ((covered >= FEWEST) & (covered <= MOST)).tolist() == [is_right] * 3


def small_plan(**changes: object) -> HierarchyPlan:
    detailed = MeasuredQuery(marginal=Marginal(("a",)), variance=Fraction(4))
    given = {
        "spine": Spine(("all", "county"), (np.array([0, 0]),)),
        "domain": Domain({"a": 3}),
        "levels": (LevelQueries(), LevelQueries(queries=(detailed,))),
    }
    return HierarchyPlan(**{**given, **changes})


def test_plans_that_determine_nothing_are_refused() -> None:
    detailed = MeasuredQuery(marginal=Marginal(("a",)), variance=Fraction(4))
    coarse = MeasuredQuery(marginal=Marginal(("a",), (Grouping("a", (0, 0, 1)),)), variance=Fraction(4))
    other = MeasuredQuery(marginal=Marginal(("b",)), variance=Fraction(4))
    short = MeasuredQuery(marginal=Marginal(("a",), (Grouping("a", (0, 1)),)), variance=Fraction(4))
    for levels in (
        (LevelQueries(queries=(detailed,)),),
        (LevelQueries(queries=(detailed,)), LevelQueries(queries=(coarse,))),
        (LevelQueries(queries=(other,)), LevelQueries(queries=(detailed,))),
        (LevelQueries(queries=(short,)), LevelQueries(queries=(detailed,))),
    ):
        with pytest.raises(UsageError):
            small_plan(levels=levels)
    for possible in (np.zeros(3, dtype=bool), np.ones(2, dtype=bool), np.ones(3)):
        with pytest.raises(UsageError, match="structural zeros"):
            small_plan(possible=possible)
    for variance in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="variance"):
            MeasuredQuery(marginal=Marginal(()), variance=variance)


def test_counts_totals_and_areas_of_another_shape_are_refused() -> None:
    counts = np.ones((2, 3))
    plan = small_plan()
    for noisy in ([[counts]], [[], [counts[:1]]], [[], [counts, counts]], [[counts], [counts]]):
        with pytest.raises(UsageError, match="noisy counts"):
            estimate_hierarchy(plan, noisy)
    with pytest.raises(UsageError, match="totals"):
        estimate_hierarchy(plan, [[], [counts]], totals={0: np.array([6])})
    exact = small_plan(
        levels=(LevelQueries(has_exact_total=True), replace(plan.levels[1], has_exact_total=True))
    )
    for totals in (None, {0: np.array([6])}, {0: np.array([6]), 1: np.array([3])}):
        with pytest.raises(UsageError, match="totals"):
            estimate_hierarchy(exact, [[], [counts]], totals=totals)
    with pytest.raises(UsageError, match="do not add up"):
        estimate_hierarchy(exact, [[], [counts]], totals={0: np.array([7]), 1: np.array([3, 3])})
    estimates = estimate_hierarchy(plan, [[], [counts]])
    for members in (np.array([True]), np.array([0, 1])):
        with pytest.raises(UsageError, match="members"):
            estimates.area(members, clique=())
    with pytest.raises(UsageError, match="members of an area have shape"):
        estimate_area(estimates.form, counts, members=np.array([True, False]), clique=())
    with pytest.raises(UsageError, match="not in the domain"):
        estimates.marginal(("b",), level=0)


def test_the_form_follows_from_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    detailed = MeasuredQuery(marginal=Marginal(("a",)), variance=Fraction(4))
    coarse = MeasuredQuery(marginal=Marginal(("a",), (Grouping("a", (0, 0, 1)),)), variance=Fraction(4))
    grouped = small_plan(levels=(LevelQueries(queries=(coarse,)), LevelQueries(queries=(detailed,))))
    with_zeros = small_plan(possible=np.array([True, True, False]))
    assert isinstance(choose_filter(small_plan()), EffectFilter)
    assert isinstance(choose_filter(small_plan(possible=np.ones(3, dtype=bool))), EffectFilter)
    assert isinstance(choose_filter(with_zeros), DenseFilter)
    assert isinstance(choose_filter(grouped), DenseFilter)
    monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_dense_cells=2))
    assert isinstance(choose_filter(with_zeros), DenseFilter)
    with pytest.raises(UsageError, match="groups a column") as refusal:
        choose_filter(grouped)
    assert refusal.value.hint
    # Two levels of one form each, with 3 × 3 numbers in two matrices.
    monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_dense_bytes=2 * 2 * 9 * 8))
    assert isinstance(choose_filter(grouped), DenseFilter)
    monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_dense_bytes=2 * 2 * 9 * 8 - 1))
    with pytest.raises(UsageError, match="groups a column"):
        choose_filter(grouped)
    monkeypatch.setattr(module, "LIMITS", replace(LIMITS, max_dense_cells=1))
    assert isinstance(choose_filter(with_zeros), EffectFilter)
    with pytest.raises(UsageError, match="mixes effects"):
        EffectFilter.of(grouped)
