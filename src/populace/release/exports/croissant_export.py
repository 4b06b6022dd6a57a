"""The codebook of a release as Croissant 1.0: JSON-LD that describes files, columns and what their codes mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from populace.release.exports.released_codebook import (
    ReleasedCodebook,
    describe_release,
    list_codes,
    media_type,
)

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "column": "cr:column",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "key": "cr:key",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "source": "cr:source",
}
_TYPES = (
    ("int", "sc:Integer"),
    ("uint", "sc:Integer"),
    ("double", "sc:Float"),
    ("float", "sc:Float"),
    ("date", "sc:Date"),
    ("timestamp", "sc:DateTime"),
)


def export_croissant(codebook: ReleasedCodebook) -> str:
    """Return the codebook as JSON-LD; codes with labels are record sets of their own, which columns refer to."""
    files = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "encodingFormat": media_type(name),
            "sha256": digest,
        }
        for name, digest in codebook.files.items()
    ]
    named = [column for column in codebook.columns if column.get("labels")]
    records = [_record_set(codebook, name) for name in codebook.files]
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": f"{codebook.dataset}-synthetic",
        "description": describe_release(codebook),
        "distribution": files,
        "recordSet": [*records, *map(_enumeration, named)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _record_set(codebook: ReleasedCodebook, name: str) -> dict[str, Any]:
    stem = name.partition(".")[0]
    return {
        "@type": "cr:RecordSet",
        "@id": stem,
        "name": stem,
        "field": [_field(column, file=name, of=stem) for column in codebook.columns],
    }


def _field(column: Mapping[str, Any], *, file: str, of: str) -> dict[str, Any]:
    name = str(column["name"])
    words = " ".join(text for text in (column.get("label"), column.get("description")) if text)
    field = {
        "@type": "cr:Field",
        "@id": f"{of}/{name}",
        "name": name,
        **({"description": words} if words else {}),
        "dataType": next((t for start, t in _TYPES if str(column["type"]).startswith(start)), "sc:Text"),
        "source": {"fileObject": {"@id": file}, "extract": {"column": name}},
    }
    return field | ({"references": {"field": {"@id": f"{name} codes/code"}}} if column.get("labels") else {})


def _enumeration(column: Mapping[str, Any]) -> dict[str, Any]:
    identity = f"{column['name']} codes"
    fields = [
        {"@type": "cr:Field", "@id": f"{identity}/{part}", "name": part, "dataType": "sc:Text"}
        for part in ("code", "label")
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": identity,
        "name": identity,
        "dataType": "sc:Enumeration",
        "key": {"@id": f"{identity}/code"},
        "field": fields,
        "data": list(_rows(column, identity)),
    }


def _rows(column: Mapping[str, Any], identity: str) -> Iterator[dict[str, str]]:
    for code, label in list_codes(column).items():
        yield {f"{identity}/code": code, f"{identity}/label": label}
