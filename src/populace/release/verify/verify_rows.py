"""Verification of synthetic rows: within their codebook, and the very rows that the model and the seed give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from populace.core.untrusted_files import altered_error, check_memory
from populace.inference.constraints.conditional_model import ConditionalModel, condition_model
from populace.inference.model import Model
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.manifest import Manifest, list_versions
from populace.release.row_selection import RowSelection
from populace.release.streamed_table import StreamedTable, iterate_blocks
from populace.release.synthetic_rows import (
    BLOCK_DRAWING_RULES,
    DRAWING_RULES,
    digest_arithmetic,
    draw_tables,
)
from populace.release.table_files import count_column, count_units
from populace.release.verify.checks import Inconclusive
from populace.schema.codec.datetime_codec import parse_temporal
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn
from populace.schema.columns.range_columns import StepColumn, numeric_special_codes
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema

# A share is written to six digits, and two machines may sum it in another order.
SHARE_TOLERANCE = 1e-4
# The versions that decide which rows a seed draws.
DECISIVE_VERSIONS = ("populace", "numpy", "python")


def check_rows(
    tables: Sequence[pa.Table | StreamedTable], manifest: Manifest, *, schema: Schema, model: Model, rows: int
) -> str:
    """Refuse tables of another size, with values outside the codebook, or with rows that break a rule."""
    _check_size(model, schema=schema)
    where = _parse_filter(manifest.selection, schema=schema, model=model)
    rules: Mapping[str, int] = {}
    for name, table in zip(list_tables(manifest), tables, strict=True):
        found = 0
        for block in iterate_blocks(table):
            found += count_units(block, schema=schema)
            rules = _check_block(block, name, schema=schema, where=where)
        if found != rows:
            raise altered_error(f"{name} does not have the number of rows that the statement gives")
    kept = f" and keep its {len(rules)} rules" if rules else ""
    some = f", all where {where.text}" if where is not None else ""
    number = f"{manifest.implicates} tables of " if manifest.implicates > 1 else ""
    if (counted := count_column(schema)) is not None:
        some = f", with {rows} as the sum of {counted!r}"
        rows = tables[0].num_rows
    return f"{number}{rows} rows, all within the codebook{kept}{some}"


def _check_block(block: pa.Table, name: str, *, schema: Schema, where: RowFilter | None) -> Mapping[str, int]:
    """Refuse rows with values outside the codebook, or that break a rule; return the rules."""
    outside = find_column_outside(block, schema=schema)
    if outside is not None:
        raise altered_error(f"column {outside!r} of {name} holds values outside its codebook")
    rules = TableCodec(schema).count_violations(block)
    broken = next((text for text, count in rules.items() if count), None)
    if broken is not None:
        raise altered_error(f"rows of {name} break a rule of the codebook: {broken}")
    if where is not None and not where.holds(block).all():
        raise altered_error(f"rows of {name} are not where {where.text}")
    return rules


def check_redrawn(
    tables: Sequence[pa.Table | StreamedTable], manifest: Manifest, *, schema: Schema, model: Model
) -> str:
    """Draw the rows again from the model and the seed, and compare them.

    Other rows are a failure where everything that decides about them is as it was, and otherwise unknown: a field
    that names another version cannot turn them into the rows that the model gives.
    """
    rules = BLOCK_DRAWING_RULES if isinstance(tables[0], StreamedTable) else DRAWING_RULES
    differing = next(_find_differing(tables, manifest, schema=schema, model=model), None)
    if differing is None:
        if manifest.number == 1 or manifest.drawing == rules:
            return "model and seed give the same rows again"
        # Equal rows do not make known what the manifest says of them.
        raise Inconclusive(
            f"drawn by rules {manifest.drawing or 'unknown'}, and this version draws so many rows by rules {rules}"
        )
    if others := describe_differences(manifest, drawing=rules):
        raise Inconclusive(
            f"not redrawn: {differing} was made with {others}, and here model and seed give other rows"
        )
    raise altered_error(f"{differing} does not hold the rows that the model and the seed give")


def check_integer_tables(released: ReleasedHierarchy, manifest: Manifest) -> str:
    """Make the integer tables of a geography again from the measurements, and compare the model with them."""
    if np.array_equal(released.measured.tables[-1], released.smallest):
        return "the measurements give the same integer tables again"
    if others := describe_differences(manifest):
        raise Inconclusive(f"made with {others}, and here the measurements give other integer tables")
    raise altered_error("the model does not hold the integer tables that the measurements give")


def describe_differences(manifest: Manifest, *, drawing: int | None = None) -> str:
    """Return in words what decided about the numbers of a release, where it is not what is here today.

    `drawing` are the rules by which rows are drawn here, if it is known how many there are.
    """
    mine = list_versions()
    drawn_again = [
        f"{name} {manifest.versions[name]!r} instead of {mine[name]!r}"
        for name in DECISIVE_VERSIONS
        if manifest.versions[name] != mine[name]
    ]
    if manifest.rowless:
        return "; ".join(drawn_again)
    known = range(DRAWING_RULES, BLOCK_DRAWING_RULES + 1) if drawing is None else [drawing]
    if manifest.drawing not in known:
        drawn_again.append(f"drawing rules {manifest.drawing or 'unknown'} instead of {known[-1]}")
    if manifest.arithmetic != digest_arithmetic():
        drawn_again.append("another processor, or another number of threads")
    return "; ".join(drawn_again)


def _find_differing(
    tables: Sequence[pa.Table | StreamedTable], manifest: Manifest, *, schema: Schema, model: Model
) -> Iterator[str]:
    """Yield the names of tables that are not what model and seed give."""
    given: ConditionalModel | None = None
    if manifest.selection is not None:
        where = RowFilter.of(manifest.selection.where, schema=schema)
        given = condition_model(model, where.rules, text=where.text)
    rows = tables[0].num_rows
    drawn = draw_tables(schema, model, given=given, rows=rows, implicates=len(tables), seed=manifest.seed)
    for name, table, again in zip(list_tables(manifest), tables, drawn, strict=True):
        redrawn = again if isinstance(again, StreamedTable) else again.table
        blocks = zip_longest(iterate_blocks(redrawn), iterate_blocks(table))
        if not all(one is not None and other is not None and one.equals(other) for one, other in blocks):
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
    """Return the names of the tables of all implicates; of linked tables, both together."""
    return [" and ".join(names) for names in manifest.table_files]


def _parse_filter(selection: RowSelection | None, *, schema: Schema, model: Model) -> RowFilter | None:
    """Return the condition of all rows, after making sure that the model has the share of them that is stated."""
    if selection is None:
        return None
    where = RowFilter.of(selection.where, schema=schema)
    share = condition_model(model, where.rules, text=where.text).share
    if abs(share - selection.share) > SHARE_TOLERANCE * share:
        raise altered_error(
            f"the model has another share of rows where {where.text} than the statement gives"
        )
    return where


def find_column_outside(table: pa.Table, *, schema: Schema) -> str | None:
    """Return the first column with a value outside its domain, or None if there is none."""
    return next(
        (name for name, column in schema.columns.items() if not is_within_domain(column, table[name])),
        _find_bad_count(table, schema=schema),
    )


def _find_bad_count(table: pa.Table, *, schema: Schema) -> str | None:
    """Return the column that counts units where a row stands for none, or for no number of them."""
    if (name := count_column(schema)) is None or not table.num_rows:
        return None
    return name if table[name].null_count or pc.min(table[name]).as_py() < 1 else None


def is_within_domain(column: Column, values: pa.ChunkedArray[Any]) -> bool:
    """Say whether every value is a value, a missing code or the declared code for everything else.

    Encoding cannot answer this: it maps whatever it meets into the domain.

    >>> from populace.schema.columns.numeric_columns import IntegerColumn
    >>> age = IntegerColumn(name="age", min=0, max=99)
    >>> is_within_domain(age, pa.chunked_array([[17, None]])), is_within_domain(age, pa.chunked_array([[17, 120]]))
    (True, False)
    """
    declared = [*(column.values if isinstance(column, CategoricalColumn) else ()), *column.specials]
    if values.null_count and "" not in declared:
        return False
    values = values.drop_null()
    written = pa.types.is_string(values.type)
    if isinstance(column, CategoricalColumn):
        known = (
            pa.array(declared, pa.string())
            if written
            else pa.array([float(text) for text in declared if text], pa.float64())
        )
        return bool(pc.all(pc.is_in(values.cast(known.type), known), min_count=0).as_py())
    if written:
        # A column of numbers or dates that has words among its special codes is written as text.
        values = values.filter(pc.invert(pc.is_in(values, pa.array(declared, pa.string()))))
    if isinstance(column, TemporalColumn):
        numbers = parse_temporal(column, values.combine_chunks())
    else:
        try:
            numbers = (pc.cast(values, pa.float64()) if written else values).to_numpy().astype(np.float64)
        except pa.ArrowInvalid:
            return False
    specials = [float(value) for value in numeric_special_codes(column).values()]
    return bool((_are_within_ends(column, numbers) | np.isin(numbers, specials)).all())


def _are_within_ends(column: Column, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if isinstance(column, StepColumn):
        whole = numbers == np.floor(numbers)
        return np.asarray(whole & (numbers >= float(column.min)) & (numbers <= float(column.max)))
    if isinstance(column, DecimalColumn):
        low, high = float(column.edges[0]), float(column.edges[-1])
        return np.asarray((numbers >= low) & (numbers <= high))
    return np.zeros(len(numbers), dtype=np.bool_)
