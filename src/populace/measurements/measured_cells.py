"""The cells of `measurements.parquet`: each noisy count with the names of its columns and the labels of its values.

Files of the first format, and those of a geography, whose cells `noisy_measurements.parquet` names, number them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.marginals import Counts, Marginal
from populace.core.untrusted_files import read_column_names, read_parquet
from populace.schema.codec.cell_texts import Array, pc, texts_to_arrow, to_arrow
from populace.schema.codec.decoder import code_labels
from populace.schema.schema import Schema

Numbers = npt.NDArray[np.float64]

ALL_ROWS = "all rows"
_BETWEEN = " × "
# A group of values is named by all of them, as far as that is short.
_MAX_GROUP_LABEL = 80
# An array holds less than 2 GiB of texts: so many labels of two thousand bytes.
PART_CELLS = 2**20


def tabulate_cells(
    counts: Sequence[tuple[Marginal, Counts]],
    *,
    beside: Mapping[str, Sequence[Numbers]],
    schema: Schema | None,
) -> pa.Table:
    """Return a row for each count, with columns beside it; without a schema its cells are numbered."""
    marginals, tables = [marginal for marginal, _ in counts], [table for _, table in counts]
    sizes = [table.size for table in tables]
    table = pa.table(
        {
            **_cell_columns(marginals, sizes, schema=schema),
            "count": to_arrow(np.concatenate([table.ravel() for table in tables]).astype(np.int64)),
        }
        | {
            name: to_arrow(np.concatenate([table.ravel() for table in columns]))
            for name, columns in beside.items()
        }
    )
    # Texts of 2 GiB and more stay in several chunks.
    return table.combine_chunks()


def read_cells(path: Path, marginals: Sequence[Marginal], *, schema: Schema, labelled: bool) -> list[Counts]:
    """Return the noisy counts of marginals; a file with other cells, or in another order, is refused."""
    shapes = [marginal.shape(schema.domain) for marginal in marginals]
    sizes = [math.prod(shape) for shape in shapes]
    types = cell_types(path, labelled=labelled)
    cells = read_parquet(path, types=types, rows=sum(sizes))
    expected = _cell_columns(marginals, sizes, schema=schema if labelled else None)
    if any(column.null_count for column in cells.columns) or not all(
        cells[name].equals(column) for name, column in expected.items()
    ):
        raise ValueError("other cells")
    ends = np.cumsum(sizes)[:-1]
    parts = np.split(cells["count"].to_numpy(), ends) if sizes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def cell_types(path: Path, *, labelled: bool) -> dict[str, pa.DataType]:
    """Return the columns that a file should have, with their types: those of cells and counts, then numbers beside."""
    kinds = (pa.string(), pa.string()) if labelled else (pa.int32(), pa.int64())
    fixed = {**dict(zip(("marginal", "cell"), kinds, strict=True)), "count": pa.int64()}
    return fixed | {name: pa.float64() for name in read_column_names(path)[len(fixed) :]}


def _cell_columns(
    marginals: Sequence[Marginal], sizes: Sequence[int], *, schema: Schema | None
) -> dict[str, pa.ChunkedArray]:
    if schema is None:
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        places = np.concatenate([np.arange(0), *(np.arange(size) for size in sizes)])
        return {
            "marginal": pa.chunked_array([to_arrow(numbers)]),
            "cell": pa.chunked_array([to_arrow(places)]),
        }
    names = texts_to_arrow([str(marginal) for marginal in marginals])
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    taken = [pc.take(names, to_arrow(numbers[part])) for part in _cut(len(numbers))]
    return {
        "marginal": pa.chunked_array(taken, pa.string()),
        "cell": pa.chunked_array(list(_label_cells(marginals, schema)), pa.string()),
    }


def _cut(cells: int) -> Iterator[slice]:
    """Yield parts of so many cells."""
    return (slice(start, min(start + PART_CELLS, cells)) for start in range(0, cells, PART_CELLS))


def _label_cells(marginals: Sequence[Marginal], schema: Schema) -> Iterator[Array]:
    for marginal in marginals:
        shape = marginal.shape(schema.domain)
        if not shape:
            yield texts_to_arrow([ALL_ROWS])
            continue
        labels = [texts_to_arrow(_axis_labels(marginal, name, schema)) for name in marginal.clique]
        for part in _cut(math.prod(shape)):
            places = np.unravel_index(np.arange(part.start, part.stop), shape)
            texts = [
                pc.take(own, to_arrow(np.ascontiguousarray(at)))
                for own, at in zip(labels, places, strict=True)
            ]
            yield texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, _BETWEEN)


def _axis_labels(marginal: Marginal, name: str, schema: Schema) -> list[str]:
    """Return a text for each code or group of a column, no two of them equal."""
    labels: Sequence[str] = code_labels(schema.variables[name])
    grouping = marginal.grouping(name)
    if grouping is not None:
        joined = [", ".join(labels[code] for code in members) for members in grouping.members]
        labels = [text if len(text) <= _MAX_GROUP_LABEL else f"{text[:_MAX_GROUP_LABEL]}…" for text in joined]
    known = Counter(labels)
    return [text if known[text] == 1 else f"{text} [{place}]" for place, text in enumerate(labels)]
