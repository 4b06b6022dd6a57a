"""The model of `dpsyn`: declared groups recoded by the public table, and rows counted out area by area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from populace.infer.areas import MOST_AREAS, STEP_MEASURED, STEP_PUBLIC, area_rows, holding
from populace.infer.assemble import assemble
from populace.infer.model import Model
from populace.infer.recoding import mergeable, recode_items, recode_public, recoding_of
from populace.infer.structure import Layout
from populace.marginals import Clique
from populace.measurements import Measurement
from populace.progress import Progress
from populace.public import Borrowed
from populace.schema.rules import Rules
from populace.schema.schema import Schema


def parted_model(
    items: Sequence[Measurement],
    *,
    schema: Schema,
    public: Borrowed | None,
    gradual: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Return the model of measurements by areas, beside public tables.

    Groups that the schema declares are one column each, with the combinations that their public table holds. Where the
    schema names a partition and no totals, rows have the counts of `area_rows` in its cells.
    """
    domain, rules, totals = schema.domain, schema.rules, schema.totals
    kept = {*schema.partition, *(name for known in totals for name in known.clique)}
    groups = mergeable(schema.groups, domain=domain, apart=kept)
    recoding = recoding_of(public, groups, domain=domain, rules=rules)
    recoded = None if recoding is None else recode_items(items, recoding)
    if recoding is not None and recoded is not None:
        items, public, rules = tuple(recoded), recode_public(public, recoding), recoding.rules(rules)
        domain = recoding.recoded
        # Where all pairs were measured, only combinations are public, and no count of them.
        public = None if public is None or not any(len(c) > 1 for c in public.tables) else public
    else:
        recoding = None
    areas = tuple(name for name in domain if name in schema.partition)
    if totals or domain.cells(areas) > MOST_AREAS:
        areas = ()
    model = assemble(
        items,
        domain=domain,
        rules=rules,
        totals=totals,
        public=public,
        first=areas if len(areas) > 1 else (),
        gradual=gradual,
        progress=progress,
    )
    if areas:
        model = _by_area(model, areas, items=items, schema=schema, rules=rules)
    return replace(model, recoding=recoding)


def _by_area(
    model: Model, areas: Clique, *, items: Sequence[Measurement], schema: Schema, rules: Rules
) -> Model:
    """Return the model with the rows of every area counted out."""
    alone = all(set(item.marginal.clique) <= set(areas) for item in items)
    expected = model.targets[areas] if areas in model.targets else model.marginal(areas)
    allowed = Layout(rules, domain=model.domain, groupings=model.groupings).allowed(areas)
    rows = area_rows(
        np.asarray(expected) * (model.total / expected.sum()),
        least=schema.partition_least,
        step=schema.partition_step,
        usual=STEP_PUBLIC if alone else STEP_MEASURED,
        allowed=allowed,
    )
    return holding(model, areas, rows)
