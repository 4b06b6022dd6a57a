"""The texts that private cells hold: which rows of a unit stay, and how many rows hold each text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.limits import LIMITS
from populace.core.marginals import Counts
from populace.private.read.sources import Source
from populace.private.redact import redact_row_errors
from populace.schema.codec.cell_texts import Array, find_distinct, pc, to_texts, trim_texts
from populace.schema.columns.column import Column
from populace.schema.columns.unknown_columns import UnknownValues
from populace.schema.schema import Schema


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Tally:
    """The keys of a column, sorted by text, and how many rows hold each. It prints nothing of either."""

    keys: Array
    counts: Counts


def read_tallies(source: Source, schema: Schema) -> dict[str, Tally]:
    """Read all rows once and count the texts of the columns with unknown values, over the rows that the unit keeps.

    A text is counted without blanks at its ends and in composed form. Special codes, empty, unprintable and very
    long texts are no keys. What a cell is depends on that cell alone.
    """
    unit = schema.unit
    columns = [name for name, column in schema.columns.items() if isinstance(column, UnknownValues)]
    parts: dict[str, list[Array]] = {name: [] for name in columns}
    ids: list[Array] = []
    with redact_row_errors("the data"):
        for batch in source.batches([*columns, *([] if unit.id is None else [unit.id])]):
            for name in columns:
                parts[name].append(cells_to_texts(batch.column(name)))
            if unit.id is not None:
                ids.append(cells_to_texts(batch.column(unit.id)))
        kept = None if unit.id is None else select_first_rows(ids, rows=unit.rows)
        return {name: _tally(parts.pop(name), kept=kept, column=schema.columns[name]) for name in columns}


def _tally(parts: list[Array], *, kept: npt.NDArray[np.bool_] | None, column: Column) -> Tally:
    if not parts:
        return Tally(pa.array([], pa.string()), np.zeros(0, dtype=np.int64))
    chunks = unify_texts(parts)
    places = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])
    known = chunks[0].dictionary
    counts = np.bincount(places if kept is None else places[kept], minlength=len(known)).astype(np.int64)
    order = pc.array_sort_indices(known).to_numpy()
    order = order[_is_key(known, column=column)[order] & (counts[order] > 0)]
    return Tally(pc.take(known, pa.array(order)), counts[order])


def _is_key(known: Array, *, column: Column) -> npt.NDArray[np.bool_]:
    """Say which texts may be released: not special, not empty, printable and of a reasonable length."""
    special = trim_texts(pa.array(["", *column.specials], pa.string()))
    fits = pc.less_equal(pc.utf8_length(known), LIMITS.max_value_length)
    plain = pc.and_(pc.utf8_is_printable(known), pc.and_(fits, pc.invert(pc.is_in(known, special))))
    found: npt.NDArray[np.bool_] = plain.to_numpy(zero_copy_only=False)
    return found


def cells_to_texts(values: Array) -> Array:
    """Return cells as a dictionary of texts: equal ones are equal whatever blanks or type they have, "" is empty."""
    cells, places = find_distinct(values)
    # Once more: cells that differ may be written alike.
    alike = pc.fill_null(trim_texts(pa.concat_arrays([to_texts(cells), pa.nulls(1, pa.string())])), "")
    coded = alike.dictionary_encode()
    # An empty cell has place −1: the entry appended at the end.
    rows = np.where(places < 0, len(cells), places)
    return pa.DictionaryArray.from_arrays(pc.take(coded.indices, pa.array(rows)), coded.dictionary)


def unify_texts(parts: list[Array]) -> list[Array]:
    """Return the texts of all batches in one dictionary: equal texts then have equal places."""
    chunks: list[Array] = list(pa.chunked_array(parts).unify_dictionaries().chunks)
    return chunks


def select_first_rows(ids: list[Array], *, rows: int) -> npt.NDArray[np.bool_]:
    """Say which rows are among the first few of their unit. Each unit's rows decide alone."""
    if not ids:
        return np.empty(0, dtype=np.bool_)
    chunks = unify_texts(ids)
    units: npt.NDArray[np.int32] = np.concatenate(
        [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    )
    order = np.argsort(units, kind="stable")
    ranked = units[order]
    first = np.flatnonzero(np.diff(ranked, prepend=-2))
    rank = np.arange(len(ranked)) - np.repeat(first, np.diff(first, append=len(ranked)))
    kept = np.empty(len(units), dtype=np.bool_)
    kept[order] = rank < rows
    # A row without an id belongs to nobody.
    empty: int = pc.index(chunks[0].dictionary, "").as_py()
    kept &= units != empty
    return kept
