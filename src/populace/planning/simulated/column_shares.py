"""Public shares of columns: what everybody may know of how often values occur, for plans.

What noise does to a table hangs on how evenly its rows lie over their codes, which no schema says. Published tables of
single columns say it, if not of every value; what they leave open is invented.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_ESTIMATE_ROWS
from populace.schema.codec.split_codes import split_codes
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import suggest
from populace.schema.schema import Schema

Floats = npt.NDArray[np.float64]
# A file of shares, or for each column how often its values occur, as shares of 1.
SharesSource = Path | str | Mapping[str, Mapping[str, float]]

# What a line may give, and what its numbers sum to; counts sum to whatever they do.
TOTALS = {"share": 1.0, "percent": 100.0, "count": None}
FORMAT_HINT = "give a CSV file with columns named column, value and share (or percent, or count)"

# Rounded shares sum to a little more than a whole; those of all values to little less.
MAX_EXCESS, MAX_SHORTFALL = 0.03, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLine:
    """How often one value of a column occurs, or a range of values up to another; `place` says where that is given."""

    column: str
    value: str
    to: str
    amount: float
    place: str


def read_shares(source: SharesSource, *, schema: Schema, closed: Schema) -> dict[str, Floats]:
    """Return public shares of the codes of variables, NaN where they are not given; `closed` has no open domains.

    With shares and percents, values that are not given have the rest. Counts are those of everybody.
    """
    whole, lines = _read_share_lines(source)
    amounts: dict[str, Floats] = {}
    before: dict[str, list[ShareLine]] = {}
    for line in lines:
        column = _find_column(line, schema=schema, closed=closed)
        found = amounts.setdefault(column.name, np.full(column.size, np.nan))
        codes, weights = _find_codes(line, column)
        _check_once(line, column, before=before.setdefault(column.name, []))
        found[codes] = np.nan_to_num(found[codes]) + line.amount * weights
    shares: dict[str, Floats] = {}
    for name, found in amounts.items():
        shares |= _split_shares(closed.columns[name], _normalize(closed.columns[name], found, whole=whole))
    return shares


def compute_declared_shares(schema: Schema) -> dict[str, Floats]:
    """Return the shares of single variables that a schema's public totals declare."""
    found: dict[str, Floats] = {}
    for totals in schema.totals:
        for axis, name in enumerate(totals.clique):
            others = tuple(other for other in range(totals.counts.ndim) if other != axis)
            counts = totals.counts.sum(axis=others)
            if counts.sum() > 0:
                found[name] = counts / counts.sum()
    return found


def keep_matching_shares(known: Mapping[str, Floats], schema: Schema) -> dict[str, Floats]:
    """Return the shares that fit a schema: a column that was left out or made coarser has other codes."""
    domain = schema.domain
    return {name: shares for name, shares in known.items() if domain.get(name) == len(shares)}


def entropy_bits(shares: Floats) -> float:
    """Return the entropy of shares, in powers of two.

    >>> entropy_bits(np.array([0.25, 0.25, 0.25, 0.25, 0.0]))
    2.0
    """
    some = shares[shares > 0]
    return -float((some * np.log2(some)).sum())


def fill_shares(known: Floats, column: Column, *, order: Floats) -> Floats:
    """Return the shares of all codes: those that are known, and others that are as much as is left.

    These are as long as the parts of a stick that breaks anywhere, longer ones where `order` is larger; but none is
    longer than the smallest known share of a value, if it can be: tables list frequent values first.

    >>> letters = IntegerColumn(name="x", min=0, max=3, other="0")
    >>> fill_shares(np.array([0.6, 0.2, np.nan, np.nan]), letters, order=np.array([0, 0, 0.1, 0.9])).round(3).tolist()
    [0.6, 0.2, 0.05, 0.15]
    """
    open_codes = _find_open_codes(known, column)
    shares = np.nan_to_num(known)
    left, count = max(0.0, 1 - float(shares.sum())), int(open_codes.sum())
    if left > 0 and count:
        parts = np.cumsum(1 / np.arange(count, 0, -1)) / count
        ranks = np.argsort(np.argsort(order[open_codes], kind="stable"), kind="stable")
        values = shares[: column.levels]
        shares[open_codes] = _cap_shares(left * parts[ranks], most=min(values[values > 0], default=1.0))
    return np.asarray(shares / shares.sum())


def _find_open_codes(known: Floats, column: Column) -> npt.NDArray[np.bool_]:
    """Say which codes share what is left: not that for everything else, which is there for safety."""
    open_codes = np.isnan(known)
    if column.other_code >= column.levels:
        open_codes[column.other_code] = False
    return open_codes


