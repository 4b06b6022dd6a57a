"""The model of `dpsyn`: declared groups recoded by the public table, and rows counted out area by area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Counts
from populace.core.progress import Progress
from populace.inference.constraints.recoding import (
    columns_kept_apart,
    mergeable_groups,
    recode_by_public,
    recode_items,
    recode_public,
)
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.fit.fit_model import fit_model
from populace.inference.fit.public_prior import shrink_counts_to_public
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.dpsyn.controlled_rounding import (
    condition_on_areas,
    round_area_counts,
)
from populace.methods.dpsyn.dpsyn_config import DPSYN_CONFIG
from populace.schema.conditions.rules import Rules
from populace.schema.schema import Schema


def dpsyn_model(
    items: Sequence[Measurement],
    *,
    schema: Schema,
    public: PublicMarginals | None,
    gradual: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Return the model of measurements by areas, beside public tables.

    Groups that the schema declares are one column each, with the combinations that their public table holds. Where the
    schema names a partition and no totals, rows have the counts of `round_area_counts` in its cells.
    """
    space = ModelSpace.of(schema)
    apart = columns_kept_apart(schema.partition, space.totals)
    groups = mergeable_groups(schema.groups, domain=space.domain, apart=apart)
    # Where all pairs were measured, only combinations of groups are public, and no count of them.
    only_combinations = public is not None and set(public.tables) <= set(groups)
    recoding = recode_by_public(public, groups, space=space)
    recoded = None if recoding is None else recode_items(items, recoding)
    if recoding is not None and recoded is not None:
        items, public = tuple(recoded), recode_public(public, recoding)
        space = replace(space, domain=recoding.recoded, rules=recoding.rules(space.rules))
    else:
        recoding = None
    if only_combinations:
        public = None
    areas = tuple(name for name in space.domain if name in schema.partition)
    if space.totals or space.domain.cells(areas) > LIMITS.max_areas:
        areas = ()
    model = fit_model(
        shrink_partition_sums(items, schema.partition, public=public),
        space=space,
        public=drop_partition_tables(public, schema.partition),
        first=areas if len(areas) > 1 else (),
        gradual=gradual,
        progress=progress,
    )
    if areas:
        model = _count_out_areas(model, areas, items=items, schema=schema, rules=space.rules)
    return replace(model, recoding=recoding)


def drop_partition_tables(public: PublicMarginals | None, partition: Clique) -> PublicMarginals | None:
    """Return public tables without those of areas alone: a partition of several columns is measured always.

    An earlier year has no row of this one; taken as it is, it would outweigh noisy areas.
    """
    if public is None or len(partition) < 2:
        return public
    kept = {clique: table for clique, table in public.tables.items() if not set(clique) <= set(partition)}
    return PublicMarginals(kept) if kept else None


def shrink_partition_sums(
    items: Sequence[Measurement], partition: Clique, *, public: PublicMarginals | None
) -> tuple[Measurement, ...]:
    """Return measurements in which the partition's table has sums by column that are drawn to the public ones.

    Areas are counted with little of the budget, so that a column's sums over them are noisier than public shares may
    be. The interactions of the table stay as they were measured.
    """
    known = {} if public is None or len(partition) < 2 else public.tables
    wanted = [item for item in items if set(item.marginal.clique) == set(partition)]
    if not known or not wanted:
        return tuple(items)
    total = max(1.0, float(np.mean([item.counts.sum() for item in wanted])))
    return tuple(_shrink_sums(item, known, total=total) if item in wanted else item for item in items)


def _shrink_sums(item: Measurement, known: Mapping[Clique, Counts], *, total: float) -> Measurement:
    table = item.counts.astype(np.float64)
    for axis, name in enumerate(item.marginal.clique):
        if (name,) in known:
            others = tuple(each for each in range(table.ndim) if each != axis)
            sums, cells = table.sum(axis=others), table.size // table.shape[axis]
            variance = float(item.variance) * cells
            near, _ = shrink_counts_to_public(sums, variance=variance, public=known[name,], total=total)
            table = table + np.expand_dims((near - sums) / cells, others)
    return Measurement(item.marginal, np.rint(table).astype(np.int64), item.variance)


def _count_out_areas(
    model: Model, areas: Clique, *, items: Sequence[Measurement], schema: Schema, rules: Rules
) -> Model:
    """Return the model with the rows of every area counted out."""
    alone = all(set(item.marginal.clique) <= set(areas) for item in items)
    expected = model.targets[areas] if areas in model.targets else model.marginal(areas)
    allowed = RulePotentials(model.space(rules)).allowed_cells(areas)
    rows = round_area_counts(
        np.asarray(expected) * (model.total / expected.sum()),
        least=schema.partition_least,
        step=schema.partition_step,
        usual=DPSYN_CONFIG.step_public if alone else DPSYN_CONFIG.step_measured,
        allowed=allowed,
    )
    return condition_on_areas(model, areas, rows)
