"""The data dictionary of the ACS PUMS as CSV: a line NAME for each variable, then a line VAL for each value or range.

    NAME,AGEP,N,2,"Age"
    VAL,AGEP,N,2,"1","99","1 to 99 years (Top-coded)"

A value of b's is a blank cell. Why it is blank is said in words; "less than 16 years old" alone is a universe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction

from populace.schema.conditions import syntax_tree as syntax
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable, number_or_none

AGE = "AGEP"
_BLANK = re.compile(r"b+")
_TOO_YOUNG = re.compile(r"N/?A \(less than (\d+) years old\)\.?", re.IGNORECASE)
_NOT_RELEASED = ("SERIALNO", "SPORDER", "RT")
_WEIGHT = re.compile(r"(PWGTP|WGTP)\d*")

Lines = list[tuple[int, list[str]]]


@dataclass(slots=True)
class _Entry:
    line: int
    name: str
    numeric: bool
    label: str
    values: list[tuple[int, str, str, str]] = field(default_factory=list)


def is_pums(lines: Lines) -> bool:
    """Say whether lines are such a dictionary."""
    first = next((cells for _, cells in lines if any(cells)), [])
    return len(first) >= 5 and first[0] == "NAME" and first[2] in ("C", "N")


def from_pums(lines: Lines) -> Codebook:
    """Return the variables of a dictionary; weights and identifiers are left out."""
    entries: dict[str, _Entry] = {}
    for line, cells in lines:
        cells = [cell.strip() for cell in cells]
        if len(cells) >= 5 and cells[0] == "NAME":
            entries.setdefault(cells[1], _Entry(line, cells[1], cells[2] == "N", cells[4]))
        elif len(cells) >= 7 and cells[0] == "VAL" and cells[1] in entries:
            entries[cells[1]].values.append((line, cells[4], cells[5], cells[6]))
    variables, left = [], []
    for entry in entries.values():
        if entry.name in _NOT_RELEASED or _WEIGHT.fullmatch(entry.name):
            why = "weights and identifiers are no answers"
            left.append(Untranslated(line=entry.line, name=entry.name, what="the variable", why=why))
            continue
        variables.append(_read_entry(entry, left, has_age=AGE in entries))
    return Codebook(variables=tuple(variables), untranslated=tuple(left))


def _read_entry(entry: _Entry, left: list[Untranslated], *, has_age: bool) -> Variable:
    found = Variable(name=entry.name, line=entry.line, label=entry.label, may_be_empty=False)
    choices: dict[str, str] = {}
    ends: list[Fraction] = []
    for line, low, high, label in entry.values:
        if _BLANK.fullmatch(low):
            found = replace(found, may_be_empty=True)
            young = _TOO_YOUNG.fullmatch(label)
            if young and has_age and entry.name != AGE:
                limit = syntax.Literal(young[1], quoted=False)
                age = syntax.Comparison(syntax.Name(AGE), syntax.Operator.AT_LEAST, limit)
                found = replace(found, universe=age)
            elif label.upper().startswith("N/A"):
                what, why = f"who has no value, “{label}”,", "it is said in words; blank cells are missing"
                left.append(Untranslated(line=line, name=entry.name, what=what, why=why))
        elif low == high and not entry.numeric:
            choices[low] = label
        else:
            numbers = [number_or_none(low), number_or_none(high)]
            ends += [number for number in numbers if number is not None]
            if low == high:
                choices[low] = label
    if entry.numeric and ends:
        whole = all(end.denominator == 1 for end in ends)
        return replace(found, kind="integer" if whole else "numeric", low=min(ends), high=max(ends))
    if choices and not ends:
        return replace(found, kind="categorical", choices=choices)
    why = "the dictionary gives a range of codes: list them, or remove it" if ends else "no values are listed"
    return replace(found, open_because=why)
