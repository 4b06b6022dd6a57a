"""Synthetic rows drawn from a fitted model: the same model, seed and number of rows give the same tables again.

`DRAWING_RULES` is the version of these rules, and `digest_arithmetic` tells machines apart whose last digits differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.array_types import Ints
from populace.core.errors import ReleaseError
from populace.inference.constraints.conditional_model import ConditionalModel
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.inference.model import Model
from populace.methods.topdown.counts_model import read_counts
from populace.release.streamed_table import StreamedTable, can_stream
from populace.release.table_files import count_column
from populace.sampling.draw_rows import LINKED_SWEEPS, SWEEPS, draw_rows
from populace.sampling.place_households import place_households
from populace.sampling.row_blocks import MAX_BLOCK_ROWS, deal_counts, draw_blocks, draw_group, split_rows
from populace.sampling.swap_members import MemberBlock
from populace.schema.codec.decoder import arrow_type
from populace.schema.codec.table_codec import TableCodec
from populace.schema.geocodes import GEOCODE
from populace.schema.linked.table_cells import MemberCells, unit_domain
from populace.schema.schema import Schema

# To be raised by whoever changes which rows a seed draws: in here, in `draw_rows`, `fit_rows` or the codecs.
DRAWING_RULES = 1
# The same, for rows that are drawn block by block.
BLOCK_DRAWING_RULES = 2


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticRows:
    """Synthetic rows in the schema's own values and types, and their codes."""

    table: pa.Table
    codes: Mapping[str, npt.NDArray[Any]]


def draw_tables(
    schema: Schema, model: Model, *, given: ConditionalModel | None, rows: int, implicates: int, seed: int
) -> Iterator[SyntheticRows | StreamedTable]:
    """Yield so many tables of synthetic rows, from a model or from what it is given a condition.

    Very many rows are not drawn yet: a stream draws them, always the same, whenever its blocks are asked for.
    """
    for number in range(1, implicates + 1):
        # The first is drawn as if it were the only one.
        key = seed if number == 1 else [seed, number]
        rng = np.random.default_rng(key)
        if count_column(schema) is not None:
            yield count_table(schema, model, rng=rng)
        elif rows > MAX_BLOCK_ROWS and can_stream(schema):
            yield StreamedTable(
                num_rows=rows,
                types={name: arrow_type(column) for name, column in schema.columns.items()},
                open_blocks=partial(_stream_blocks, schema, model, given=given, rows=rows, key=key),
            )
        elif given is None or not given.parts:
            yield draw_table(schema, model, rows=rows, rng=rng)
        else:
            yield draw_conditioned_table(schema, given, rows=rows, rng=rng)


def count_parts(rows: int) -> int:
    """Return in how many parts so many rows can be drawn apart from each other."""
    return len(split_rows(rows)) if rows > MAX_BLOCK_ROWS else 1


def draw_part(schema: Schema, model: Model, *, rows: int, number: int, seed: int) -> Iterator[pa.Table]:
    """Yield the rows of one part, by its number: all parts together are the first table of `draw_tables`."""
    rng = np.random.default_rng(seed)
    if rows <= MAX_BLOCK_ROWS:
        yield draw_table(schema, model, rows=rows, rng=rng).table
        return
    codec = TableCodec(schema)
    yield from draw_group(
        model,
        rows=rows,
        number=number,
        rng=rng,
        rules=schema.rules,
        then=lambda codes, own: codec.decode(codes, rng=own),
    )


def drawing_rules(table: pa.Table | StreamedTable) -> int:
    """Return the version of the rules by which a table is drawn."""
    return BLOCK_DRAWING_RULES if isinstance(table, StreamedTable) else DRAWING_RULES


def _stream_blocks(
    schema: Schema, model: Model, *, given: ConditionalModel | None, rows: int, key: int | list[int]
) -> Iterator[pa.Table]:
    rng, codec = np.random.default_rng(key), TableCodec(schema)
    if schema.geography is not None:
        counts = read_counts(model)
        for cells in deal_counts(counts.ravel(), rng=rng):
            yield codec.decode(_unravel_cells(cells, counts, schema=schema), rng=rng)
        return
    if given is None or not given.parts:
        yield from draw_blocks(
            model,
            rows=rows,
            rng=rng,
            rules=schema.rules,
            then=lambda codes, own: codec.decode(codes, rng=own),
        )
        return
    sizes = list(chain.from_iterable(split_rows(rows)))
    for size, own in zip(sizes, rng.spawn(len(sizes)), strict=True):
        yield draw_conditioned_table(schema, given, rows=size, rng=own).table


def draw_table(schema: Schema, model: Model, *, rows: int, rng: np.random.Generator) -> SyntheticRows:
    """Return synthetic rows of a model, decoded chunk by chunk."""
    codec = TableCodec(schema)
    sweeps = SWEEPS if schema.linked is None else LINKED_SWEEPS
    blocks = list_member_blocks(schema)
    chunks = list(draw_rows(model, rows=rows, rng=rng, rules=schema.rules, sweeps=sweeps, blocks=blocks))
    if schema.linked is not None and schema.geography is not None:
        chunks = _place_households(chunks, schema=schema, model=model, rng=rng)
    return _join([SyntheticRows(codec.decode(codes, rng=rng), codec.normalize(codes)) for codes in chunks])


