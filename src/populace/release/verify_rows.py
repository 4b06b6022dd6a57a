"""Verification of synthetic rows: within their codebook, and the very rows that the model and the seed give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from populace.infer.condition import Conditioned, condition
from populace.infer.model import Model
from populace.release.checks import Check, Outcome, checked, wrong
from populace.release.drawing import Selection
from populace.release.frame import read_table
from populace.release.inside import first_outside
from populace.release.manifest import TABLE_FILES, Manifest, table_names, versions
from populace.release.rows import DRAWING, arithmetic, draw_tables
from populace.schema.coding import TableCodec
from populace.schema.schema import Schema
from populace.schema.where import Where
from populace.untrusted import check_room

if TYPE_CHECKING:
    import pyarrow as pa

# A share is told to six digits, and two machines may sum it in another order.
SAME_SHARE = 1e-4
# The versions that decide which rows a seed draws.
DECISIVE = ("populace", "numpy", "python")


def read_tables(folder: Path, manifest: Manifest, *, schema: Schema) -> list[pa.Table]:
    """Return the tables of all implicates."""
    return [read_table(folder / name, schema=schema) for name in names_of(manifest)]


def check_rows(tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model, rows: int) -> str:
    """Refuse tables of another size, with values outside the codebook, or with rows that break a rule."""
    _check_size(model, schema=schema)
    where = _where(manifest.selection, schema=schema, model=model)
    rules: Mapping[str, int] = {}
    for name, table in zip(names_of(manifest), tables, strict=True):
        if table.num_rows != rows:
            raise wrong(f"{name} does not have the number of rows that the statement gives")
        outside = first_outside(table, schema=schema)
        if outside is not None:
            raise wrong(f"column {outside!r} of {name} holds values outside its codebook")
        rules = TableCodec(schema).broken(table)
        broken = next((text for text, count in rules.items() if count), None)
        if broken is not None:
            raise wrong(f"rows of {name} break a rule of the codebook: {broken}")
        if where is not None and not where.holds(table).all():
            raise wrong(f"rows of {name} are not where {where.text}")
    kept = f" and keep its {len(rules)} rules" if rules else ""
    some = f", all where {where.text}" if where is not None else ""
    number = f"{manifest.implicates} tables of " if manifest.implicates > 1 else ""
    return f"{number}{rows} rows, all within the codebook{kept}{some}"


def check_redrawn(tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model) -> Check:
    """Draw the rows again from the model and the seed, and compare them.

    Other rows are a failure where everything that decides about them is as it was, and otherwise unknown: a field
    that names another version cannot turn them into the rows that the model gives.
    """
    differing: list[str] = []

    def redraw() -> str:
        differing.extend(_differing(tables, manifest, schema=schema, model=model))
        if differing:
            raise wrong(f"{differing[0]} does not hold the rows that the model and the seed give")
        return "model and seed give the same rows again"

    found = checked("redrawn", redraw)
    if found.passed and not (manifest.number == 1 or manifest.drawing in range(1, DRAWING + 1)):
        # Equal rows do not make known what the manifest says of them.
        detail = (
            f"drawn by rules {manifest.drawing or 'unknown'}, and this version knows those up to {DRAWING}"
        )
        return Check(name="redrawn", outcome=Outcome.UNKNOWN, detail=detail)
    others = other_conditions(manifest) if differing else ""
    if not others:
        return found
    return Check(
        name="redrawn",
        outcome=Outcome.UNKNOWN,
        detail=f"not redrawn: {differing[0]} was made with {others}, and here model and seed give other rows",
    )


def not_redrawn() -> Check:
    """Return that nobody tried."""
    return Check(
        name="redrawn",
        outcome=Outcome.UNKNOWN,
        detail="not redrawn: the rows may not be the model's (--quick)",
    )


def other_conditions(manifest: Manifest) -> str:
    """Return in words what decided about the numbers of a release, where it is not what is here today."""
    mine = versions()
    told = [
        f"{name} {manifest.versions[name]!r} instead of {mine[name]!r}"
        for name in DECISIVE
        if manifest.versions[name] != mine[name]
    ]
    if manifest.estimated:
        return "; ".join(told)
    if manifest.drawing != DRAWING:
        told.append(f"drawing rules {manifest.drawing or 'unknown'} instead of {DRAWING}")
    if manifest.arithmetic != arithmetic():
        told.append("another processor, or another number of threads")
    return "; ".join(told)


def _differing(tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model) -> Iterator[str]:
    """Yield the names of tables that are not what model and seed give."""
    if manifest.sampling_seed is None:
        raise wrong("the manifest has no seed of the rows")
    given: Conditioned | None = None
    if manifest.selection is not None:
        where = Where.of(manifest.selection.where, schema=schema)
        given = condition(model, where.rules, text=where.text)
    drawn = draw_tables(
        schema,
        model,
        given=given,
        rows=tables[0].num_rows,
        implicates=len(tables),
        seed=manifest.sampling_seed,
    )
    for name, table, again in zip(names_of(manifest), tables, drawn, strict=True):
        if not again.equals(table):
            yield name


def _check_size(model: Model, *, schema: Schema) -> None:
    """Refuse a model that is not one of the schema, or whose tables no machine holds, before anything is computed."""
    domain = model.domain if model.recoding is None else model.recoding.domain
    if dict(domain) != dict(schema.domain):
        raise wrong("the model is not one of the codebook's columns")
    held = {name for clique in model.potentials for name in clique}
    if not set(model.hidden) <= held:
        raise wrong("the model has variables that nothing hangs on")
    cells = sum(math.prod(model.full_domain.shape(node)) for node in model.tree.nodes)
    check_room("the model", size=8 * cells)


def names_of(manifest: Manifest) -> list[str]:
    """Return the names of the tables of all implicates."""
    first = next(name for name in TABLE_FILES if name in manifest.files)
    return table_names(first, implicates=manifest.implicates)


def _where(selection: Selection | None, *, schema: Schema, model: Model) -> Where | None:
    """Return the condition of all rows, after making sure that the model has the share of them that is told."""
    if selection is None:
        return None
    where = Where.of(selection.where, schema=schema)
    share = condition(model, where.rules, text=where.text).share
    if abs(share - selection.share) > SAME_SHARE * share:
        raise wrong(f"the model has another share of rows where {where.text} than the statement gives")
    return where
