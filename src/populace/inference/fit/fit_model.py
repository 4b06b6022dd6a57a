"""From the measurements of a run to a model and the tables that its rows should have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique
from populace.core.progress import Progress, silent
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table
from populace.inference.fit.alike_tables import NoisyPair, SuccessivePairs, pool_alike
from populace.inference.fit.denoise import denoise
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.fit.ordered_association import match_association
from populace.inference.fit.public_prior import shrink_to_public
from populace.inference.fit.raking import margin_sums, rake
from populace.inference.gls.coarse_tables import CoarseTable, split_coarse_tables
from populace.inference.gls.gls import GLSEstimate, estimate_gls
from populace.inference.gls.observations import Observation, common_groupings, group_table
from populace.inference.graph.junction_tree import split_spanning_forest
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals

# The junction tree's cells, and these times its tables, which is what a sweep of fitting takes: rows are fitted also to
# tables that the tree does not hold.
MAX_TREE_CELLS, MAX_SWEEP_WORK = 2**16, 2**22
# A table that differs from what is known without it by less than this share of the rows is not worth its cells.
MIN_GAIN = 1e-3
# A model that larger tables are still to join is a guess for cleaning them.
_FIRST_SWEEPS = 6
_RAKING_ROUNDS = 5
_FLOOR = 1e-3
# A column of which noise misplaces less than this share of the rows is met exactly.
_PRECISE_SHARE = 0.02


def fit_model(
    measurements: Sequence[Measurement],
    *,
    space: ModelSpace,
    public: PublicMarginals | None = None,
    first: Clique = (),
    gradual: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Return a model of the measurements, with tables for its rows to fit.

    Least squares over all measurements gives the counts of single columns and what is known of every interaction.
    Each measured table is cleaned beside the model of single columns and rules, and those that say most beyond it
    enter a junction tree of limited size: its model is the first guess at everything. Then every measured table is
    cleaned once more beside that model, and kept as a target for the rows. A table that sees a column in fewer groups
    than others do is cleaned in its own groups and spread over theirs as the model has them.
    Single columns are shrunk towards `public` ones as far as they agree; a public table of several columns, scaled to
    the single columns, stands for one that was not measured, and one that was measured is cleaned beside it.
    A table of the columns `first` enters the tree before all others.
    Pairs that are alike are cleaned beside what all of them say together. One that was not measured stands half-way
    between that and the model: it may have been left out because it is nearer to independence than the others.
    A `gradual` model holds no table of several columns: rows come to the targets by moves alone.
    """
    report = progress or silent
    report("fitting the model", 0.0)
    measurements = shrink_to_public(measurements, public)
    space = space.group(common_groupings(measurements, classes=space.rules.classes).values())
    estimator = Estimator(space)
    plain, coarse = split_coarse_tables(
        measurements, domain=space.domain, groupings=space.groupings, ordered=space.ordered
    )
    estimator.add(plain)
    effects = estimate_gls(estimator.observed, domain=estimator.domain, total=space.rows)
    effort = FitEffort(rounds=8, floor=1e-6, sweeps=20, steps=0, tolerance=1e-5, exact=bool(space.totals))
    total = max(1.0, effects.total)
    names = [name for name in estimator.domain if name in effects.columns]
    held = [effects.nonnegative_column(name, total=total) for name in names]
    # Columns that are known well: the model is held to them in the end, whatever noisy tables say. The fit follows
    # cells that stand out of their noise and lets others be, which cleans columns that are known badly.
    most = 0.0 if space.totals else _PRECISE_SHARE * 2 * total / math.sqrt(2 / math.pi)
    precise = [o for o in held if o.values.sum() > 0 and float(np.sqrt(o.variance).sum()) < most]
    estimator.replace_observations(held)
    estimator.refit(effort=effort)
    tables = _Tables(effects, coarse, _grouped_public_tables(public, space), space.group_orders)
    rng = np.random.default_rng(0)
    for size in tables.sizes:
        report("fitting the model", 0.2 * size - 0.2)
        found = tables.denoise(size, estimator=estimator, known={}, rng=rng)
        gains = {c: float(np.abs(table - estimator.table(c)).sum()) for c, table in found.items()}
        least = MIN_GAIN * estimator.total
        ranked = sorted(gains, key=lambda c: (c != first, space.layer(c), -gains[c], c))
        worth = [c for c in ranked if gains[c] > least or c == first]
        beside = [o.clique for o in held]
        chosen = [] if gradual else _choose_tree_tables(worth, beside=beside, potentials=estimator.potentials)
        held += [tables.observe(c, found[c]) for c in chosen]
        estimator.replace_observations(held)
        last = size == tables.sizes[-1]
        estimator.refit(effort=effort if last else replace(effort, sweeps=_FIRST_SWEEPS))
        estimator.rake_to(precise)
    targets: dict[Clique, Table] = {}
    for size in tables.sizes:
        pooled = tables.pool(space.alike, estimator=estimator, rng=rng) if size == 2 else {}
        places = SuccessivePairs(space.successive if size == 2 else {}, groupings=estimator.groupings)
        targets |= tables.denoise(
            size, estimator=estimator, known=targets, rng=rng, pooled=pooled, places=places
        )
        targets |= {c: t for c, t in places.fill(estimator.table).items() if c not in targets}
        targets |= {c: (t + estimator.table(c)) / 2 for c, t in pooled.items() if c not in targets}
    return replace(estimator.model(), targets=targets, gradual=gradual)


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of several columns that are known: by least squares, in fewer groups than the model's, or public."""

    effects: GLSEstimate
    coarse: Sequence[CoarseTable]
    public: Mapping[Clique, Table]
    orders: Mapping[str, npt.NDArray[np.int64]]

    @cached_property
    def cliques(self) -> list[Clique]:
        """The columns of tables in the model's groups, few columns first."""
        return sorted({*self.effects.interactions, *self.public}, key=lambda clique: (len(clique), clique))

    @cached_property
    def sizes(self) -> list[int]:
        """How many columns tables have, in rising order."""
        return sorted({len(clique) for clique in (*self.cliques, *(table.clique for table in self.coarse))})

    def pool(
        self, alike: Mapping[Clique, Clique], *, estimator: Estimator, rng: np.random.Generator
    ) -> dict[Clique, Table]:
        """Return what measured pairs say of those that are alike, measured or not."""
        noisy = {
            pair: NoisyPair(
                values=self.effects.marginal(pair),
                variance=1 / self.effects.interactions[pair].weight,
                baseline=estimator.table(pair),
            )
            for pair in alike
            if pair in self.effects.interactions
        }
        return pool_alike(
            noisy, alike=alike, baseline=estimator.table, groupings=estimator.groupings, rng=rng
        )

    def denoise(
        self,
        size: int,
        *,
        estimator: Estimator,
        known: Mapping[Clique, Table],
        rng: np.random.Generator,
        pooled: Mapping[Clique, Table] = MappingProxyType({}),
        places: SuccessivePairs | None = None,
    ) -> dict[Clique, Table]:
        """Return the tables of so many columns without most of their noise, with the single columns of the model.

        What a table is compared with is the public one, if there is one, or the model's, scaled to `known` tables of
        fewer columns, or what pairs that are alike say of it. Coarse tables are spread over the model's groups as it
        has them.
        """
        found: dict[Clique, Table] = {}
        places = SuccessivePairs({}, groupings={}) if places is None else places
        for clique in places.sort(self.cliques, clique_of=lambda each: each):
            if len(clique) == size:
                baseline = pooled.get(clique)
                if baseline is None:
                    baseline = rake_to_parts(estimator.table(clique), clique, known=known)
                baseline = places.scale(baseline, clique)
                if clique in self.public:
                    baseline = rake_public_table(self.public[clique], beside=baseline)
                found[clique] = baseline
                if clique in self.effects.interactions:
                    values = self.effects.marginal(clique)
                    deviation = self.effects.interactions[clique].weight ** -0.5
                    table = denoise(
                        values,
                        baseline=baseline,
                        deviation=deviation,
                        allowed=estimator.potentials.allowed_cells(clique),
                        rng=rng,
                    )
                    found[clique] = rake_to_columns(table, beside=baseline)
                    orders = [self.orders[name] for name in clique if name in self.orders]
                    if len(orders) == len(clique) == 2:
                        found[clique] = match_association(
                            found[clique], values, baseline=baseline, deviation=deviation, orders=orders
                        )
                    places.add(found[clique], clique)
        known = {**known, **found}
        for each in places.sort(self.coarse, clique_of=lambda each: each.clique):
            clique = each.clique
            if len(clique) == size:
                fine = found.get(clique)
                if fine is None:
                    fine = rake_to_parts(estimator.table(clique), clique, known=known)
                    fine = places.scale(fine, clique)
                baseline = each.sum_to_coarse(fine)
                table = denoise(
                    each.values,
                    baseline=baseline,
                    deviation=each.variance**0.5,
                    allowed=each.possible(estimator.potentials.allowed_cells(clique)),
                    rng=rng,
                )
                found[clique] = each.scale_to(fine, wanted=rake_to_columns(table, beside=baseline))
                places.add(found[clique], clique)
        return found

    def observe(self, clique: Clique, table: Table) -> Observation:
        """Return a denoised table as an observation, with the variance of what it was made from."""
        spread = [each.even_variance for each in self.coarse if each.clique == clique]
        if clique in self.effects.interactions:
            variance = 1 / self.effects.interactions[clique].weight
        elif spread:
            variance = min(spread)
        else:
            # As if both tables were random samples.
            more = table.sum() / self.public[clique].sum()
            variance = float((1 + more) * (table.mean() + more))
        return Observation(clique, table, np.full(table.shape, variance))


