"""Labels that SPSS, Stata and SAS files carry: variable labels, value labels and missing codes. No row is read.

The bounds of a range are nowhere in such a file but in its rows, so numbers without labelled values stay open.
"""

from __future__ import annotations

from dataclasses import replace

from populace.schema.imports.codebooks.codebook_document import codebook_to_document, settle_document
from populace.schema.imports.codebooks.variable import Codebook, Variable
from populace.schema.imports.draft import column_todo, draft_table
from populace.schema.imports.embedded.file_metadata import ColumnMetadata, FileMetadata
from populace.schema.imports.schema_document import SchemaDocument

# So many labelled values make a list; one alone rather names an end of a scale.
_MIN_CHOICES = 2
_MAX_SHOWN = 6
FROM_ROWS_PERHAPS = (
    "value labels are taken as the codebook; those that `encode` of Stata or factors of R made come from the rows, "
    "which is not protected: check them against the codebook"
)


def document_from_labels(metadata: FileMetadata, *, source: str, dataset: str) -> SchemaDocument:
    """Return the schema that a file's own labels describe; `source` is the name of the file."""
    document = settle_document(codebook_to_document(from_embedded_labels(metadata), source=source))
    table, asked = draft_table(dataset)
    remarks = document.remarks
    if any(column.value_labels for column in metadata.columns):
        remarks += (FROM_ROWS_PERHAPS,)
    if not metadata.format.keeps_missing_codes:
        remarks += (f"missing codes of {metadata.format.words} are read as empty cells",)
    return replace(document, table=table, asked=asked, remarks=remarks)


def from_embedded_labels(metadata: FileMetadata) -> Codebook:
    """Return the variables of a file as its own labels describe them."""
    return Codebook(variables=tuple(map(_read_variable, metadata.columns)))


def _read_variable(column: ColumnMetadata) -> Variable:
    labels = column.value_labels
    missing = {code: labels.get(code, "") for code in column.missing}
    plain = Variable(name=column.name, label=column.label, missing=missing)
    choices = {code: label for code, label in labels.items() if code not in missing}
    if len(choices) >= _MIN_CHOICES and column.measure != "scale":
        # Whether every value has a label is only in the rows: what has none becomes an empty cell, and is counted.
        kind = "ordinal" if column.measure == "ordinal" else "categorical"
        return replace(plain, kind=kind, choices=choices)
    why = [f"{column.type_words}; {column_todo(column.sort)}"]
    why += [f"numbers from {each} are missing: list the codes" for each in column.open_ranges]
    if choices:
        why.append(f"labelled: {', '.join(f'{c} = {t}' for c, t in list(choices.items())[:_MAX_SHOWN])}")
    return replace(plain, open_because="\n".join(why))
