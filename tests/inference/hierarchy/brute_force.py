"""Random hierarchies, and their least squares over the cells of all smallest units by dense matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from populace.core.marginals import Clique, Domain, Grouping, Marginal, cell_indices
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan, LevelQueries, MeasuredQuery

Floats = np.ndarray


def random_spine(rng: np.random.Generator, *, depth: int, most: int = 3) -> Spine:
    """Return a spine of levels with uneven numbers of children, single ones among them."""
    parents, above = [], 1
    for _ in range(depth - 1):
        children = rng.integers(1, most + 1, size=above)
        if above == 1:
            children[:] = rng.integers(1, most + 2)
        parents.append(np.repeat(np.arange(above), children))
        above = int(children.sum())
    return Spine(("all", *(f"level{k}" for k in range(1, depth))), tuple(parents))


def random_grouping(rng: np.random.Generator, column: str, size: int) -> Grouping:
    codes = rng.integers(0, max(1, size - 1), size=size)
    return Grouping(column, tuple(np.unique(codes, return_inverse=True)[1].tolist()))


def random_plan(
    rng: np.random.Generator,
    *,
    depth: int,
    columns: int,
    has_invariants: bool = False,
    has_zeros: bool = False,
    has_groupings: bool = False,
    most: int = 3,
) -> HierarchyPlan:
    names = tuple("abc"[:columns])
    domain = Domain({name: int(rng.integers(1 if name == "c" else 2, 4)) for name in names})
    spine = random_spine(rng, depth=depth, most=most)
    cliques = [clique for size in range(columns + 1) for clique in combinations(names, size)]
    levels = []
    for level in range(depth):
        asked = [tuple(rng.permutation(clique).tolist()) for clique in cliques if rng.random() < 0.5]
        if level == depth - 1:
            asked.append(names[::-1])
        queries = [_random_query(rng, clique, domain, has_groupings=has_groupings) for clique in asked]
        if level == depth - 1:
            queries.append(MeasuredQuery(marginal=Marginal(names), variance=float(rng.uniform(1, 9))))
        exact = has_invariants and (rng.random() < 0.5 or level == depth // 2)
        levels.append(LevelQueries(queries=tuple(queries), has_exact_total=bool(exact)))
    possible = None
    if has_zeros:
        possible = rng.random(domain.shape(names)) < 0.7
        possible.flat[0] = True
        possible.flat[-1] = False
    return HierarchyPlan(spine=spine, domain=domain, levels=tuple(levels), possible=possible)


def _random_query(
    rng: np.random.Generator, clique: Clique, domain: Domain, *, has_groupings: bool
) -> MeasuredQuery:
    groupings = tuple(
        random_grouping(rng, name, domain[name]) for name in clique if has_groupings and rng.random() < 0.5
    )
    return MeasuredQuery(marginal=Marginal(clique, groupings), variance=float(10 ** rng.uniform(-1, 2)))


@dataclass(frozen=True, eq=False)
class DenseProblem:
    """All measurements of a hierarchy as one linear model of the cells of all smallest units."""

    plan: HierarchyPlan

    @cached_property
    def size(self) -> int:
        return self.plan.spine.leaves * self.plan.cells

    def sums(self, marginal: Marginal, *, members: Floats) -> Floats:
        """Return the matrix from all cells to a marginal of the sum of some smallest units."""
        codes = dict(
            zip(self.plan.domain, np.indices(self.plan.shape).reshape(-1, self.plan.cells), strict=True)
        )
        places = cell_indices(marginal, codes=codes, domain=self.plan.domain)
        cells = int(np.prod(marginal.shape(self.plan.domain)))
        return np.kron(members.astype(float), (np.arange(cells)[:, None] == places).astype(float))

    def unit_sums(self, marginal: Marginal, *, level: int) -> Floats:
        inside = self.plan.spine.ancestors(level)
        units = range(self.plan.spine.units(level))
        return np.stack([self.sums(marginal, members=inside == unit) for unit in units])

    @cached_property
    def design(self) -> tuple[Floats, Floats]:
        """The rows of all noisy counts, level by level and query by query, and their variances."""
        rows, variances = [np.zeros((0, self.size))], [np.zeros(0)]
        for level, measured in enumerate(self.plan.levels):
            for query in measured.queries:
                rows.append(self.unit_sums(query.marginal, level=level).reshape(-1, self.size))
                variances.append(np.full(len(rows[-1]), float(query.variance)))
        return np.concatenate(rows), np.concatenate(variances)

    @cached_property
    def constraints(self) -> Floats:
        rows = [np.zeros((0, self.size))]
        if self.plan.possible is not None:
            zeros = np.tile(~self.plan.possible.ravel(), self.plan.spine.leaves)
            rows.append(np.eye(self.size)[zeros])
        for level, measured in enumerate(self.plan.levels):
            for clique in measured.exact:
                rows.append(self.unit_sums(Marginal(clique), level=level).reshape(-1, self.size))
        return np.concatenate(rows)

    def simulate(self, rng: np.random.Generator, *, truth: Floats, scale: float = 1.0) -> list[list[Floats]]:
        """Return noisy counts of a truth (smallest units, *shape)."""
        rows, variances = self.design
        values = rows @ truth.ravel() + scale * rng.normal(size=len(rows)) * np.sqrt(variances)
        return self.unstack(values)

    def unstack(self, values: Floats) -> list[list[Floats]]:
        found, at = [], 0
        for level, measured in enumerate(self.plan.levels):
            found.append([])
            for query in measured.queries:
                shape = (self.plan.spine.units(level), *query.marginal.shape(self.plan.domain))
                found[-1].append(values[at : at + int(np.prod(shape))].reshape(shape))
                at += int(np.prod(shape))
        return found

    @cached_property
    def solution(self) -> tuple[Floats, Floats]:
        """The directions that constraints leave free, and the covariance along them."""
        rows, variances = self.design
        if len(self.constraints):
            _, singular, right = np.linalg.svd(self.constraints)
            rank = int((singular > 1e-9).sum())
            free = right[rank:].T
        else:
            free = np.eye(self.size)
        seen = rows @ free / np.sqrt(variances)[:, None]
        return free, np.linalg.pinv(seen.T @ seen, rcond=1e-13, hermitian=True)

    @cached_property
    def covariance(self) -> Floats:
        free, inner = self.solution
        return free @ inner @ free.T

    def estimate(self, noisy: list[list[Floats]], *, truth: Floats) -> Floats:
        """Return the least-squares cells of all smallest units; the truth gives the exact totals."""
        rows, variances = self.design
        values = np.concatenate([np.zeros(0), *(counts.ravel() for level in noisy for counts in level)])
        start = np.linalg.lstsq(self.constraints, self.constraints @ truth.ravel(), rcond=None)[0]
        free, inner = self.solution
        found = inner @ free.T @ rows.T @ ((values - rows @ start) / variances)
        return start + free @ found


def with_known(rng: np.random.Generator, plan: HierarchyPlan) -> HierarchyPlan:
    """Return a plan that knows single columns of the whole, and nested marginals of the units of some levels."""
    names = tuple(rng.permutation(tuple(plan.domain)).tolist())
    levels = list(plan.levels)
    for level, measured in enumerate(levels):
        size = int(rng.integers(0, len(names)))
        known = tuple((name,) for name in names if rng.random() < 0.6) if level == 0 else (names[:size],)
        levels[level] = replace(
            measured,
            has_exact_total=measured.has_exact_total or bool(known),
            known=tuple(clique for clique in known if clique),
        )
    return replace(plan, levels=tuple(levels))


def known_marginals(plan: HierarchyPlan, truth: Floats) -> dict[int, list[Floats]]:
    problem = DenseProblem(plan)
    found = {}
    for level, measured in enumerate(plan.levels):
        shapes = [(plan.spine.units(level), *plan.domain.shape(clique)) for clique in measured.known]
        found[level] = [
            (problem.unit_sums(Marginal(clique), level=level) @ truth.ravel()).reshape(shape)
            for clique, shape in zip(measured.known, shapes, strict=True)
        ]
    return found


def random_truth(rng: np.random.Generator, plan: HierarchyPlan) -> Floats:
    truth = rng.poisson(5.0, size=(plan.spine.leaves, *plan.shape)).astype(float)
    return truth if plan.possible is None else truth * plan.possible


def exact_totals(plan: HierarchyPlan, truth: Floats) -> dict[int, Floats]:
    by_leaf = truth.reshape(len(truth), -1).sum(axis=1)
    return {level: np.bincount(plan.spine.ancestors(level), weights=by_leaf) for level in plan.exact_levels}


def all_cliques(plan: HierarchyPlan) -> list[Clique]:
    names = tuple(plan.domain)[::-1]
    return [clique for size in range(len(names) + 1) for clique in combinations(names, size)]