def rake_to_parts(table: Table, clique: Clique, *, known: Mapping[Clique, Table]) -> Table:
    """Return a table of three or more columns with the known sums of its parts, as nearly as a few rounds get."""
    parts = [part for size in range(2, len(clique)) for part in combinations(clique, size) if part in known]
    targets = [
        (tuple(axis for axis, name in enumerate(clique) if name in part), known[part]) for part in parts
    ]
    return rake(table, targets, rounds=_RAKING_ROUNDS if parts else 0)


def rake_public_table(public: Table, *, beside: Table) -> Table:
    """Return a public table with the rows and the single columns of another one."""
    return rake_to_columns(public * (beside.sum() / public.sum()), beside=beside)


def rake_to_columns(table: Table, *, beside: Table) -> Table:
    """Return a table scaled to the single columns of another one; cells that this one can fill do not become empty."""
    table = np.maximum(table, _FLOOR * np.minimum(beside, beside.mean()))
    return rake(
        table, [((axis,), margin_sums(beside, (axis,))) for axis in range(table.ndim)], rounds=_RAKING_ROUNDS
    )


def _grouped_public_tables(public: PublicMarginals | None, space: ModelSpace) -> dict[Clique, Table]:
    """Return public tables of several columns as the model sees them, their columns in the domain's order."""
    found = {}
    tables = {} if public is None else public.tables
    for given, counts in ((clique, table) for clique, table in tables.items() if len(clique) > 1):
        clique = tuple(name for name in space.domain if name in given)
        found[clique] = group_table(counts, given, onto=clique, groupings=space.groupings)
    return found


def _choose_tree_tables(
    worth: Sequence[Clique], *, beside: Sequence[Clique], potentials: RulePotentials
) -> list[Clique]:
    """Return the cliques, the first ones first, that a junction tree of limited size can hold together."""
    kept = list(beside)
    columns = sum(len(clique) < 2 for clique in kept)
    limit = max(MAX_TREE_CELLS, 2 * potentials.tree_cells(kept))
    forest, others = split_spanning_forest(worth)
    for clique in [*forest, *others]:
        if potentials.domain.cells(clique) <= limit:
            needed = potentials.tree_cells([*kept, clique])
            if needed <= limit and (len(kept) - columns) * needed <= MAX_SWEEP_WORK:
                kept.append(clique)
    return kept[len(beside) :]
