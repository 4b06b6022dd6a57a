"""The 2018 challenge: specs.json (column → type and largest value) with a codebook of the IPUMS kind (.cbk).

A codebook has for each variable a heading and lines of a code, two tabs and its meaning. A column that it lists has
the codes of that list; any other is a whole number up to the largest value of the specs. Both are the codebook's word:
nothing here comes from rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.imports.round_bins import integer_bins
from populace.schema.imports.schema_document import SchemaDocument

# The specs call their columns enumerations: up to this many numbers, each keeps a code.
MAX_ENUMERATED = 10_001

_NO_NUMBER = re.compile(r"\b(n/?a|not applicable|missing|unknown|illegible|not reported)\b", re.IGNORECASE)
_HEADING = re.compile(r" (\w+)\t+(.*)")
_CODE = re.compile(r"(-?\d+)\t+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodebookSection:
    """What a codebook says about one variable: its title, and its codes as written with their meanings."""

    title: str
    codes: Mapping[str, str]


def is_codebook(text: str) -> bool:
    """Say whether a text is such a codebook.

    >>> is_codebook(" SEX\\t\\tSex\\n1\\t\\tMale\\n"), is_codebook("SEX,AGE\\n")
    (True, False)
    """
    return any(section.codes for section in parse_codebook(text).values())


def parse_codebook(text: str) -> dict[str, CodebookSection]:
    """Return the sections of a codebook by variable; headings between codes are left out.

    >>> parse_codebook(" SEX\\t\\tSex\\n\\t\\tBoth:\\n1\\t\\tMale\\n02\\t\\tFemale\\n")["SEX"].codes
    {'1': 'Male', '02': 'Female'}
    """
    titles: dict[str, str] = {}
    codes: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            name = heading[1]
            titles[name], codes[name] = heading[2].strip(), {}
        elif name and (entry := _CODE.fullmatch(line)):
            if entry[1] in codes[name]:
                raise SchemaError(
                    f"the codebook lists code {entry[1]!r} of {name!r} twice.", hint="correct the codebook"
                )
            codes[name][entry[1]] = entry[2].strip()
    return {name: CodebookSection(title=title, codes=codes[name]) for name, title in titles.items()}


def is_specs(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object gives each column's type and largest value."""
    return bool(content) and all(isinstance(e, dict) and "maxval" in e for e in content.values())


def from_specs(content: Mapping[str, Any], sections: Mapping[str, CodebookSection]) -> SchemaDocument:
    """Return the columns of the specs, with codes and labels where the codebook lists them.

    >>> sections = {"SEX": CodebookSection(title="Sex", codes={"1": "Male", "2": "Female"})}
    >>> from_specs({"SEX": {"type": "enum", "maxval": 2}}, sections).columns["SEX"]["values"]
    ['1', '2']
    """
    columns, notes = {}, {}
    for name, entry in content.items():
        most = entry["maxval"]
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise SchemaError(
                f"the maxval of column {name!r} is not a whole number of 0 or more.",
                hint='write {"column": {"type": "enum", "maxval": 9}, …}',
            )
        section = sections.get(name)
        if section is None or not section.codes:
            columns[name] = _number(most)
        else:
            columns[name] = _listed_column(section, most)
        notes[name] = section.title if section else ""
    return SchemaDocument(columns=columns, notes=notes)


def _number(most: int) -> dict[str, Any]:
    """Return whole numbers from 0. In long ranges, numbers such as 999998 and 999999 are codes and not amounts."""
    codes = [
        code
        for code in (10 ** len(str(most)) - 2, 10 ** len(str(most)) - 1)
        if code <= most >= MAX_ENUMERATED
    ]
    keys: dict[str, Any] = {"kind": "integer", **integer_bins(0, most - len(codes), single=MAX_ENUMERATED)}
    if codes:
        keys["missing"] = [str(code) for code in codes]
    return keys | {"other": "0", "origin": "codebook"}


def _listed_column(section: CodebookSection, most: int) -> dict[str, Any]:
    codes = dict(section.codes)
    if most not in map(int, codes):
        # The specs know of a code that the codebook does not explain.
        codes[str(most).zfill(len(next(iter(codes))))] = ""
    labels = {code: label for code, label in codes.items() if label and label != code}
    # Codes are the numbers that they stand for: 017 is 17, with few exceptions such as 99 missing.
    plain = sum(_says(code, label) for code, label in section.codes.items())
    if 10 * plain < 7 * len(section.codes) or len(section.codes) <= 3:
        first = {"kind": "categorical", "type": "integer", "values": list(codes), "other": next(iter(codes))}
        return first | {"origin": "codebook", "labels": labels}
    missing = [code for code, label in codes.items() if not label or _NO_NUMBER.search(label)]
    numbers = [int(code) for code in codes if code not in missing]
    keys: dict[str, Any] = {"kind": "integer", "min": min(numbers), "max": max(numbers)}
    if missing:
        keys["missing"] = missing
    words = {code: label for code, label in labels.items() if not _says(code, label)}
    return keys | {"other": str(min(numbers)), "origin": "codebook"} | ({"labels": words} if words else {})


def _says(code: str, label: str) -> bool:
    """Say whether a label begins with the number of its code."""
    begins = re.match(r"\d+", label)
    return begins is not None and int(begins.group()) == int(code)