def _cap_shares(shares: Floats, *, most: float) -> Floats:
    """Return shares of the same sum that are at most so large, or all the same where that cannot be.

    >>> _cap_shares(np.array([0.5, 0.1, 0.0]), most=0.4).round(3).tolist()
    [0.4, 0.15, 0.05]
    """
    total, count = float(shares.sum()), len(shares)
    most = max(most, total / count)
    for _ in range(count):
        over = float(np.maximum(shares - most, 0.0).sum())
        below = shares < most
        if over <= 1e-12 or not below.any():
            break
        shares = np.minimum(shares, most)
        shares[below] += over / below.sum()
    return shares


def _find_column(line: ShareLine, *, schema: Schema, closed: Schema) -> Column:
    name = line.column
    if name not in closed.columns:
        hint = suggest(name, closed.columns, otherwise="name columns of the schema")
        raise UsageError(f"{line.place} names a column {name!r} that the schema does not have.", hint=hint)
    if name in closed.layout.functions:
        raise UsageError(
            f"{line.place} gives {name!r}, which follows from other columns.", hint="give those instead"
        )
    if name in schema.unknown and not closed.columns[name].ordered:
        raise UsageError(
            f"{line.place} gives values of {name!r}, which are still to be learnt.",
            hint="declare its values in the schema, or leave the column out",
        )
    if closed.columns[name].size > LIMITS.max_share_codes:
        raise UsageError(
            f"{line.place} gives {name!r}, which has more than {LIMITS.max_share_codes:,} codes.",
            hint="leave the column out",
        )
    return closed.columns[name]


def _check_once(line: ShareLine, column: Column, *, before: list[ShareLine]) -> None:
    """Refuse values that are given twice."""
    special, low, high = _code_range(line, column)
    for other in before:
        same, first, last = _code_range(other, column)
        # Ranges of numbers with decimals may end where others begin.
        touching = (
            isinstance(column, DecimalColumn)
            and low < high
            and first < last
            and (low == last or high == first)
        )
        if same == special and first <= high and low <= last and not touching:
            raise UsageError(
                f"{line.place} repeats values that {other.place} gives.",
                hint="give each value once",
            )
    before.append(line)


def _code_range(line: ShareLine, column: Column) -> tuple[bool, Fraction, Fraction]:
    """Return whether a line gives codes, not numbers, and the first and the last of them."""
    last = line.to or line.value
    if isinstance(column, RangeColumn) and line.value not in column.specials:
        return False, column.value(line.value) or Fraction(0), column.value(last) or Fraction(0)
    return True, Fraction(column.code(line.value) or 0), Fraction(column.code(last) or 0)


def _find_codes(line: ShareLine, column: Column) -> tuple[slice | npt.NDArray[np.int64], Floats | float]:
    """Return the codes that a line gives together, and the part that each has in it."""
    first = column.code(line.value)
    last = column.code(line.to) if line.to else first
    if first is None or last is None:
        text = line.value if first is None else line.to
        known = column.values if isinstance(column, CategoricalColumn) else ()
        otherwise = "write values as they stand in the data, inside the domain of the schema"
        raise UsageError(
            f"{line.place} gives {text!r}, which is not a value of {column.name!r}.",
            hint=suggest(text, known, otherwise=otherwise),
        )
    if last < first or (first != last and (not column.ordered or last >= column.levels)):
        raise UsageError(
            f"{line.place} gives a range from {line.value!r} to {line.to!r} of {column.name!r}.",
            hint="ranges go upwards, in columns whose values have an order",
        )
    if first < last and (
        isinstance(column, DecimalColumn)
        or (isinstance(column, IntegerColumn | TemporalColumn) and column.binned)
    ):
        lengths = _overlaps(line, column, range(first, last + 1))
        if lengths.any():
            return first + np.flatnonzero(lengths), lengths[lengths > 0] / lengths.sum()
    return slice(first, last + 1), 1 / (last + 1 - first)


def _overlaps(
    line: ShareLine, column: IntegerColumn | DecimalColumn | TemporalColumn, codes: range
) -> Floats:
    """Return how much of each bin lies in a range of numbers or moments."""
    low, high = column.value(line.value) or 0, column.value(line.to) or 0
    # Bins of whole numbers, days and seconds end with their last one.
    step = 0 if isinstance(column, DecimalColumn) else 1
    found = []
    for code in codes:
        begin, end = column.bounds(code)
        found.append(max(0.0, float(min(end + step, high + step) - max(begin, low))))
    return np.array(found)


