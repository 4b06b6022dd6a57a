"""Verification of synthetic rows: within their codebook, and the very rows that the model and the seed give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from populace.core.untrusted_files import altered_error, check_memory
from populace.inference.constraints.conditional_model import ConditionalModel, condition_model
from populace.inference.model import Model
from populace.release.manifest import TABLE_FILES, Manifest, list_table_files, list_versions
from populace.release.row_selection import RowSelection
from populace.release.synthetic_rows import DRAWING_RULES, digest_arithmetic, draw_tables
from populace.release.table_files import read_table
from populace.release.verify.checks import CheckOutcome, CheckResult, run_check
from populace.release.verify.verify_values import find_column_outside
from populace.schema.codec.table_codec import TableCodec
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

# A share is told to six digits, and two machines may sum it in another order.
SHARE_TOLERANCE = 1e-4
# The versions that decide which rows a seed draws.
DECISIVE_VERSIONS = ("populace", "numpy", "python")


def read_tables(folder: Path, manifest: Manifest, *, schema: Schema) -> list[pa.Table]:
    """Return the tables of all implicates."""
    return [read_table(folder / name, schema=schema) for name in list_tables(manifest)]


def check_rows(tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model, rows: int) -> str:
    """Refuse tables of another size, with values outside the codebook, or with rows that break a rule."""
    _check_size(model, schema=schema)
    where = _parse_filter(manifest.selection, schema=schema, model=model)
    rules: Mapping[str, int] = {}
    for name, table in zip(list_tables(manifest), tables, strict=True):
        if table.num_rows != rows:
            raise altered_error(f"{name} does not have the number of rows that the statement gives")
        outside = find_column_outside(table, schema=schema)
        if outside is not None:
            raise altered_error(f"column {outside!r} of {name} holds values outside its codebook")
        rules = TableCodec(schema).count_violations(table)
        broken = next((text for text, count in rules.items() if count), None)
        if broken is not None:
            raise altered_error(f"rows of {name} break a rule of the codebook: {broken}")
        if where is not None and not where.holds(table).all():
            raise altered_error(f"rows of {name} are not where {where.text}")
    kept = f" and keep its {len(rules)} rules" if rules else ""
    some = f", all where {where.text}" if where is not None else ""
    number = f"{manifest.implicates} tables of " if manifest.implicates > 1 else ""
    return f"{number}{rows} rows, all within the codebook{kept}{some}"


def check_redrawn(tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model) -> CheckResult:
    """Draw the rows again from the model and the seed, and compare them.

    Other rows are a failure where everything that decides about them is as it was, and otherwise unknown: a field
    that names another version cannot turn them into the rows that the model gives.
    """
    differing: list[str] = []

    def redraw() -> str:
        differing.extend(_find_differing(tables, manifest, schema=schema, model=model))
        if differing:
            raise altered_error(f"{differing[0]} does not hold the rows that the model and the seed give")
        return "model and seed give the same rows again"

    found = run_check("redrawn", redraw)
    if found.passed and not (manifest.number == 1 or manifest.drawing in range(1, DRAWING_RULES + 1)):
        # Equal rows do not make known what the manifest says of them.
        detail = f"drawn by rules {manifest.drawing or 'unknown'}, and this version knows those up to {DRAWING_RULES}"
        return CheckResult(name="redrawn", outcome=CheckOutcome.UNKNOWN, detail=detail)
    others = describe_differences(manifest) if differing else ""
    if not others:
        return found
    return CheckResult(
        name="redrawn",
        outcome=CheckOutcome.UNKNOWN,
        detail=f"not redrawn: {differing[0]} was made with {others}, and here model and seed give other rows",
    )


def skip_redrawing() -> CheckResult:
    """Return that nobody tried."""
    return CheckResult(
        name="redrawn",
        outcome=CheckOutcome.UNKNOWN,
        detail="not redrawn: the rows may not be the model's (--quick)",
    )


def describe_differences(manifest: Manifest) -> str:
    """Return in words what decided about the numbers of a release, where it is not what is here today."""
    mine = list_versions()
    drawn_again = [
        f"{name} {manifest.versions[name]!r} instead of {mine[name]!r}"
        for name in DECISIVE_VERSIONS
        if manifest.versions[name] != mine[name]
    ]
    if manifest.estimated:
        return "; ".join(drawn_again)
    if manifest.drawing != DRAWING_RULES:
        drawn_again.append(f"drawing rules {manifest.drawing or 'unknown'} instead of {DRAWING_RULES}")
    if manifest.arithmetic != digest_arithmetic():
        drawn_again.append("another processor, or another number of threads")
    return "; ".join(drawn_again)


def _find_differing(
    tables: list[pa.Table], manifest: Manifest, *, schema: Schema, model: Model
) -> Iterator[str]:
    """Yield the names of tables that are not what model and seed give."""
    if manifest.sampling_seed is None:
        raise altered_error("the manifest has no seed of the rows")
    given: ConditionalModel | None = None
    if manifest.selection is not None:
        where = RowFilter.of(manifest.selection.where, schema=schema)
        given = condition_model(model, where.rules, text=where.text)
    drawn = draw_tables(
        schema,
        model,
        given=given,
        rows=tables[0].num_rows,
        implicates=len(tables),
        seed=manifest.sampling_seed,
    )
    for name, table, again in zip(list_tables(manifest), tables, drawn, strict=True):
        if not again.table.equals(table):
            yield name


def _check_size(model: Model, *, schema: Schema) -> None:
    """Refuse a model that is not one of the schema, or whose tables no machine holds, before anything is computed."""
    domain = model.domain if model.recoding is None else model.recoding.domain
    if dict(domain) != dict(schema.domain):
        raise altered_error("the model is not one of the codebook's columns")
    held = {name for clique in model.potentials for name in clique}
    if not set(model.hidden) <= held:
        raise altered_error("the model has variables that nothing hangs on")
    cells = sum(math.prod(model.full_domain.shape(node)) for node in model.tree.nodes)
    check_memory("the model", size=8 * cells)


def list_tables(manifest: Manifest) -> list[str]:
    """Return the names of the tables of all implicates."""
    first = next(name for name in TABLE_FILES if name in manifest.files)
    return list_table_files(first, implicates=manifest.implicates)


def _parse_filter(selection: RowSelection | None, *, schema: Schema, model: Model) -> RowFilter | None:
    """Return the condition of all rows, after making sure that the model has the share of them that is told."""
    if selection is None:
        return None
    where = RowFilter.of(selection.where, schema=schema)
    share = condition_model(model, where.rules, text=where.text).share
    if abs(share - selection.share) > SHARE_TOLERANCE * share:
        raise altered_error(
            f"the model has another share of rows where {where.text} than the statement gives"
        )
    return where
