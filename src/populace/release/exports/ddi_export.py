"""The codebook of a release as DDI-Codebook 2.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from populace.release.exports.released_codebook import ReleasedCodebook, describe_release, list_codes

NAMESPACE = "ddi:codebook:2_5"


def export_ddi(codebook: ReleasedCodebook) -> str:
    """Return the codebook as XML: each variable with its label, question, categories, missing codes and universe."""
    root = ET.Element("codeBook", {"xmlns": NAMESPACE, "version": "2.5"})
    for part in ("docDscr", "stdyDscr"):
        title = _add(_add(_add(root, part), "citation"), "titlStmt")
        _add(title, "titl", f"Synthetic data from {codebook.dataset}")
    _add(_add(root[1], "stdyInfo"), "abstract", describe_release(codebook))
    for number, name in enumerate(codebook.files, start=1):
        text = _add(_add(root, "fileDscr", ID=f"F{number}"), "fileTxt")
        _add(text, "fileName", name)
        _add(_add(text, "dimensns"), "caseQnty", str(codebook.rows))
    data = _add(root, "dataDscr")
    files = " ".join(f"F{number}" for number in range(1, len(codebook.files) + 1))
    for number, column in enumerate(codebook.columns, start=1):
        _add_variable(data, column, number=number, files=files)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_variable(data: ET.Element, column: Mapping[str, Any], *, number: int, files: str) -> None:
    """Add one variable; the order of its parts is that of the standard."""
    listed = isinstance(column.get("values"), list)
    whole = str(column["type"]).startswith(("int", "uint"))
    kind = {"intrvl": "discrete" if listed else "contin"} | ({"dcml": "0"} if whole else {})
    var = _add(data, "var", ID=f"V{number}", name=str(column["name"]), files=files, **kind)
    _add(var, "labl", str(column.get("label") or column["name"]))
    if column.get("description"):
        _add(_add(var, "qstn"), "qstnLit", str(column["description"]))
    if not listed and "min" in column:
        ends = {"min": str(column["min"]), "max": str(column.get("max", ""))}
        _add(_add(var, "valrng"), "range", **{key: end for key, end in ends.items() if end})
    missing = {*column.get("missing", ()), column.get("not_in_universe", "")}
    if column.get("universe"):
        _add(var, "universe", str(column["universe"]))
    for code, label in list_codes(column).items():
        category = _add(var, "catgry", **({"missing": "Y"} if code in missing else {}))
        _add(category, "catValu", code)
        _add(category, "labl", label)
    _add(var, "varFormat", type="character" if column["type"] == "string" else "numeric")


def _add(parent: ET.Element, tag: str, text: str = "", **attributes: str) -> ET.Element:
    element = ET.SubElement(parent, tag, attributes)
    # XML has no place for control characters.
    element.text = "".join(sign for sign in text if sign.isprintable() or sign in "\n\t") or None
    return element
