"""Two files as rows of codes and numbers, in one order that does not depend on the order of their rows.

Rows are read as they are: what lies outside the domain goes where the schema puts it, and rows that break a rule are
counted but not repaired. Nothing here is protected; what is computed from it is for internal use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import DataError, UsageError
from populace.core.marginals import Domain
from populace.core.run_state import run_state
from populace.private.read.databases.open_database import open_snapshot
from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import check_header, columns_to_read
from populace.private.read.sources import Source
from populace.private.redact import redact_row_errors
from populace.release.report.bars import BinEnds, join_labels, label_bins
from populace.schema.codec.cell_texts import pc, to_floats, to_texts
from populace.schema.codec.encoder import Encoder
from populace.schema.codec.frequencies import read_frequencies
from populace.schema.codec.numeric_values import NumericValues, numeric_column_names
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import Column
from populace.schema.hints import did_you_mean, quote_names
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

Codes = npt.NDArray[Any]

# Numbers of more codes than these are compared in bins of equal numbers of real rows, so many of them.
MAX_NUMBER_CODES, QUANTILE_BINS = 300, 32
# Rows that stand for several units are repeated; beyond so many, scores would take hours.
MAX_COUNTED_ROWS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparedRows:
    """The rows of one file.

    `codes` are those of the columns, `numbers` the values of columns of numbers (NaN where there is none), `outside`
    the rows outside each column's domain, `broken` the rows that break each rule, `violating` those that break any,
    and `violating_share` the share of them, by weight where there is one.
    """

    codes: Mapping[str, Codes]
    numbers: Mapping[str, Floats]
    weights: Floats | None
    rows: int
    outside: Mapping[str, int]
    broken: Mapping[str, int]
    violating: int
    violating_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPair:
    """Both files in one domain.

    `ends` names the first and the last value of each code; the first `values` codes are ordinary, the rest are special.
    """

    real: ComparedRows
    synthetic: ComparedRows
    domain: Domain
    ends: Mapping[str, tuple[BinEnds, ...]]
    values: Mapping[str, int]

    @property
    def ordered(self) -> dict[str, int]:
        """The columns whose codes have an order, and how many codes of each have one."""
        return {name: self.values[name] for name in self.real.numbers if name in self.values}

    def label(self, name: str, code: int) -> str:
        """Return the name of a code of a column."""
        return join_labels(self.ends[name][code], self.ends[name][code])


def read_row_pair(real: Any, synthetic: Any, *, schema: Schema, weights: str | None = None) -> RowPair:
    """Read both files, or frames, in the columns of a schema."""
    first, second = read_both(real, synthetic, schema=schema, weights=weights)
    return pair_rows(first, second, columns=schema.columns)


def read_both(
    real: Any, synthetic: Any, *, schema: Schema, weights: str | None = None
) -> tuple[ComparedRows, ComparedRows]:
    """Read the rows of both files, linked tables as wide rows; those that stand for several units are repeated."""
    unknown = list(schema.columns_to_learn)
    if unknown:
        raise UsageError(
            f"the domain of {quote_names(unknown)} is still to be learnt.",
            hint="give the schema of the release: schema.toml in its folder",
        )
    with run_state() as state:
        try:
            first = _read(open_snapshot(real), schema, weights=weights, what="real", needed=True)
            second = _read(open_snapshot(synthetic), schema, weights=weights, what="synthetic", needed=False)
        finally:
            # Comparing takes longer than reading: no database waits for it.
            state.opened.close()
    for rows, what in ((first, "real"), (second, "synthetic")):
        if not rows.rows:
            raise DataError(f"the {what} file has no rows.", hint="give a file that has some")
    return first, second


def pair_rows(first: ComparedRows, second: ComparedRows, *, columns: Mapping[str, Column]) -> RowPair:
    """Return the columns that both files have in one domain, rows in an order of their own."""
    domain: dict[str, int] = {}
    ends: dict[str, tuple[BinEnds, ...]] = {}
    values: dict[str, int] = {}
    edges: dict[str, Floats] = {}
    for name in (name for name in first.codes if name in second.codes):
        column = columns[name]
        domain[name], ends[name], values[name] = column.size, label_bins(column), column.levels
        if name in first.numbers and column.size > MAX_NUMBER_CODES:
            edges[name] = _quantile_edges(first.numbers[name])
            special = column.size - column.levels
            values[name] = len(edges[name]) + 1
            domain[name] = values[name] + special
            ends[name] = (*_label_edges(edges[name]), *ends[name][column.levels :])
    found = [_sort(_cut(rows, domain, edges=edges, columns=columns)) for rows in (first, second)]
    return RowPair(real=found[0], synthetic=found[1], domain=Domain(domain), ends=ends, values=values)


def _read(data: Any, schema: Schema, *, weights: str | None, what: str, needed: bool) -> ComparedRows:
    # Nobody's rows are bounded here: all rows of both files count.
    unit = PrivacyUnit() if schema.linked is None else schema.unit
    frequency, schema = schema.frequency, replace(schema, unit=unit, totals=(), frequency=None)
    try:
        source = open_tables(data, schema=schema)
        check_header(source, schema)
    except DataError as refusal:
        raise DataError(f"the {what} file: {refusal.message}", hint=refusal.hint) from None
    weigh = _weight_column(source, weights, needed=needed)
    count = _weight_column(source, frequency, needed=needed)
    codec, readers = TableCodec(schema), _number_readers(schema)
    # Columns that follow from others are compared as the file has them.
    follow = {name: Encoder(schema.columns[name]) for name in schema.layout.functions if name in source.names}
    codes: dict[str, list[Codes]] = {}
    numbers: dict[str, list[Floats]] = {name: [] for name in readers}
    weighed: list[Floats] = []
    counted: list[Ints] = []
    broken: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    violations: list[Truth] = []
    rows = 0
    columns = list(
        dict.fromkeys([*columns_to_read(schema), *follow, *(name for name in (weigh, count) if name)])
    )
    with redact_row_errors(f"the {what} file"):
        for batch in source.batches(columns):
            cells = {name: batch.column(name) for name in codec.input_columns}
            if schema.linked is not None:
                cells |= _mark_absent(cells, schema.linked)
            coded = codec.encode_cells(cells, decimal=source.decimal)
            derived = {n: encode(batch.column(n), decimal=source.decimal) for n, encode in follow.items()}
            for name, part in (codec.join_columns(coded) | derived).items():
                codes.setdefault(name, []).append(part)
            if count is not None:
                counted.append(read_frequencies(batch.column(count), decimal=source.decimal))
            people = counted[-1] if counted else np.ones(batch.num_rows, dtype=np.int64)
            for name, lost in codec.find_outside(cells, decimal=source.decimal).items():
                outside[name] += int(people[lost].sum())
            for name, reader in readers.items():
                numbers[name].append(reader(cells[name], codes=coded, decimal=source.decimal))
            if weigh is not None:
                weighed.append(_read_weights(batch.column(weigh), decimal=source.decimal))
            found = codec.find_violations(coded, derived)
            for text, lost in found.items():
                broken[text] += int(people[lost].sum())
            rows += batch.num_rows
            violations.append(
                np.logical_or.reduce(list(found.values()))
                if found
                else np.zeros(batch.num_rows, dtype=np.bool_)
            )
    violating = np.concatenate([np.zeros(0, dtype=np.bool_), *violations])
    shares = np.concatenate([np.empty(0), *weighed]) if weigh is not None else None
    if shares is not None and rows and not shares.any():
        raise DataError(
            f"no row of the {what} file has a weight above 0 in {weigh!r}.", hint="name another column"
        )
    rows_found = ComparedRows(
        codes={name: np.concatenate(codes[name]) for name in schema.columns if name in codes},
        numbers={name: np.concatenate([np.empty(0), *parts]) for name, parts in numbers.items()},
        weights=shares,
        rows=rows,
        outside=outside,
        broken=broken,
        violating=int(violating.sum()),
        violating_share=float(np.average(violating, weights=shares)) if rows else 0.0,
    )
    return (
        rows_found
        if count is None
        else _repeat(
            rows_found, np.concatenate([np.zeros(0, dtype=np.int64), *counted]), violating, what=what
        )
    )


def _repeat(rows: ComparedRows, counts: Ints, violating: Truth, *, what: str) -> ComparedRows:
    """Return each row as often as it stands for somebody."""
    total = int(counts.sum())
    if total > MAX_COUNTED_ROWS:
        raise DataError(
            f"the rows of the {what} file stand for {total} units; {MAX_COUNTED_ROWS} can be compared.",
            hint="compare a part of both files, such as one state",
        )
    share = counts if rows.weights is None else counts * rows.weights
    return replace(
        rows,
        codes={name: np.repeat(codes, counts) for name, codes in rows.codes.items()},
        numbers={name: np.repeat(values, counts) for name, values in rows.numbers.items()},
        weights=None if rows.weights is None else np.repeat(rows.weights, counts),
        rows=total,
        violating=int(counts[violating].sum()),
        violating_share=float(np.average(violating, weights=share)) if total else 0.0,
    )


def _mark_absent(cells: Mapping[str, Any], linked: LinkedTables) -> dict[str, Any]:
    """Return the cells of members with the code of their column where a unit has no such member."""
    members = to_floats(cells[linked.count])
    found = {}
    for place in linked.places:
        there = pa.array(members >= place)
        for name, wide in linked.names_at(place).items():
            if wide in cells:
                found[wide] = pc.if_else(there, to_texts(cells[wide]), linked.absent[name])
    return found


def _number_readers(schema: Schema) -> dict[str, NumericValues]:
    """Return readers of the columns of numbers; those of a geography have units and no numbers."""
    levels = () if schema.geography is None else schema.geography.levels
    return {
        name: NumericValues(name, schema=schema)
        for name in numeric_column_names(schema)
        if name not in levels
    }


def _weight_column(source: Source, weights: str | None, *, needed: bool) -> str | None:
    """Return the column of weights; synthetic rows without one weigh the same."""
    if weights is None or (weights not in source.names and not needed):
        return None
    if weights not in source.names:
        near = did_you_mean(weights, source.names)
        raise DataError(
            f"the real file has no column {weights!r} of weights.",
            hint=f"did you mean {near!r}?"
            if near
            else "name a column of the real file, or leave --weights out",
        )
    return weights


def _read_weights(cells: Any, *, decimal: str) -> Floats:
    """Return weights; what is no number above 0 weighs nothing."""
    values = to_floats(
        cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells, decimal=decimal
    )
    return np.where(np.isfinite(values) & (values > 0), values, 0.0)


def _quantile_edges(values: Floats) -> Floats:
    held = np.sort(values[~np.isnan(values)])
    if not len(held):
        return np.empty(0)
    places = (np.arange(1, QUANTILE_BINS) * len(held)) // QUANTILE_BINS
    return np.unique(held[places])


def _label_edges(edges: Floats) -> list[BinEnds]:
    """Return names of the bins between some edges."""
    names = [f"{edge:g}" for edge in edges]
    return list(zip(["…", *names], [*names, "…"], strict=True))


def _cut(
    rows: ComparedRows, names: Iterable[str], *, edges: Mapping[str, Floats], columns: Mapping[str, Column]
) -> ComparedRows:
    """Return rows in which numbers of very many codes are cut into bins; special codes follow behind them."""
    codes = {name: rows.codes[name] for name in names}
    for name, found in edges.items():
        column, values = columns[name], rows.numbers[name]
        bins = np.searchsorted(found, values, side="right")
        special = codes[name].astype(np.int64) - column.levels + len(found) + 1
        size = len(found) + 1 + column.size - column.levels
        codes[name] = np.where(np.isnan(values), special, bins).astype(np.min_scalar_type(size - 1))
    return replace(rows, codes=codes)


def _sort(rows: ComparedRows) -> ComparedRows:
    """Return the rows in an order that follows from their content alone: sums and splits then never differ."""
    # The last key counts most: with or without weights, codes come in the same order.
    keys = [*([] if rows.weights is None else [rows.weights]), *rows.numbers.values(), *rows.codes.values()]
    order = np.lexsort(keys)
    return replace(
        rows,
        codes={name: codes[order] for name, codes in rows.codes.items()},
        numbers={name: values[order] for name, values in rows.numbers.items()},
        weights=None if rows.weights is None else rows.weights[order],
    )
