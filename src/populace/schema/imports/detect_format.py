"""Which format a file has, told by what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from populace.core.errors import ResourceError, SchemaError, UsageError
from populace.schema.bounded_parsing import parse_json
from populace.schema.imports import ipums_codebook as codebook
from populace.schema.imports.challenge_specs import from_specs, is_specs
from populace.schema.imports.domain_sizes import from_sizes, is_sizes
from populace.schema.imports.nist_excerpts import from_excerpt, is_dictionary, is_excerpt
from populace.schema.imports.schema_document import SchemaDocument

KNOWN_FORMATS = (
    "understood are a domain.json (column → size), the JSON file of a NIST excerpt (with data_dictionary.json as "
    "--dictionary), and specs of the 2018 challenge (with codebook.cbk as --dictionary)"
)


def import_document(path: Path, *, dictionary: Path | None = None) -> SchemaDocument:
    """Return the schema that a file describes, with a dictionary of its values where there is one."""
    content = _json(path, read_text(path))
    if is_sizes(content):
        if dictionary is not None:
            raise UsageError(
                "a domain.json takes no dictionary: its columns are numbers from 0.",
                hint="leave --dictionary out, or give the file that belongs to the dictionary",
            )
        return from_sizes(content)
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
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}.", hint="check the path") from None
    except IsADirectoryError:
        raise UsageError(f"{str(path)!r} is a folder.", hint="name the file in it") from None
    except ValueError:
        raise UsageError("the path of a file is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"{str(path)!r} cannot be read: {error.strerror}.", hint="check its permissions"
        ) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _json(path: Path, text: str) -> Mapping[str, Any]:
    try:
        content = parse_json(text, object_pairs_hook=lambda pairs: _once(path, pairs))
    except ValueError:
        if codebook.is_codebook(text):
            raise SchemaError(
                f"{str(path)!r} is a codebook: it explains codes, but does not say which columns a table has.",
                hint="give the specs (column → type and maxval), and this file as --dictionary",
            ) from None
        raise unknown_format(path) from None
    if not isinstance(content, dict):
        raise unknown_format(path)
    return content


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise SchemaError(f"{str(path)!r} names something twice.", hint="name each column and code once")
    return found


def _dictionary(path: Path) -> Mapping[str, Any]:
    content = _json(path, read_text(path))
    if not is_dictionary(content):
        raise SchemaError(
            f"{str(path)!r} is not the data dictionary of the NIST excerpts.",
            hint='it holds a "description" and "values" for each column; give data_dictionary.json',
        )
    return content


def _sections(path: Path) -> Mapping[str, codebook.CodebookSection]:
    text = read_text(path)
    if not codebook.is_codebook(text):
        raise SchemaError(
            f"{str(path)!r} is not a codebook of the IPUMS kind.",
            hint="it holds a heading for each variable, then lines of a code, two tabs and its meaning",
        )
    return codebook.parse_codebook(text)
