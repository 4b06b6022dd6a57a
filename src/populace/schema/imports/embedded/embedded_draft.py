"""A draft of a schema from what an SPSS, Stata or SAS file declares: labels become domains, the rest is left open."""

from __future__ import annotations

from typing import Any

from populace.schema.exact_numbers import parse_number
from populace.schema.imports.draft import column_todo, draft_table
from populace.schema.imports.embedded.file_metadata import ColumnMetadata, FileMetadata
from populace.schema.imports.embedded.stat_formats import Moment
from populace.schema.imports.schema_document import SchemaDocument

FROM_LABELS = """\
A draft from the labels of the file: no row was read. Value labels and missing codes are taken as the codebook; a value
without a label is not in the domain until you add it. Fill in every column that has no kind, from the codebook and
never from the rows, or remove it: what the schema does not name is not read. A column is one of
  kind = "categorical" or "ordinal", values = ["1", "2"]     (or values = "learn": costs budget)
  kind = "integer", min = 0, max = 99
  kind = "numeric", edges = [0, 10, 100]                     (or min, max and bins = "learn": costs budget)
  kind = "date", min = "1900-01-01", max = "2029-12-31", width = "month"
A cell that is none of the values becomes empty in the release."""

# So many labelled values make a list; one alone rather names an end or a code in a column of numbers.
_MIN_VALUES = 2


def draft_from_metadata(metadata: FileMetadata, *, dataset: str) -> SchemaDocument:
    """Return the draft that a file's header gives."""
    columns: dict[str, dict[str, Any]] = {}
    notes: dict[str, str] = {}
    for column in metadata.columns:
        columns[column.name], notes[column.name] = _draft_column(column)
    table, asked = draft_table(dataset)
    remarks: tuple[str, ...] = ()
    if not metadata.format.keeps_missing_codes:
        remarks = (f"missing codes of {metadata.format.words} are read as empty cells",)
    return SchemaDocument(columns=columns, table=table, notes=notes, asked=asked, remarks=remarks)


def _draft_column(column: ColumnMetadata) -> tuple[dict[str, Any], str]:
    """Return the keys of a column, and what is to be known of it."""
    labels = column.value_labels
    values = [code for code in labels if code not in column.missing]
    words = [column.label] if column.label else []
    keys: dict[str, Any] = {}
    if len(values) >= _MIN_VALUES and column.measure != "scale":
        keys = {"kind": "ordinal" if column.measure == "ordinal" else "categorical"}
        keys["values"] = sorted(values, key=_by_number)
        if all(_is_whole(code) for code in (*values, *column.missing)):
            keys["type"] = "integer"
        words.append("values with a label in the file; add those without")
    else:
        words.append(f"declared type: {_type_words(column)}; {column_todo(_sort(column))}")
    if column.missing:
        keys["missing"] = list(column.missing)
    kept = {
        c: text for c, text in labels.items() if c in column.missing or (keys.get("values") and text != c)
    }
    if keys.get("kind"):
        keys["origin"] = "codebook"
    if kept:
        keys["labels"] = kept
    words += [f"from {each} a number is missing: list the codes" for each in column.open_ranges]
    if not keys.get("kind") and len(values):
        shown = ", ".join(f"{code} = {labels[code]}" for code in values[:6])
        words.append(f"labelled: {shown}")
    return keys, "\n".join(words)


def _sort(column: ColumnMetadata) -> str:
    if column.moment is not None:
        return "time"
    return "text" if column.is_text else "whole" if column.is_whole else "decimal"


def _type_words(column: ColumnMetadata) -> str:
    if column.moment is not None:
        known = {Moment.DATE: "date", Moment.DATETIME: "date and time", Moment.TIME: "time"}
        return known[column.moment.kind]
    return {"text": "text", "whole": "whole number", "decimal": "number"}[_sort(column)]


def _is_whole(code: str) -> bool:
    value = parse_number(code)
    return value is not None and value.denominator == 1 and str(int(value)) == code


def _by_number(code: str) -> tuple[bool, Any]:
    value = parse_number(code)
    return (True, code) if value is None else (False, value)
