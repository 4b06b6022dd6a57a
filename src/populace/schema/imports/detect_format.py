"""Which format a file has, found by what is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError, UsageError
from populace.schema.bounded_parsing import RepeatedKey, parse_json, read_text_file
from populace.schema.hints import table_stem
from populace.schema.imports.challenge_specs import (
    CodebookSection,
    from_specs,
    is_codebook,
    is_specs,
    parse_codebook,
)
from populace.schema.imports.codebooks.codebook_document import codebook_to_document
from populace.schema.imports.codebooks.codebook_sheet import from_codebook_sheet, is_codebook_sheet
from populace.schema.imports.codebooks.ddi_codebook import from_ddi, is_ddi
from populace.schema.imports.codebooks.embedded_labels import document_from_labels
from populace.schema.imports.codebooks.pums_dictionary import from_pums, is_pums
from populace.schema.imports.codebooks.redcap import from_redcap, is_redcap
from populace.schema.imports.codebooks.sdv_metadata import from_metadata, is_metadata
from populace.schema.imports.codebooks.sheets import Sheet, is_workbook, parse_csv_lines, read_workbook
from populace.schema.imports.codebooks.survey_solutions import from_questionnaire, is_questionnaire
from populace.schema.imports.codebooks.table_schema import from_table_schema, is_table_schema
from populace.schema.imports.codebooks.variable import Codebook
from populace.schema.imports.codebooks.xlsform import from_xlsform, is_choices, is_survey
from populace.schema.imports.embedded.file_metadata import find_stat_format, read_file_metadata
from populace.schema.imports.nist_excerpts import from_excerpt, is_dictionary, is_excerpt
from populace.schema.imports.schema_document import SchemaDocument
from populace.schema.schema import check_sizes

KNOWN_FORMATS = (
    "understood are a REDCap data dictionary, an XLSForm (a workbook, or survey.csv with choices.csv as --dictionary), "
    "document.json of Survey Solutions, DDI-Codebook 2.5 and 2.6, the ACS PUMS dictionary as CSV, a Frictionless Table "
    "Schema, SDV metadata, a codebook with the columns variable, label, value, value label and missing, the labels in "
    "SPSS, Stata and SAS files, a domain.json (column → size), the JSON file of a NIST excerpt (with "
    "data_dictionary.json as --dictionary), and specs of the 2018 challenge (with codebook.cbk as --dictionary)"
)


def import_document(path: Path, *, dictionary: Path | None = None) -> SchemaDocument:
    """Return the schema that a file describes, with a dictionary of its values where there is one."""
    if find_stat_format(path) is not None:
        if dictionary is not None:
            raise UsageError(
                "a file with labels of its own takes no dictionary.",
                hint="give the other file as a second FILE",
            )
        return document_from_labels(read_file_metadata(path), source=path.name, dataset=table_stem(path))
    codebook = read_codebook(path, dictionary=dictionary)
    if codebook is not None:
        return codebook_to_document(codebook, source=path.name)
    content = _json(path, read_text(path))
    if content and all(isinstance(size, int) for size in content.values()):
        if dictionary is not None:
            raise UsageError(
                "a domain.json takes no dictionary: its columns are numbers from 0.",
                hint="leave --dictionary out, or give the file that belongs to the dictionary",
            )
        check_sizes(content)
        keys = {"kind": "integer", "min": 0, "other": "0"}
        return SchemaDocument(columns={name: keys | {"max": size - 1} for name, size in content.items()})
    if is_excerpt(content):
        return from_excerpt(content, {} if dictionary is None else _dictionary(dictionary))
    if is_specs(content):
        return from_specs(content, {} if dictionary is None else _sections(dictionary))
    if is_dictionary(content):
        raise SchemaError(
            f"{str(path)!r} is a data dictionary: it explains columns, but does not say which ones a table has.",
            hint="give the table's own JSON file, and this one as --dictionary",
        )
    raise unknown_format(path)


def read_codebook(path: Path, *, dictionary: Path | None) -> Codebook | None:
    """Return the variables of a codebook or questionnaire; None where the file is neither."""
    if is_workbook(path):
        sheets = read_workbook(path)
        if "survey" in sheets:
            return from_xlsform(sheets["survey"], _choices(dictionary) or sheets.get("choices"))
        return _from_sheet(next(iter(sheets.values()), None), dictionary)
    text = read_text(path)
    if is_ddi(text):
        return _without_dictionary(from_ddi(text), dictionary)
    try:
        content = parse_json(text)
    except ValueError:
        lines = parse_csv_lines(text)
        if is_pums(lines):
            return _without_dictionary(from_pums(lines), dictionary)
        return _from_sheet(Sheet.of(lines), dictionary)
    if not isinstance(content, dict):
        return None
    for fits, read in _JSON_FORMATS:
        if fits(content):
            return _without_dictionary(read(content, text=text), dictionary)
    return None


_JSON_FORMATS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[..., Codebook]], ...] = (
    (is_questionnaire, from_questionnaire),
    (is_table_schema, from_table_schema),
    (is_metadata, from_metadata),
)


def _from_sheet(sheet: Sheet | None, dictionary: Path | None) -> Codebook | None:
    if sheet is None:
        return None
    if is_redcap(sheet):
        return _without_dictionary(from_redcap(sheet), dictionary)
    if is_survey(sheet):
        return from_xlsform(sheet, _choices(dictionary))
    if is_codebook_sheet(sheet):
        return _without_dictionary(from_codebook_sheet(sheet), dictionary)
    return None


def _choices(dictionary: Path | None) -> Sheet | None:
    """Return the sheet of choices that belongs to a survey in a file of its own."""
    if dictionary is None:
        return None
    sheet = Sheet.of(parse_csv_lines(read_text(dictionary)))
    if not is_choices(sheet):
        raise SchemaError(
            f"{str(dictionary)!r} is not the sheet of choices of an XLSForm.",
            hint="it has the columns list_name, name and label",
        )
    return sheet


def _without_dictionary(codebook: Codebook, dictionary: Path | None) -> Codebook:
    if dictionary is not None:
        raise UsageError(
            "this format takes no dictionary: it says what its values mean.",
            hint="leave --dictionary out; a second codebook is another FILE",
        )
    return codebook


def unknown_format(path: Path) -> SchemaError:
    """Return the refusal of a file whose format nobody knows."""
    return SchemaError(f"{str(path)!r} has a format that is not understood.", hint=KNOWN_FORMATS)


def read_text(path: Path) -> str:
    """Return the text of a file; bytes that are no UTF-8 are read as Windows-1252."""
    return read_text_file(path, what="codebook", refuse=UsageError, western=True)


def _json(path: Path, text: str) -> Mapping[str, Any]:
    try:
        content = parse_json(text)
    except RepeatedKey as error:
        raise SchemaError(f"{str(path)!r}: {error}.", hint="name each column and code once") from None
    except ValueError:
        if is_codebook(text):
            raise SchemaError(
                f"{str(path)!r} is a codebook: it explains codes, but does not say which columns a table has.",
                hint="give the specs (column → type and maxval), and this file as --dictionary",
            ) from None
        raise unknown_format(path) from None
    if not isinstance(content, dict):
        raise unknown_format(path)
    return content


def _dictionary(path: Path) -> Mapping[str, Any]:
    content = _json(path, read_text(path))
    if not is_dictionary(content):
        raise SchemaError(
            f"{str(path)!r} is not the data dictionary of the NIST excerpts.",
            hint='it holds a "description" and "values" for each column; give data_dictionary.json',
        )
    return content


def _sections(path: Path) -> Mapping[str, CodebookSection]:
    text = read_text(path)
    if not is_codebook(text):
        raise SchemaError(
            f"{str(path)!r} is not a codebook of the IPUMS kind.",
            hint="it holds a heading for each variable, then lines of a code, two tabs and its meaning",
        )
    return parse_codebook(text)
