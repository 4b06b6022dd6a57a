"""The model of `dpsyn`: declared groups recoded by the public table, and rows counted out area by area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Counts
from populace.inference.constraints.recoding import (
    mergeable_groups,
    recode_by_public,
    recode_items,
    recode_public,
)
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table, add_potential
from populace.inference.fit.fit_model import fit_model
from populace.inference.fit.public_prior import shrink_counts_to_public
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.method import FitInput
from populace.schema.conditions.rules import Allowed, Rules
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DpsynConfig:
    """Parts of ε for every row θ that one unit moves, and how rows are counted out by area."""

    min_total_epsilon: Fraction = Fraction(1, 35)
    """From this ε/θ on, the number of rows is measured; below, the partition alone."""
    total_epsilon: Fraction = Fraction(1, 1400)
    """ε₀/θ, for the number of rows."""
    partition_epsilon: Fraction = Fraction(1, 50)
    """ε₁/θ, for the partition at least."""
    max_partition_epsilon: Fraction = Fraction(1, 25)
    """ε₃/θ, for the partition at most."""
    column_rows: int = 1500
    """τ₁·Ñ/θ: columns are worth their noise from ε = so many rows over all rows on."""
    pairs_factor: int = 6
    """τ₂/τ₁: pairs need so many times what columns do."""
    public_group_columns: int = 3
    """Declared groups of so many columns are taken from the public table; larger ones are known by their pairs."""
    min_area_rows: int = 300
    """Small areas are raised to so many rows."""
    step_public: int = 10
    """Rows by area are rounded to multiples of this beside public tables alone."""
    step_measured: int = 100
    """Rows by area are rounded to multiples of this beside measured tables."""
    moved_row_in: int = 20
    """Neither raising nor rounding moves more than one row in so many, unless the schema says so."""


DPSYN_CONFIG = DpsynConfig()


def dpsyn_model(given: FitInput) -> Model:
    """Return the model of measurements by areas, beside public tables.

    Groups that the schema declares are one column each, with the combinations that their public table holds. Where the
    schema names a partition and no totals, rows have the counts of `round_area_counts` in its cells.
    """
    schema, public, space = given.schema, given.public, given.space
    items = tuple(given.items)
    groups = mergeable_groups(schema)
    # Where pairs were measured, only combinations of groups are public, and no count of them; and counts by area.
    by_area = public is not None and all(
        clique in groups or (len(clique) > 1 and set(clique) & set(schema.partition))
        for clique in public.tables
    )
    measured_pairs = by_area and any(set(item.marginal.clique) - set(schema.partition) for item in items)
    recoding = recode_by_public(public, groups, space=space)
    recoded = None if recoding is None else recode_items(items, recoding)
    if recoding is not None and recoded is not None:
        items, public = tuple(recoded), recode_public(public, recoding)
        space = replace(space, domain=recoding.recoded, rules=recoding.rules(space.rules))
    else:
        recoding = None
    if measured_pairs and public is not None:
        # Rows that are moved from single columns on take each area for a sample of the whole, as in the source.
        kept = set() if given.gradual else set(schema.partition)
        held = {clique: table for clique, table in public.tables.items() if set(clique) & kept}
        public = PublicMarginals(held) if held else None
    areas = tuple(name for name in space.domain if name in schema.partition)
    if space.totals or space.domain.cells(areas) > LIMITS.max_areas:
        areas = ()
    model = fit_model(
        shrink_partition_sums(items, schema.partition, public=public),
        space=space,
        public=drop_partition_tables(public, schema.partition),
        first=areas if len(areas) > 1 else (),
        gradual=given.gradual,
        progress=given.progress,
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


def round_area_counts(
    expected: Table,
    *,
    least: int | None = None,
    step: int | None = None,
    usual: int = DPSYN_CONFIG.step_measured,
    allowed: Allowed | None = None,
) -> Counts:
    """Return whole numbers of rows by area: those below `least` raised to it, all rounded to multiples of `step`.

    Rounding never leaves an area below `least`, nor all of them without rows: it goes up there.
    Where nothing is given, they are raised to 300, and then rounded to the larger of `usual` and 10, as long as that
    moves at most one row in twenty: a table of many areas with few rows each is left as it is. Areas that are not
    allowed have no rows. It is a function of noisy counts alone.
    Source: the DPSyn entry to the NIST challenge of 2020, which has 300 and multiples of 10 or 100 for all tables.

    >>> round_area_counts(np.array([2950.0, 1204.4, 880.0, 290.2]))
    array([3000, 1200,  900,  300])
    >>> round_area_counts(np.array([12.3, 4.0, 0.7]))
    array([12,  4,  1])
    >>> round_area_counts(np.array([12.3, 4.0, 0.7]), least=10, step=5)
    array([10, 10, 10])
    >>> round_area_counts(np.array([140.0, 2400.0]), least=149, step=100)
    array([ 200, 2400])
    """
    inside = np.ones(expected.shape, np.bool_) if allowed is None else allowed
    values = np.where(inside, np.maximum(expected, 0.0), 0.0)
    most = float(values.sum()) / DPSYN_CONFIG.moved_row_in
    floor = DPSYN_CONFIG.min_area_rows if least is None else least
    raised = np.where(inside, np.maximum(values, floor), 0.0)
    if least is None and float((raised - values).sum()) > most:
        floor, raised = 0, values
    for each in (usual, DPSYN_CONFIG.step_public) if step is None else (step,):
        rounded = _round_to_step(raised, inside, floor=floor, step=each)
        if each > 1 and (step is not None or float(np.abs(rounded - raised).sum()) <= most):
            return rounded
    # Whole numbers with the same sum, the largest remainders rounded up.
    found = np.floor(raised).astype(np.int64)
    short = round(float(raised.sum())) - int(found.sum())
    found.reshape(-1)[np.argsort((found - raised).ravel(), kind="stable")[:short]] += 1
    return found


def condition_on_areas(model: Model, clique: Clique, rows: Counts) -> Model:
    """Return the model given so many rows in every area: those drawn from it have exactly these counts.

    One factor on the areas does it, p′(row) = p(row)·rows(area)/p(area): given its area, a row is as before.
    """
    if not clique or not rows.sum() or model.exact:
        return model
    here = model.grouped_marginal(clique)
    wanted = rows * (here.sum() / rows.sum())
    scale = np.full(rows.shape, FORBIDDEN)
    np.log(wanted / np.maximum(here, 1e-300), out=scale, where=rows > 0)
    potentials = dict(model.potentials)
    add_potential(potentials, clique, scale)
    share = float(rows.sum()) / model.total
    return replace(
        model,
        potentials=potentials,
        total=float(rows.sum()),
        exact=(clique,),
        targets={each: table * share for each, table in model.targets.items()} | {clique: rows.astype(float)},
    )


def _round_to_step(values: Table, inside: Allowed, *, floor: int, step: int) -> Counts:
    """Return the nearest multiples of a step, and the next larger ones where these are below the floor, or all zero."""
    near = step * np.rint(values / step).astype(np.int64)
    up = step * np.ceil(values / step).astype(np.int64)
    if not near.any():
        return np.where(values >= 0.5, up, 0)
    return np.where(inside & (near < floor), up, near)
