"""Public shares of columns: what everybody may know of how often values occur, for plans.

What noise does to a table hangs on how evenly its rows lie over their codes, which no schema says. Published tables of
single columns say it, to whole percents and not of every value; what they leave open is invented.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from populace.errors import UsageError
from populace.records import dataclass
from populace.schema.columns import Column
from populace.schema.hints import did_you_mean
from populace.schema.numbers import number
from populace.schema.ranges import Integer
from populace.schema.schema import Schema
from populace.schema.split import split_codes

Floats = npt.NDArray[np.float64]
# A file of shares, or for each column how often values occur: shares of 1.
Told = Path | str | Mapping[str, Mapping[str, float]]

# What a line may tell of a value, and what makes a whole; counts make one together.
WHOLES = {"share": 1.0, "percent": 100.0, "count": 0.0}
# Rounded shares sum to a little more than a whole.
ROUNDING = 0.03
FORM = "give a CSV file with columns named column, value and share (or percent, or count)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How often one value of a column occurs, or a stretch of values up to another; `place` says who tells."""

    column: str
    value: str
    to: str
    amount: float
    place: str


def read_shares(told: Told, *, schema: Schema, closed: Schema) -> dict[str, Floats]:
    """Return public shares of the codes of variables, NaN where nobody tells; `closed` has no open domains.

    Of shares and percents, values that are not told have the rest. Counts are those of everybody.
    """
    if isinstance(told, Mapping):
        measure, lines = "share", [*_lines_of(told)]
    else:
        measure, lines = _lines_in(Path(told))
    amounts: dict[str, Floats] = {}
    for line in lines:
        column = _column(line, schema=schema, closed=closed)
        codes = _codes(line, column)
        found = amounts.setdefault(column.name, np.full(column.size, np.nan))
        found[codes] = np.nan_to_num(found[codes]) + line.amount / len(codes)
    shares: dict[str, Floats] = {}
    for name, found in amounts.items():
        shares |= _parts(closed.columns[name], _whole(name, found, whole=WHOLES[measure]))
    return shares


def declared_shares(schema: Schema) -> dict[str, Floats]:
    """Return the shares of single variables that a schema's public totals declare."""
    found: dict[str, Floats] = {}
    for totals in schema.totals:
        for axis, name in enumerate(totals.clique):
            counts = totals.counts.sum(
                axis=tuple(other for other in range(totals.counts.ndim) if other != axis)
            )
            if counts.sum() > 0:
                found[name] = counts / counts.sum()
    return found


def filled(known: Floats, invented: Floats) -> Floats:
    """Return the shares of all codes: those that are known, and others that are as much as is left.

    These are in the order of the invented ones, and as long as the parts of a stick that breaks anywhere; but no longer
    than the least that is told, if there is room: tables tell of frequent values first.

    >>> filled(np.array([0.6, np.nan, np.nan]), np.array([0.2, 0.2, 0.6])).round(3).tolist()
    [0.6, 0.1, 0.3]
    >>> filled(np.array([0.6, 0.2, np.nan, np.nan]), np.array([0.0, 0.0, 0.1, 0.9])).round(3).tolist()
    [0.6, 0.2, 0.05, 0.15]
    """
    untold = np.isnan(known)
    shares = np.where(untold, 0.0, known)
    left, count = max(0.0, 1 - float(shares.sum())), int(untold.sum())
    if left > 0 and count:
        parts = np.cumsum(1 / np.arange(count, 0, -1)) / count
        ranks = np.argsort(np.argsort(invented[untold], kind="stable"), kind="stable")
        shares[untold] = _capped(left * parts[ranks], most=min(shares[shares > 0], default=1.0))
    return np.asarray(shares / shares.sum())


def _capped(shares: Floats, *, most: float) -> Floats:
    """Return shares of the same sum that are at most so large, or all the same where that cannot be.

    >>> _capped(np.array([0.5, 0.1, 0.0]), most=0.4).round(3).tolist()
    [0.4, 0.15, 0.05]
    """
    total, count = float(shares.sum()), len(shares)
    most = max(most, total / count)
    for _ in range(count):
        over = float(np.maximum(shares - most, 0.0).sum())
        room = shares < most
        if over <= 1e-12 or not room.any():
            break
        shares = np.minimum(shares, most)
        shares[room] += over / room.sum()
    return shares