def _normalize(column: Column, amounts: Floats, *, whole: float | None) -> Floats:
    """Return shares of 1 from shares, percents or, where they are the whole together, counts."""
    total = float(np.nansum(amounts))
    if not total:
        raise UsageError(f"the shares of {column.name!r} sum to {total:g}.", hint="leave the column out")
    if whole is None:
        return np.asarray(np.nan_to_num(amounts) / total)
    if total > whole * (1 + MAX_EXCESS):
        percents = whole == 1 and 90 < total < 110
        raise UsageError(
            f"the shares of {column.name!r} sum to {total:g}, more than {whole:g}.",
            hint="did you mean percent?" if percents else "give each value once, or give counts",
        )
    if total < whole * (1 - MAX_SHORTFALL) and not _find_open_codes(amounts, column).any():
        raise UsageError(
            f"the shares of all values of {column.name!r} sum to {total:g}, less than {whole:g}.",
            hint="did you mean share?"
            if total < 1.1
            else "leave out values that have the rest, or give counts",
        )
    return np.asarray(amounts / max(total, whole))


def _split_shares(column: Column, shares: Floats) -> dict[str, Floats]:
    """Return the shares of the variables of a column; what is left of one that is split lies evenly in it."""
    if not (isinstance(column, IntegerColumn) and column.split is not None):
        return {column.name: shares}
    open_codes = _find_open_codes(shares, column)
    left = max(0.0, 1 - float(np.nansum(shares)))
    whole = np.where(open_codes, left / max(1, open_codes.sum()), np.nan_to_num(shares))
    whole /= whole.sum()
    codes = split_codes(column, np.arange(column.size))
    return {
        part.name: np.asarray(np.bincount(places, weights=whole, minlength=part.size), dtype=np.float64)
        for part, places in zip(column.variables, codes, strict=True)
    }


def _read_share_lines(source: SharesSource) -> tuple[float | None, list[ShareLine]]:
    """Return what shares sum to, None where all that is given does, and the lines."""
    if isinstance(source, Mapping):
        return 1.0, list(_read_mapping(source))
    if not Path(source).is_file():
        raise UsageError(f"there is no file {str(source)!r}.", hint=FORMAT_HINT)
    try:
        with Path(source).open(encoding="utf-8-sig", newline="") as file:
            return _read_csv(file, name=Path(source).name)
    except (OSError, UnicodeDecodeError, csv.Error) as failure:
        raise UsageError(f"{str(source)!r} cannot be read as CSV in UTF-8.", hint=FORMAT_HINT) from failure


def _read_mapping(source: Mapping[str, Any]) -> Iterator[ShareLine]:
    for column, shares in source.items():
        if not isinstance(shares, Mapping):
            raise UsageError(
                f"the shares of {column!r} are {shares!r}.", hint='give them as in {"sex": {"f": 0.51}}'
            )
        for value, share in shares.items():
            place = f"the share of {value!r} in {column!r}"
            amount = _parse_amount(str(share), place)
            yield ShareLine(column=str(column), value=str(value), to="", amount=amount, place=place)


def _read_csv(file: TextIO, *, name: str) -> tuple[float | None, list[ShareLine]]:
    first = file.readline()
    file.seek(0)
    # As in files of data, a decimal comma may stand beside semicolons and tabs.
    mark = max(",;\t", key=first.count)
    reader = csv.DictReader(file, delimiter=mark, strict=True)
    header = list(reader.fieldnames or ())
    measures = [measure for measure in header if measure in TOTALS]
    if not {"column", "value"} <= {*header} or len(measures) != 1 or len({*header}) < len(header):
        # Other names are not quoted: the file may be another one, and its first line a row.
        known = [part for part in header if part in ("column", "value", "to", *TOTALS)]
        raise UsageError(
            f"of the columns of shares, {name} has: {', '.join(known) or '(none)'}.", hint=FORMAT_HINT
        )
    (measure,) = measures
    lines = []
    for row in reader:
        place = f"line {reader.line_num} of {name}"
        if None in row:
            raise UsageError(
                f"{place} has more cells than the header.",
                hint="write numbers with a point; quote texts with commas",
            )
        column, value, to, amount = (row.get(part) or "" for part in ("column", "value", "to", measure))
        if mark != ",":
            amount = amount.replace(",", ".")
        amount = amount.removesuffix("%") if measure == "percent" else amount
        lines.append(
            ShareLine(column=column, value=value, to=to, amount=_parse_amount(amount, place), place=place)
        )
    if not lines:
        raise UsageError(f"{name} has no lines.", hint=FORMAT_HINT)
    return TOTALS[measure], lines


def _parse_amount(text: str, place: str) -> float:
    found = parse_number(text.strip())
    if found is None or not 0 <= found <= MAX_ESTIMATE_ROWS:
        raise UsageError(
            f"{place} is {text!r}.",
            hint="give a number, 0 or more, with a point if it has decimals",
        )
    return float(found)