def _place_households(
    chunks: Sequence[Mapping[str, npt.NDArray[Any]]],
    *,
    schema: Schema,
    model: Model,
    rng: np.random.Generator,
) -> list[Mapping[str, npt.NDArray[Any]]]:
    """Return whole rows of linked tables in units where their members fit the measurements."""
    if model.measurements is None:
        raise ReleaseError(
            "the measurements that the model was fitted to are not at hand.",
            hint="rows of linked tables in a geography are drawn with them: load both from one folder",
        )
    codes = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    domain = unit_domain(schema)
    units = place_households(
        codes,
        codes[GEOCODE],
        strata=np.ravel_multi_index([codes[name] for name in domain], domain.shape(domain)),
        members=MemberCells.of(schema),
        measured=MeasuredHierarchy.of_members(schema, model.measurements.items),
        rng=rng,
    )
    ends = np.cumsum([len(chunk[GEOCODE]) for chunk in chunks])
    placed = np.split(units.astype(codes[GEOCODE].dtype), ends[:-1])
    return [{**chunk, GEOCODE: own} for chunk, own in zip(chunks, placed, strict=True)]


def count_table(schema: Schema, model: Model, *, rng: np.random.Generator) -> SyntheticRows:
    """Return one row for each smallest unit and cell of a geography that has any, with their number as last column."""
    counts = read_counts(model)
    places = np.flatnonzero(counts)
    codes = _unravel_cells(places, counts, schema=schema)
    table = TableCodec(schema).decode(codes, rng=rng)
    return SyntheticRows(
        table.append_column(str(count_column(schema)), pa.array(counts.ravel()[places])), codes
    )


def _unravel_cells(cells: Ints, counts: Ints, *, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return the codes of cells of a geography's integer tables, by their numbers."""
    clique = (GEOCODE, *(name for name in schema.domain if name != GEOCODE))
    return {
        name: code.astype(np.min_scalar_type(schema.domain[name] - 1))
        for name, code in zip(clique, np.unravel_index(cells, counts.shape), strict=True)
    }


def list_member_blocks(schema: Schema) -> list[MemberBlock]:
    """Return the columns of the members in each place of linked tables; none of a single table."""
    linked = schema.linked
    if linked is None:
        return []
    # A column that every member has says best whether there is one.
    telling = sorted(linked.columns, key=lambda name: linked.columns[name].universe is not None)
    first = next(name for name in telling if not linked.columns[name].function_of)
    blocks = []
    for place in linked.places:
        names = linked.names_at(place)
        parts = [part.name for name in names.values() for part in schema.columns[name].variables]
        column = schema.columns[names[first]].variables[0]
        blocks.append(
            MemberBlock(columns=frozenset(parts), column=column.name, absent=column.outside_code or 0)
        )
    return blocks


def draw_conditioned_table(
    schema: Schema, given: ConditionalModel, *, rows: int, rng: np.random.Generator
) -> SyntheticRows:
    """Return synthetic rows of a model given a condition, in random order."""
    counts = given.allot(rows, rng=rng)
    parts = [
        draw_table(schema, part, rows=int(count), rng=rng)
        for part, count in zip(given.parts, counts, strict=True)
        if count or not rows
    ]
    drawn = _join(parts)
    if len(parts) == 1:
        return drawn
    order = rng.permutation(rows)
    codes = {name: column[order] for name, column in drawn.codes.items()}
    return SyntheticRows(drawn.table.take(pa.array(order)), codes)


def _join(parts: Sequence[SyntheticRows]) -> SyntheticRows:
    """Return the rows of all parts, one after the other."""
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    if len(parts) == 1:
        return SyntheticRows(table, parts[0].codes)
    names = parts[0].codes
    return SyntheticRows(
        table, {name: np.concatenate([part.codes[name] for part in parts]) for name in names}
    )


@cache
def digest_arithmetic() -> str:
    """Return a digest of floating-point results that differ between processors and numbers of threads.

    Exponentials, logarithms and products of matrices are computed by whichever loops fit the processor. Where their
    last digits differ, a seed may draw other rows. The numbers are always the same ones: nothing of a run is in it.
    """
    rng = np.random.default_rng(0)
    wide, first, second = rng.random((10, 100_000)), rng.random((2, 300, 300)), rng.random((2, 300, 300))
    found = [np.exp(wide[0] - 1), np.log(wide[0]), wide @ np.ones(100_000), np.matmul(first, second)]
    found += [np.ones(300) @ first, np.add.reduce(wide, axis=1), np.cumsum(wide[1])]
    return hashlib.sha256(b"".join(part.tobytes() for part in found)).hexdigest()[:16]
