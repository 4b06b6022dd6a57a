"""From the measurements of a run to a model and the tables that its rows should have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from populace.core.marginals import Clique, Domain, Grouping
from populace.core.progress import Progress, silent
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table
from populace.inference.fit.denoise import denoise
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.fit.projection import project_to_simplex_weighted
from populace.inference.fit.public_prior import public_joint_tables, shrink_to_public
from populace.inference.fit.raking import margin_sums, rake
from populace.inference.gls.coarse_tables import CoarseTable, split_coarse_tables
from populace.inference.gls.gls import GLSEstimate, estimate_gls
from populace.inference.gls.observations import Observation, common_groupings, separable_part, sum_groups
from populace.inference.graph.junction_tree import maximal_tables, table_cells
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals
from populace.schema.conditions.rules import NO_RULES, Rules, Totals

# The junction tree's cells, and these times its tables, which is what a sweep of fitting takes: rows are fitted also to
# tables that the tree does not hold.
MAX_TREE_CELLS, MAX_SWEEP_WORK = 2**16, 2**22
# A table that differs from what is known without it by less than this share of the rows is not worth its cells.
MIN_GAIN = 1e-3
# A model that larger tables are still to join is a guess for cleaning them.
_FIRST_SWEEPS = 6
_RAKING_ROUNDS = 5
_FLOOR = 1e-3
_MIN_VARIANCE = 1e-6
# A column of which noise misplaces less than this share of the rows is met exactly.
_PRECISE_SHARE = 0.02


def fit_model(
    measurements: Sequence[Measurement],
    *,
    domain: Domain,
    rules: Rules = NO_RULES,
    totals: Sequence[Totals] = (),
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
    Single columns are drawn towards `public` ones as far as they agree; a public table of several columns, scaled to
    the single columns, stands for one that was not measured, and one that was measured is cleaned beside it.
    A table of the columns `first` enters the tree before all others.
    A `gradual` model holds no table of several columns: rows come to the targets by moves alone.
    """
    told = progress or silent
    told("fitting the model", 0.0)
    measurements = shrink_to_public(measurements, public)
    seen = common_groupings(measurements, classes=rules.classes)
    estimator = Estimator(domain, groupings=seen.values(), rules=rules, totals=totals)
    plain, coarse = split_coarse_tables(measurements, domain=domain, groupings=seen)
    estimator.add(plain)
    rows = [float(known.counts.sum()) for known in totals]
    effects = estimate_gls(
        [separable_part(o) for o in estimator.observed],
        domain=estimator.domain,
        total=rows[0] if rows else None,
    )
    effort = FitEffort(rounds=8, floor=1e-6, sweeps=20, steps=0, tolerance=1e-5, exact=bool(totals))
    layout = RulePotentials(rules, domain=domain, groupings=seen)
    total = max(1.0, effects.total)
    held = [
        _column_observation(name, effects, total=total)
        for name in estimator.domain
        if name in effects.columns
    ]
    sure = [] if totals else _precise_columns(held, total=total)
    estimator.replace_observations(held)
    estimator.refit(effort=effort)
    known = _grouped_public_tables(public, domain=domain, groupings=seen)
    measured = sorted({*effects.interactions, *known}, key=lambda clique: (len(clique), clique))
    rng = np.random.default_rng(0)
    sizes = sorted({len(clique) for clique in (*measured, *(table.clique for table in coarse))})
    for size in sizes:
        told("fitting the model", 0.2 * size - 0.2)
        found = _denoise_tables(
            [c for c in measured if len(c) == size],
            effects,
            estimator=estimator,
            layout=layout,
            rng=rng,
            public=known,
        )
        some = [table for table in coarse if len(table.clique) == size]
        found |= _denoise_coarse_tables(some, found, estimator=estimator, layout=layout, rng=rng)
        gains = {c: float(np.abs(table - estimator.table(c)).sum()) for c, table in found.items()}
        least = MIN_GAIN * estimator.total
        ranked = sorted(gains, key=lambda c: (c != first, -gains[c], c))
        worth = [c for c in ranked if gains[c] > least or c == first]
        chosen = [] if gradual else _choose_tree_tables(worth, beside=[o.clique for o in held], layout=layout)
        held += [_table_observation(c, found[c], effects, coarse=coarse, public=known) for c in chosen]
        estimator.replace_observations(held)
        estimator.refit(effort=effort if size == sizes[-1] else replace(effort, sweeps=_FIRST_SWEEPS))
        estimator.rake_to(sure)
    targets: dict[Clique, Table] = {}
    for size in sizes:
        more = [c for c in measured if len(c) == size]
        targets |= _denoise_tables(
            more, effects, estimator=estimator, layout=layout, rng=rng, known=targets, public=known
        )
        some = [table for table in coarse if len(table.clique) == size]
        targets |= _denoise_coarse_tables(some, targets, estimator=estimator, layout=layout, rng=rng)
    return replace(estimator.model(), targets=targets, gradual=gradual)