def _lines_of(told: Mapping[str, Mapping[str, float]]) -> Iterator[Line]:
    for column, shares in told.items():
        for value, share in shares.items():
            place = f"the share of {value!r} in {column!r}"
            yield Line(column=column, value=str(value), to="", amount=_amount(str(share), place), place=place)


def _lines_in(path: Path) -> tuple[str, list[Line]]:
    """Return what a file tells, shares, percents or counts, and its lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as failure:
        raise UsageError(f"{str(path)!r} cannot be read as CSV in UTF-8.", hint=FORM) from failure
    measures = [name for name in WHOLES if name in header]
    if not {"column", "value"} <= {*header} or len(measures) != 1:
        raise UsageError(f"{str(path)!r} has the columns {', '.join(header) or '(none)'}.", hint=FORM)
    (measure,) = measures
    lines = []
    for place, row in enumerate(rows, start=2):
        where = f"line {place} of {path.name}"
        column, value, to, amount = (row.get(name) or "" for name in ("column", "value", "to", measure))
        lines.append(Line(column=column, value=value, to=to, amount=_amount(amount, where), place=where))
    return measure, lines


def _amount(text: str, place: str) -> float:
    found = number(text.strip())
    if found is None or found < 0 or not math.isfinite(float(found)):
        raise UsageError(f"{place} is {text!r}.", hint="tell how often a value occurs as a number, 0 or more")
    return float(found)


def _column(line: Line, *, schema: Schema, closed: Schema) -> Column:
    if line.column not in closed.columns:
        near = did_you_mean(line.column, closed.columns)
        hint = f"did you mean {near!r}?" if near else "name columns of the schema"
        raise UsageError(
            f"{line.place} tells of a column {line.column!r}, which the schema does not have.", hint=hint
        )
    if line.column in schema.unknown and not closed.columns[line.column].ordered:
        raise UsageError(
            f"{line.place} tells of values of {line.column!r}, which are still to be learnt.",
            hint="declare its values in the schema, or leave the column out",
        )
    return closed.columns[line.column]


def _codes(line: Line, column: Column) -> list[int]:
    """Return the codes that a line tells of together."""
    first = column.code(line.value)
    last = column.code(line.to) if line.to else first
    if first is None or last is None:
        text = line.value if first is None else line.to
        raise UsageError(
            f"{line.place} tells of {text!r}, which is no value of {column.name!r}.",
            hint="write values as they stand in the data, inside the domain of the schema",
        )
    if last < first or (first != last and (not column.ordered or last >= column.levels)):
        raise UsageError(
            f"{line.place} tells of values from {line.value!r} to {line.to!r} of {column.name!r}.",
            hint="stretches go upwards, in columns whose values have an order",
        )
    return list(range(first, last + 1))


def _whole(name: str, amounts: Floats, *, whole: float) -> Floats:
    """Return shares of 1 from shares, percents or counts."""
    total = float(np.nansum(amounts))
    if not whole:
        if not total:
            raise UsageError(f"all counts of {name!r} are 0.", hint="leave the column out")
        return np.asarray(np.nan_to_num(amounts) / total)
    if total > whole * (1 + ROUNDING):
        raise UsageError(
            f"what is told of {name!r} sums to {total:g}, more than {whole:g}.",
            hint="give shares of 1, or name the column percent or count",
        )
    return np.asarray(amounts / max(total, whole))


def _parts(column: Column, shares: Floats) -> dict[str, Floats]:
    """Return the shares of the variables of a column; of one that is split, codes of which all is told."""
    if not (isinstance(column, Integer) and column.split is not None):
        return {column.name: shares}
    codes = split_codes(column, np.arange(column.size))
    return {
        part.name: np.bincount(places.astype(np.int64), weights=shares, minlength=part.size).astype(float)
        for part, places in zip(column.variables, codes, strict=True)
    }
