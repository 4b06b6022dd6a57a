"""Which format a file has, found by what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError, UsageError
from populace.schema.bounded_parsing import RepeatedKey, parse_json, read_text_file
from populace.schema.imports.challenge_specs import (
    CodebookSection,
    from_specs,
    is_codebook,
    is_specs,
    parse_codebook,
)
from populace.schema.imports.nist_excerpts import from_excerpt, is_dictionary, is_excerpt
from populace.schema.imports.schema_document import SchemaDocument
from populace.schema.schema import check_sizes

KNOWN_FORMATS = (
    "understood are a domain.json (column → size), the JSON file of a NIST excerpt (with data_dictionary.json as "
    "--dictionary), and specs of the 2018 challenge (with codebook.cbk as --dictionary)"
)


def import_document(path: Path, *, dictionary: Path | None = None) -> SchemaDocument:
    """Return the schema that a file describes, with a dictionary of its values where there is one."""
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
