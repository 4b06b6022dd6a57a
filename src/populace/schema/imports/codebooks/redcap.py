"""A REDCap data dictionary: choices, validation limits and branching logic of each field.

Two spellings of its header: that of the file people download, and that of the API. The first field is the record id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from populace.schema.conditions import syntax_tree as syntax
from populace.schema.imports.codebooks.sheets import Sheet
from populace.schema.imports.codebooks.skip_logic import (
    Dialect,
    Translator,
    Untranslatable,
    checkbox_column,
    with_universe,
)
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable, number_or_none

_NAMES = {
    "field_name": "variable / field name",
    "field_type": "field type",
    "field_label": "field label",
    "field_note": "field note",
    "select_choices_or_calculations": "choices, calculations, or slider labels",
    "text_validation_type_or_show_slider_number": "text validation type or show slider number",
    "text_validation_min": "text validation min",
    "text_validation_max": "text validation max",
    "identifier": "identifier?",
    "branching_logic": "branching logic (show field only if...)",
    "required_field": "required field?",
}
_LISTED = {"yesno": {"1": "Yes", "0": "No"}, "truefalse": {"1": "True", "0": "False"}}
_NO_COLUMN = ("descriptive", "file", "signature")


def is_redcap(sheet: Sheet) -> bool:
    """Say whether a sheet is a data dictionary of REDCap."""
    return sheet.has("variable / field name", "field type") or sheet.has("field_name", "field_type")


def from_redcap(sheet: Sheet) -> Codebook:
    """Return the fields of a dictionary. Boxes of a checkbox are columns of their own, as in an export."""
    variables: dict[str, Variable] = {}
    left: list[Untranslated] = []
    logic: list[tuple[int, str, list[str], str]] = []
    identity: str | None = None
    for place, (line, row) in enumerate(sheet.rows()):
        field = {ours: row.get(theirs, row.get(ours, "")) for ours, theirs in _NAMES.items()}
        name, kind = field["field_name"], field["field_type"].lower()
        if not name:
            continue
        if place == 0:
            identity = name
            continue
        if kind in _NO_COLUMN or field["identifier"].lower() == "y":
            why = "it identifies people" if kind not in _NO_COLUMN else f"a {kind} field has no values"
            left.append(Untranslated(line=line, name=name, what="the field", why=why))
            continue
        found = _read_field(name, kind, field, line=line)
        variables |= {each.name: each for each in found}
        if field["branching_logic"]:
            logic.append((line, name, [each.name for each in found], field["branching_logic"]))
    translator, zeros = Translator(Dialect.REDCAP, variables), []
    for line, name, columns, text in logic:
        try:
            condition = translator.translate(text)
        except Untranslatable as why:
            left.append(Untranslated(line=line, name=name, what=f"branching logic “{text}”", why=str(why)))
            continue
        for column in columns:
            if column == name:
                variables[name] = with_universe(variables[name], condition)
            else:
                # A box that was never shown is exported as one that was not ticked.
                ticked = syntax.Comparison(syntax.Name(column), syntax.Operator.EQUAL, syntax.Literal("1"))
                zeros.append((line, column, syntax.And((syntax.Not(condition), ticked))))
    return Codebook(
        variables=tuple(variables.values()), untranslated=tuple(left), zeros=tuple(zeros), id=identity
    )


def parse_choices(text: str) -> dict[str, str]:
    """Return choices by code.

    >>> parse_choices("1, Yes, always | 2, No")
    {'1': 'Yes, always', '2': 'No'}
    """
    parts = [part.partition(",") for part in text.split("|") if part.strip()]
    return {code.strip(): label.strip() for code, _, label in parts}


def _read_field(name: str, kind: str, field: Mapping[str, str], *, line: int) -> list[Variable]:
    plain = Variable(
        name=name,
        line=line,
        label=field["field_label"],
        description=field["field_note"],
        may_be_empty=field["required_field"].lower() != "y",
    )
    given = field["select_choices_or_calculations"]
    choices = _LISTED.get(kind) or (parse_choices(given) if kind in ("radio", "dropdown", "checkbox") else {})
    if kind == "checkbox":
        boxes = {"0": "unchecked", "1": "checked"}
        return [
            replace(
                plain,
                name=checkbox_column(name, code),
                label=f"{plain.label}: {label}",
                kind="categorical",
                choices=boxes,
                may_be_empty=False,
            )
            for code, label in choices.items()
        ]
    if choices:
        return [replace(plain, kind="categorical", choices=choices)]
    low, high = field["text_validation_min"], field["text_validation_max"]
    check = field["text_validation_type_or_show_slider_number"].lower()
    if kind == "slider":
        return [_with_range(replace(plain, kind="integer"), low or "0", high or "100")]
    if kind == "calc":
        return [replace(plain, open_because="it is calculated: say the range that its formula allows")]
    sort = {"integer": "integer", "time": "time"}.get(check) or (
        "numeric"
        if check.startswith("number")
        else "datetime"
        if check.startswith("datetime")
        else "date"
        if check.startswith("date")
        else None
    )
    if sort is None:
        why = "free text: list its values or remove it"
        return [replace(plain, open_because=why)]
    return [_with_range(replace(plain, kind=sort), low, high)]


def _with_range(variable: Variable, low: str, high: str) -> Variable:
    """Return the variable between two limits, or open where one of them is not a plain value."""
    numeric = variable.kind in ("integer", "numeric")
    ends: list[Fraction | str | None] = [number_or_none(low), number_or_none(high)]
    if not numeric:
        ends = [text if text[:1].isdigit() else None for text in (low, high)]
    first, last = ends
    if first is None or last is None:
        said = (
            "gives no smallest and largest value"
            if not (low or high)
            else "gives one limit, or a limit that moves"
        )
        why = f'the dictionary {said}: kind = "{variable.kind}" with min and max'
        return replace(variable, kind=None, open_because=why)
    return replace(variable, low=first, high=last)
