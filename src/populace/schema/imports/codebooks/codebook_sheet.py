"""A plain codebook as a sheet: a line for each value, with the columns variable, label, value, value label, missing.

Optional columns: kind, min, max, universe (a condition of a schema), outside, description. What holds for the whole
variable stands in its first line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from populace.core.errors import SchemaError
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.imports.codebooks.sheets import Sheet
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable, number_or_none

_NAMES = ("variable", "variable name", "name", "column")
_VALUES = ("value", "code")
_LABELS = ("value label", "value_label", "meaning")
_TRUE = ("y", "yes", "true", "1", "x", "missing")
_DATES = ("date", "datetime", "time")
# Columns of a sheet that describes rows rather than the questionnaire.
_COMPUTED = frozenset(
    ("n", "mean", "sd", "std", "median", "freq", "frequency", "count", "percent", "share", "variance")
)


def is_codebook_sheet(sheet: Sheet) -> bool:
    """Say whether a sheet is such a codebook."""
    return any(name in sheet.header for name in _NAMES) and any(name in sheet.header for name in _VALUES)


def from_codebook_sheet(sheet: Sheet) -> Codebook:
    """Return the variables of a plain codebook."""
    variables: dict[str, Variable] = {}
    left: list[Untranslated] = []
    name = ""
    computed = sorted(_COMPUTED.intersection(sheet.header))
    for line, row in sheet.rows():
        name = _first(row, _NAMES) or name
        if not name:
            continue
        if name not in variables:
            variables[name] = _begin(name, row, left, line=line)
        variable, code = variables[name], _first(row, _VALUES)
        if code:
            lacks = row.get("missing", "").lower() in _TRUE
            kept = dict(variable.missing if lacks else variable.choices)
            if code in variable.choices or code in variable.missing:
                raise SchemaError(
                    f"line {line} of the codebook lists the value {code!r} of {name!r} again.",
                    hint="list each value once",
                )
            kept[code] = _first(row, _LABELS)
            variables[name] = replace(variable, missing=kept) if lacks else replace(variable, choices=kept)
    return Codebook(
        variables=tuple(_settle(each, computed=computed) for each in variables.values()),
        untranslated=tuple(left),
    )


def _first(row: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((row[name] for name in names if row.get(name)), "")


def _begin(name: str, row: Mapping[str, str], left: list[Untranslated], *, line: int) -> Variable:
    kind, low, high = row.get("kind") or row.get("type") or None, row.get("min", ""), row.get("max", "")
    dated = kind in _DATES
    found = Variable(
        name=name,
        line=line,
        label=row.get("label", ""),
        description=row.get("description", ""),
        kind=kind,
        low=(low or None) if dated else number_or_none(low),
        high=(high or None) if dated else number_or_none(high),
        outside=row.get("outside", ""),
    )
    if not (text := row.get("universe", "")):
        return found
    try:
        return replace(found, universe=parse_condition(text))
    except SchemaError:
        why = "it is no condition such as age >= 15 and sex == '2'"
        left.append(Untranslated(line=line, name=name, what=f"universe “{text}”", why=why))
        return found


def _settle(variable: Variable, *, computed: Sequence[str]) -> Variable:
    """Return the variable with its kind, which may follow from what is there; else open.

    A sheet with means or frequencies describes rows: its ranges are theirs, and are not taken.
    """
    if computed and not variable.choices:
        why = f"the codebook has columns computed from rows ({', '.join(computed)}), so its ranges may be too"
        return replace(variable, kind=None, low=None, high=None, open_because=why)
    ranged = variable.low is not None and variable.high is not None
    if variable.choices and variable.kind in (None, "categorical", "ordinal"):
        return replace(variable, kind=variable.kind or "categorical")
    if ranged and variable.kind in (None, "integer", "numeric", *_DATES):
        ends = (variable.low, variable.high)
        whole = all(isinstance(end, str) or (end is not None and end.denominator == 1) for end in ends)
        # A code that is explained beside a range is one of its missing codes, or a label of a number.
        return replace(variable, kind=variable.kind or ("integer" if whole else "numeric"))
    why = "neither values nor min and max are listed: fill in a kind with its values or its range"
    return replace(variable, kind=None, open_because=why)
