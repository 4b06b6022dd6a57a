"""Drafts of schemas: the columns of a file, and what is left to fill in for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from populace.core.limits import LIMITS
from populace.schema.exact_numbers import parse_number
from populace.schema.imports.round_bins import decimal_bins, integer_bins
from populace.schema.imports.schema_document import SchemaDocument

# So few whole numbers are taken for codes.
_FEW = 20
# A column of numbers may have so many words beside them, such as N or refused.
_MAX_WORDS = 5

_KINDS = """\
A column is one of
  kind = "categorical" or "ordinal", values = ["a", "b"]     (or values = "learn": costs budget)
  kind = "integer", min = 0, max = 99
  kind = "numeric", edges = [0, 10, 100]                     (or min, max and bins = "learn": costs budget)
  kind = "date", min = "1900-01-01", max = "2029-12-31", width = "month"
"""
NAMES_ONLY = f"""\
A draft: no row was read. Fill in every column from the codebook, never from the rows, or remove it: what the
schema does not name is not read. {_KINDS}\
Add missing = ["R"] for codes such as refused, and labels, universe and outside as the codebook has them. A cell that
is none of the values becomes empty in the release, and noise puts some there in any case; where every row has a value,
other = "a" counts such cells as "a" instead."""
FROM_LABELS = f"""\
A draft from the labels of the file: no row was read. Value labels and missing codes are taken as the codebook. Labels
that `encode` of Stata or factors of R made come from the rows: check every list of values against the codebook. A value
without a label is not in the domain until you add it. Fill in every column that is marked OPEN, from the codebook and
never from the rows, or remove it: what the schema does not name is not read. {_KINDS}\
A cell that is none of the values becomes empty in the release."""
FROM_ROWS = """\
A draft from the rows of public data: every domain below was taken from them. That is sound only because the rows
are public already; a schema for private rows must not be made this way."""
_WHO = {"unit": "who is protected? a person with several rows needs rows_per_unit and id"}
FILL_IN = "kind, and values or a range: fill in"

_BY_TYPE = {
    "whole": 'kind = "integer" with min and max, or "categorical" with values if these are codes: fill in',
    "decimal": 'kind = "numeric" with edges, or min, max and bins = "learn", '
    'or "categorical" with values if these are codes: fill in',
    "text": 'kind = "categorical" with values, or values = "learn": fill in',
    "nested": "no code can stand for it: remove it, or turn it into texts, numbers or dates; fill in",
    "time": 'kind = "date", "datetime" or "time" with min and max: fill in',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCells:
    """The distinct cells of a column of public data, as texts; whether its file has whole numbers in it."""

    texts: frozenset[str]
    typed_whole: bool = False


def draft_schema(types: Mapping[str, tuple[str, str]], *, dataset: str) -> SchemaDocument:
    """Return a draft from names and declared types: for each column a sort of type, and that type in words.

    >>> draft_schema({"age": ("whole", "whole parse_number"), "name": ("", "")}, dataset="people").columns
    {'age': {}, 'name': {}}
    """
    columns: dict[str, dict[str, Any]] = {}
    notes: dict[str, str] = {}
    for name, (sort, declared) in types.items():
        columns[name] = {}
        if sort == "truth":
            columns[name] = {"kind": "categorical", "values": ["false", "true"]}
            notes[name] = f"declared type: {declared}"
        else:
            todo = column_todo(sort)
            notes[name] = f"declared type: {declared}; {todo}" if declared else todo
    table, asked = draft_table(dataset)
    return SchemaDocument(columns=columns, table=table, notes=notes, asked=asked)


def draft_from_rows(seen: Mapping[str, ObservedCells], *, dataset: str) -> SchemaDocument:
    """Return a draft with the values and ranges that public rows have.

    >>> seen = {"AGE": ObservedCells(texts=frozenset(map(str, range(90)))), "SEX": ObservedCells(texts=frozenset("fm"))}
    >>> draft_from_rows(seen, dataset="people").columns["SEX"]
    {'kind': 'categorical', 'values': ['f', 'm'], 'origin': 'declared'}
    """
    columns = {name: _column(cells) for name, cells in seen.items()}
    notes = {
        name: "from rows of public data"
        if keys
        else f'more than {LIMITS.max_draft_values} different values; values = "learn", or remove the column: {FILL_IN}'
        for name, keys in columns.items()
    }
    table, asked = draft_table(dataset)
    return SchemaDocument(columns=columns, table=table, notes=notes, asked=asked)


def draft_table(dataset: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the keys of a draft's `[table]`, and the questions behind them."""
    return {"dataset": dataset, "unit": "row", "rows_per_unit": 1}, _WHO


def column_todo(sort: str) -> str:
    """Return what is left to fill in for a column of a sort of type.

    >>> column_todo("text")
    'kind = "categorical" with values, or values = "learn": fill in'
    """
    return _BY_TYPE.get(sort, FILL_IN)


def _column(cells: ObservedCells) -> dict[str, Any]:
    values = {text: parse_number(text) for text in cells.texts if text}
    numbers = {text: value for text, value in values.items() if value is not None}
    words = sorted(values.keys() - numbers.keys())
    if not values:
        return {"kind": "categorical", "values": ["(empty)"], "origin": "declared"}
    whole = all(value.denominator == 1 for value in numbers.values())
    if len(numbers) > (_FEW if whole else 1) and len(words) <= _MAX_WORDS:
        low, high = min(numbers.values()), max(numbers.values())
        keys: dict[str, Any] = {"kind": "integer" if whole else "numeric"}
        keys |= integer_bins(int(low), int(high)) if whole else decimal_bins(low, high)
        if words:
            keys["missing"] = words
        if words and (places := _decimals(numbers)):
            keys["decimals"] = places
        return keys | {"origin": "declared"}
    if len(values) > LIMITS.max_draft_values:
        return {}
    ordered = sorted(numbers, key=lambda text: (numbers[text], text)) + words
    listed: dict[str, Any] = {"kind": "categorical", "values": ordered}
    if cells.typed_whole:
        listed["type"] = "integer"
    return listed | {"origin": "declared"}


def _decimals(texts: Iterable[str]) -> int:
    """Return how many decimals numbers are written with, where all have as many; else 0."""
    places = {len(text.partition(".")[2]) for text in texts}
    return places.pop() if len(places) == 1 else 0
