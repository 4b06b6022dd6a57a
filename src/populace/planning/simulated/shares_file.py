"""Public shares of values: lines of a CSV file, or a mapping."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from populace.core.errors import UsageError
from populace.core.marginals import MAX_ESTIMATE_ROWS
from populace.schema.exact_numbers import parse_number

# A file of shares, or for each column how often its values occur, as shares of 1.
SharesSource = Path | str | Mapping[str, Mapping[str, float]]

# What a line may give, and what its numbers sum to; counts sum to whatever they do.
TOTALS = {"share": 1.0, "percent": 100.0, "count": None}
FORMAT_HINT = "give a CSV file with columns named column, value and share (or percent, or count)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLine:
    """How often one value of a column occurs, or a range of values up to another; `place` says where that is given."""

    column: str
    value: str
    to: str
    amount: float
    place: str


def read_share_lines(source: SharesSource) -> tuple[float | None, list[ShareLine]]:
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