def _denoise_tables(
    cliques: Iterable[Clique],
    effects: GLSEstimate,
    *,
    estimator: Estimator,
    layout: RulePotentials,
    rng: np.random.Generator,
    public: Mapping[Clique, Table],
    known: Mapping[Clique, Table] | None = None,
) -> dict[Clique, Table]:
    """Return measured tables without most of their noise, and public ones, with the single columns of the model.

    What they are compared with is the public table, if there is one, or the model's, scaled to `known` tables of
    fewer columns.
    """
    found = {}
    for clique in cliques:
        baseline = rake_to_parts(estimator.table(clique), clique, known=known or {})
        if clique in public:
            baseline = rake_public_table(public[clique], beside=baseline)
        if clique not in effects.interactions:
            found[clique] = baseline
            continue
        allowed = layout.allowed(clique)
        table = denoise(
            effects.marginal(clique),
            baseline=baseline,
            deviation=effects.interactions[clique].weight ** -0.5,
            allowed=None if allowed.all() else allowed,
            rng=rng,
        )
        found[clique] = rake_to_columns(table, beside=baseline)
    return found


def _denoise_coarse_tables(
    tables: Iterable[CoarseTable],
    known: Mapping[Clique, Table],
    *,
    estimator: Estimator,
    layout: RulePotentials,
    rng: np.random.Generator,
) -> dict[Clique, Table]:
    """Return coarse tables without most of their noise, spread over the model's groups as it has them."""
    found: dict[Clique, Table] = {}
    for each in tables:
        clique = each.clique
        fine = found.get(clique, known.get(clique))
        if fine is None:
            fine = rake_to_parts(estimator.table(clique), clique, known=known)
        baseline, allowed = each.summed(fine), each.possible(layout.allowed(clique))
        table = denoise(
            each.values,
            baseline=baseline,
            deviation=each.variance**0.5,
            allowed=None if allowed.all() else allowed,
            rng=rng,
        )
        found[clique] = each.scale_to(fine, wanted=rake_to_columns(table, beside=baseline))
    return found


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


def _column_observation(name: str, effects: GLSEstimate, *, total: float) -> Observation:
    values, variance = effects.marginal((name,)), np.maximum(effects.variance((name,)), _MIN_VARIANCE)
    return Observation((name,), project_to_simplex_weighted(values, variance, total=total), variance)


def _precise_columns(columns: Sequence[Observation], *, total: float) -> list[Observation]:
    """Return the columns that are known well: the model is held to them in the end, whatever noisy tables say.

    The fit follows cells that stand out of their noise and lets others be, which cleans columns that are known badly.
    """
    most = _PRECISE_SHARE * 2 * total / math.sqrt(2 / math.pi)
    return [each for each in columns if each.values.sum() > 0 and float(np.sqrt(each.variance).sum()) < most]


def _grouped_public_tables(
    public: PublicMarginals | None, *, domain: Domain, groupings: Mapping[str, Grouping]
) -> dict[Clique, Table]:
    """Return public tables of several columns as the model sees them, their columns in the domain's order."""
    order = {name: place for place, name in enumerate(domain)}
    found = {}
    for given, counts in public_joint_tables(public).items():
        clique = tuple(sorted(given, key=order.__getitem__))
        table = counts.astype(np.float64).transpose([given.index(name) for name in clique])
        for axis, name in enumerate(clique):
            if name in groupings:
                table = sum_groups(table, groupings[name], axis=axis)
        found[clique] = table
    return found


def _table_observation(
    clique: Clique,
    table: Table,
    effects: GLSEstimate,
    *,
    coarse: Sequence[CoarseTable],
    public: Mapping[Clique, Table],
) -> Observation:
    spread = [each.even_variance for each in coarse if each.clique == clique]
    if clique not in effects.interactions and spread:
        return Observation(clique, table, np.full(table.shape, min(spread)))
    if clique not in effects.interactions:
        # As if both tables were random samples.
        more = table.sum() / public[clique].sum()
        return Observation(clique, table, np.full(table.shape, (1 + more) * (table.mean() + more)))
    return Observation(clique, table, np.full(table.shape, 1 / effects.interactions[clique].weight))


def _spanning_forest_first(worth: Sequence[Clique]) -> list[Clique]:
    """Return cliques with those first that join columns not joined before: each column with its closest.

    A forest costs few cells. In the order of what they tell alone, cliques of a few columns would fill the tree, and
    columns that are close to one other column each would stand by themselves.
    """
    part = {name: name for clique in worth for name in clique}
    first = []
    for clique in worth:
        parts = {part[name] for name in clique}
        if len(parts) == len(clique):
            first.append(clique)
            part = {name: clique[0] if where in parts else where for name, where in part.items()}
    kept = set(first)
    return [*first, *(clique for clique in worth if clique not in kept)]


def _choose_tree_tables(
    worth: Sequence[Clique], *, beside: Sequence[Clique], layout: RulePotentials
) -> list[Clique]:
    """Return the cliques, the first ones first, that a junction tree of limited size can hold together."""
    domain = layout.domain
    bit = {name: 1 << i for i, name in enumerate(domain)}
    sizes = domain.shape(domain)

    def cells(cliques: Sequence[Clique]) -> int:
        if layout.has_rules:
            tree, hidden = layout.tree(cliques)
            return tree.cells(hidden)
        masks = [sum(bit[name] for name in clique) for clique in cliques]
        return table_cells(maximal_tables(masks, sizes=sizes), sizes=sizes)

    kept = list(beside)
    columns = sum(len(clique) < 2 for clique in kept)
    room = max(MAX_TREE_CELLS, 2 * cells(kept))
    for clique in _spanning_forest_first(worth):
        if domain.cells(clique) <= room:
            needed = cells([*kept, clique])
            if needed <= room and (len(kept) - columns) * needed <= MAX_SWEEP_WORK:
                kept.append(clique)
    return kept[len(beside) :]
