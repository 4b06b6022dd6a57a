"""Codebooks of the IPUMS kind (.cbk): for each variable a heading and lines of a code, two tabs and its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from populace.core.errors import SchemaError

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
