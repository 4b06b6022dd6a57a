"""Codebooks of the IPUMS kind (.cbk): for each variable a heading and lines of a code, two tabs and its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping

from populace.errors import SchemaError
from populace.records import dataclass

_HEADING = re.compile(r" (\w+)\t+(.*)")
_CODE = re.compile(r"(-?\d+)\t+(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What a codebook says about one variable: its title, and its codes as written with their meanings."""

    title: str
    codes: Mapping[str, str]


def is_codebook(text: str) -> bool:
    """Say whether a text is such a codebook.

    >>> is_codebook(" SEX\\t\\tSex\\n1\\t\\tMale\\n"), is_codebook("SEX,AGE\\n")
    (True, False)
    """
    return any(section.codes for section in sections(text).values())


def sections(text: str) -> dict[str, Section]:
    """Return the sections of a codebook by variable; headings between codes are left out.

    >>> sections(" SEX\\t\\tSex\\n\\t\\tBoth:\\n1\\t\\tMale\\n02\\t\\tFemale\\n")["SEX"].codes
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
    return {name: Section(title=title, codes=codes[name]) for name, title in titles.items()}
