"""`tables.parquet` and `noisy_measurements.parquet`: every unit of every level, written and compared chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Marginal
from populace.core.untrusted_files import altered_error, read_row_groups
from populace.measurements.level_queries import describe_query, place_marginal
from populace.measurements.measurements import Measurement
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.manifest import HIERARCHY_FILES
from populace.schema.codec.cell_texts import Array, to_arrow
from populace.schema.geocodes import GEOCODE, TABLE_COLUMN

TABLES_FILE, NOISY_FILE = HIERARCHY_FILES
# Estimates are written to a thousandth of a unit. Machines differ in the last digits that they compute, and may round a
# number in the middle of two to either: what is written is the nearest thousandth, but for so much.
DECIMALS = 3
_ABSOLUTE_NOISE, _RELATIVE_NOISE = 1e-5, 1e-7
_ESTIMATED = ("unbiased", "margin")


Hierarchies = Sequence[ReleasedHierarchy]
"""The tables of a release: one, or those of the units and of the members of linked tables."""


def write_unit_files(released: Hierarchies, folder: Path, *, measurements: Iterable[Measurement]) -> None:
    """Write both files of a release; equal measurements and tables give equal bytes."""
    _write(folder / TABLES_FILE, list_unit_tables(released), types=table_types(released))
    _write(folder / NOISY_FILE, list_noisy_counts(released[0], measurements), types=noisy_types(released[0]))


def rewrite_unit_files(
    released: Hierarchies, folder: Path, *, measurements: Iterable[Measurement], held: Path
) -> None:
    """Write both files again, with the estimates that a folder holds: others may differ in the last digit."""
    types = table_types(released)
    groups = read_row_groups(held / TABLES_FILE, types=types)

    def keep() -> Iterator[pa.Table]:
        for chunk, group in zip(list_unit_tables(released), groups, strict=True):
            for name in _ESTIMATED:
                chunk = chunk.set_column(chunk.column_names.index(name), name, group[name])
            yield chunk

    _write(folder / TABLES_FILE, keep(), types=types)
    _write(folder / NOISY_FILE, list_noisy_counts(released[0], measurements), types=noisy_types(released[0]))


def check_unit_tables(released: Hierarchies, folder: Path) -> str:
    """Refuse a `tables.parquet` other than the one that follows from the measurements and the integer tables."""
    rows = _compare(
        folder / TABLES_FILE,
        list_unit_tables(released, rounded=False),
        types=table_types(released),
        alike=_alike,
    )
    levels = released[0].geography.spine.levels
    rest = (
        "the measurements and the model" if len(released) == 1 else "the measurements, the model and the rows"
    )
    return f"{rows} estimates and counts of {len(levels)} levels follow from {rest}"


def check_noisy_counts(
    released: ReleasedHierarchy, folder: Path, *, measurements: Iterable[Measurement]
) -> str:
    """Refuse a `noisy_measurements.parquet` that has other numbers than the measurements."""
    rows = _compare(
        folder / NOISY_FILE,
        list_noisy_counts(released, measurements),
        types=noisy_types(released),
        alike=lambda one, other: one.equals(other),
    )
    return f"{rows} noisy counts, all as they were measured"


def table_types(released: Hierarchies) -> dict[str, pa.DataType]:
    """Return the columns of `tables.parquet` with their types."""
    columns = dict.fromkeys(name for each in released for name in each.columns)
    return _cell_types(released[0], columns) | {
        "unbiased": pa.float64(),
        "margin": pa.float64(),
        "published": pa.int64(),
    }


def noisy_types(released: ReleasedHierarchy) -> dict[str, pa.DataType]:
    """Return the columns of `noisy_measurements.parquet` with their types; those of linked tables are of wide rows."""
    columns = [name for name in released.schema.domain if name != GEOCODE]
    return _cell_types(released, columns, "query") | {"value": pa.int64(), "variance": pa.float64()}


def list_unit_tables(released: Hierarchies, *, rounded: bool = True) -> Iterator[pa.Table]:
    """Yield a row for each level, unit and possible cell: the estimate, its margin of error, the published count.

    Estimates and margins are rounded as they are written, or all their digits are there to compare with.
    """
    types = table_types(released)
    for each in released:
        yield from _list_tables(each, types, rounded=rounded)


def _list_tables(
    released: ReleasedHierarchy, types: Mapping[str, pa.DataType], *, rounded: bool
) -> Iterator[pa.Table]:
    plan, kept = released.measured.plan, released.possible
    codes = np.unravel_index(kept, plan.shape)
    for level in range(plan.spine.depth):
        for units in released.chunk_units(level, cells=len(kept)):
            count = units.stop - units.start
            cells = {
                name: _repeat_labels(released.labels(name), np.tile(code, count))
                for name, code in zip(plan.columns, codes, strict=True)
            }
            numbers = {
                "unbiased": _flatten(released.estimates.cells[level][units], kept),
                "margin": _flatten(released.margin(plan.columns, level=level, units=units), kept),
            }
            written = {
                name: to_arrow(values.round(DECIMALS) + 0.0 if rounded else values)
                for name, values in numbers.items()
            }
            counts = {"published": to_arrow(_flatten(released.published[level][units], kept))}
            ids = _unit_columns(released, level, units, times=len(kept))
            named = _name_table(released.table, rows=count * len(kept))
            yield _table(named | ids | cells | written | counts, types, rows=count * len(kept))


def list_noisy_counts(released: ReleasedHierarchy, measurements: Iterable[Measurement]) -> Iterator[pa.Table]:
    """Yield a row for each level, unit, query and cell of it: the noisy count and the variance of its noise."""
    types = noisy_types(released)
    for item in measurements:
        level, marginal = place_marginal(item.marginal, released.geography)
        counts = item.counts.reshape(released.geography.spine.units(level), -1)
        shape = marginal.shape(released.schema.domain)
        table = _find_table(marginal, released)
        codes = np.unravel_index(np.arange(counts.shape[1]), shape) if shape else ()
        for units in released.chunk_units(level, cells=counts.shape[1]):
            count = units.stop - units.start
            rows = count * counts.shape[1]
            cells = {
                name: _repeat_labels(released.labels(name, marginal.grouping(name)), np.tile(code, count))
                for name, code in zip(marginal.clique, codes, strict=True)
            }
            numbers = {
                "value": to_arrow(counts[units].ravel()),
                "variance": to_arrow(np.full(rows, float(item.variance))),
            }
            ids = _unit_columns(released, level, units, times=counts.shape[1])
            named = {"query": _repeat_labels([describe_query(marginal)], np.zeros(rows, dtype=np.int64))}
            yield _table(_name_table(table, rows=rows) | ids | named | cells | numbers, types, rows=rows)


def _cell_types(released: ReleasedHierarchy, columns: Iterable[str], *more: str) -> dict[str, pa.DataType]:
    table = () if released.table is None else (TABLE_COLUMN,)
    return dict.fromkeys((*table, "level", *released.geography.levels, *more, *columns), pa.string())


def _name_table(table: str | None, *, rows: int) -> dict[str, Array]:
    return {} if table is None else {TABLE_COLUMN: _repeat_labels([table], np.zeros(rows, dtype=np.int64))}


def _find_table(marginal: Marginal, released: ReleasedHierarchy) -> str | None:
    """Return which of two linked tables a query is about, or both; None where there is one."""
    linked = released.schema.linked
    if linked is None:
        return None
    own = set(released.columns)
    names = (linked.units,) if own & set(marginal.clique) or not marginal.clique else ()
    return " × ".join((*names, linked.members) if set(marginal.clique) - own else names)


def _unit_columns(released: ReleasedHierarchy, level: int, units: slice, *, times: int) -> dict[str, Array]:
    """Return the level and the ids of units and of all above them, each so many times."""
    geography = released.geography
    count = (units.stop - units.start) * times
    found = {"level": _repeat_labels([geography.spine.levels[level]], np.zeros(count, dtype=np.int64))}
    for number in range(1, level + 1):
        above = geography.spine.ancestors(number, of_level=level)[units]
        found[geography.levels[number - 1]] = _repeat_labels(
            geography.ids[number - 1], np.repeat(above, times)
        )
    return found


def _repeat_labels(labels: Iterable[str], codes: npt.NDArray[Any]) -> Array:
    return pa.array(labels, pa.string()).take(to_arrow(codes))


def _flatten(values: npt.NDArray[Any], kept: Ints) -> npt.NDArray[Any]:
    """Return the possible cells of every unit, one unit after the other."""
    flat = values.reshape(len(values), -1)
    return np.ascontiguousarray(flat if flat.shape[1] == len(kept) else flat[:, kept]).ravel()


def _table(columns: Mapping[str, Array], types: Mapping[str, pa.DataType], *, rows: int) -> pa.Table:
    """Return a table of these types; a column that is not given is empty."""
    return pa.table(
        {name: columns[name] if name in columns else pa.nulls(rows, kind) for name, kind in types.items()}
    )


def _write(path: Path, chunks: Iterable[pa.Table], *, types: Mapping[str, pa.DataType]) -> None:
    # Arrow opens only paths that are UTF-8.
    with (
        path.open("wb") as file,
        pq.ParquetWriter(file, pa.schema(list(types.items())), compression="zstd") as out,
    ):
        for chunk in chunks:
            out.write_table(chunk)


def _compare(
    path: Path,
    expected: Iterable[pa.Table],
    *,
    types: Mapping[str, pa.DataType],
    alike: Callable[[pa.Table, pa.Table], bool],
) -> int:
    """Compare a file with what it should hold, a row group for a chunk; return how many rows it has."""
    rows, groups = 0, read_row_groups(path, types=types)
    for chunk in expected:
        held = next(groups, None)
        if held is None or held.num_rows != chunk.num_rows or not alike(held, chunk):
            raise altered_error(f"{path.name} does not hold what follows from the measurements")
        rows += chunk.num_rows
    if next(groups, None) is not None:
        raise altered_error(f"{path.name} holds more than follows from the measurements")
    return rows


def _alike(held: pa.Table, expected: pa.Table) -> bool:
    """Say whether a table is the expected one, but that its estimates and margins are rounded."""
    if not held.drop_columns(list(_ESTIMATED)).equals(expected.drop_columns(list(_ESTIMATED))):
        return False
    return all(_near(held[name], expected[name]) for name in _ESTIMATED)


def _near(held: pa.ChunkedArray[Any], expected: pa.ChunkedArray[Any]) -> bool:
    if held.null_count:
        return False
    one: Floats = held.to_numpy()
    other: Floats = expected.to_numpy()
    most = 0.5 * 10.0**-DECIMALS + _ABSOLUTE_NOISE
    return np.array_equal(one, one.round(DECIMALS)) and np.allclose(
        one, other, rtol=_RELATIVE_NOISE, atol=most
    )
