"""An XLSForm: the sheets survey and choices, with `relevant` and `constraint` of each question and group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from populace.schema.conditions.syntax_tree import Expression
from populace.schema.imports.codebooks.sheets import Sheet
from populace.schema.imports.codebooks.skip_logic import (
    Dialect,
    Translator,
    Untranslatable,
    join_conditions,
    read_limits,
    with_universe,
)
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable, number_or_none

_KINDS = {
    **dict.fromkeys(("integer", "int", "range"), "integer"),
    "decimal": "numeric",
    "date": "date",
    "datetime": "datetime",
    "time": "time",
}
_NO_COLUMN = (
    *(
        "note",
        "start",
        "end",
        "today",
        "deviceid",
        "username",
        "phonenumber",
        "email",
        "audit",
        "subscriberid",
    ),
    *("simserial", "start-geopoint", "geopoint", "geotrace", "geoshape", "image", "audio", "video", "file"),
    *("background-audio", "acknowledge", "xml-external", "csv-external"),
)
_BEGIN, _END = re.compile(r"begin[ _](group|repeat)"), re.compile(r"end[ _](group|repeat)")
_TRUE = ("yes", "true", "true()")


def is_survey(sheet: Sheet) -> bool:
    """Say whether a sheet is the survey of an XLSForm."""
    return sheet.has("type", "name") and bool({"relevant", "constraint", "calculation"} & set(sheet.header))


def is_choices(sheet: Sheet) -> bool:
    """Say whether a sheet holds the choices of an XLSForm."""
    return (sheet.has("list_name") or sheet.has("list name")) and (sheet.has("name") or sheet.has("value"))


@dataclass(slots=True)
class _Reading:
    """What was read of a form so far."""

    lists: Mapping[str, Mapping[str, str]]
    variables: dict[str, Variable] = field(default_factory=dict)
    left: list[Untranslated] = field(default_factory=list)
    relevant: list[tuple[int, str, str, tuple[str, ...]]] = field(default_factory=list)
    limits: list[tuple[int, str, str]] = field(default_factory=list)


def from_xlsform(survey: Sheet, choices: Sheet | None) -> Codebook:
    """Return the questions of a form; the relevant of a group holds for each question in it."""
    reading = _Reading(lists=_read_lists(choices))
    groups: list[tuple[int, str, str]] = []
    repeats = 0
    for line, row in survey.rows():
        kind, name = row.get("type", "").strip(), row.get("name", "")
        if begins := _BEGIN.fullmatch(kind.lower()):
            groups.append((line, name, row.get("relevant", "")))
            repeats += begins[1] == "repeat"
            if begins[1] == "repeat":
                why = "each repetition is a row of another table"
                reading.left.append(Untranslated(line=line, name=name, what="the repeat group", why=why))
        elif ends := _END.fullmatch(kind.lower()):
            repeats -= ends[1] == "repeat"
            groups = groups[:-1]
        elif name and kind and not repeats:
            _read_question(reading, line, kind, name, row, groups)
    return _translate(reading)


def _read_lists(choices: Sheet | None) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for _, row in choices.rows() if choices else ():
        name = row.get("list_name") or row.get("list name", "")
        code = row.get("name") or row.get("value", "")
        if name and code:
            found.setdefault(name, {})[code] = _label(row)
    return found


def _label(row: Mapping[str, str]) -> str:
    """Return the label, in the first language that has one."""
    named = [row.get("label", ""), *(text for key, text in row.items() if key.startswith("label::"))]
    return next((" ".join(text.split()) for text in named if text), "")


def _read_question(
    reading: _Reading,
    line: int,
    kind: str,
    name: str,
    row: Mapping[str, str],
    groups: list[tuple[int, str, str]],
) -> None:
    words = kind.split()
    sort = words[0].lower()
    if sort in _NO_COLUMN or sort == "hidden":
        reading.left.append(
            Untranslated(line=line, name=name, what=f"the {sort}", why="it is no answer that can be released")
        )
        return
    plain = Variable(
        name=name,
        line=line,
        label=_label(row),
        description=" ".join(row.get("hint", "").split()),
        may_be_empty=row.get("required", "").lower() not in _TRUE,
    )
    listed = dict(reading.lists.get(words[1], {})) if len(words) > 1 else {}
    if listed and words[-1] == "or_other":
        listed["other"] = "Other"
    if sort == "select_multiple" and listed:
        found = [
            replace(
                plain,
                name=f"{name}/{code}",
                label=f"{plain.label}: {label}",
                kind="categorical",
                choices={"0": "not selected", "1": "selected"},
            )
            for code, label in listed.items()
        ]
    elif sort == "select_one" and listed:
        found = [replace(plain, kind="categorical", choices=listed)]
    elif sort in _KINDS:
        low, high = _range_of(row) if sort == "range" else (None, None)
        found = [replace(plain, kind=_KINDS[sort], low=low, high=high)]
    else:
        why = {"calculate": "it is calculated", "text": "free text"}.get(sort, f"a question of type {kind}")
        found = [replace(plain, open_because=f"{why}: list its values, say its range, or remove it")]
    reading.variables |= {each.name: each for each in found}
    # A limit on how many may be selected is no domain.
    if row.get("constraint") and sort in _KINDS:
        reading.limits.append((line, name, row["constraint"]))
    elif row.get("constraint"):
        why = "it limits no range of numbers"
        what = f"constraint “{row['constraint']}”"
        reading.left.append(Untranslated(line=line, name=name, what=what, why=why))
    for place, label, text in (*groups, (line, name, row.get("relevant", ""))):
        if text:
            reading.relevant.append((place, label, text, tuple(each.name for each in found)))


def _range_of(row: Mapping[str, str]) -> tuple[Fraction | None, Fraction | None]:
    """Return the ends of a range question: parameters such as start=0 end=10 step=1."""
    given = dict(re.findall(r"(start|end)\s*=\s*(-?[0-9.]+)", row.get("parameters", "")))
    return number_or_none(given.get("start", "0")), number_or_none(given.get("end", "10"))


def _translate(reading: _Reading) -> Codebook:
    variables, left = reading.variables, reading.left
    translator = Translator(Dialect.XPATH, variables)
    for line, name, text in reading.limits:
        variable = variables[name]
        try:
            # A date stands in a call that says so.
            plain = re.sub(r"date\(\s*('[^']*'|\"[^\"]*\")\s*\)", r"\1", text)
            low, high = read_limits(
                translator.translate(plain, own=variable), whole=variable.kind == "integer"
            )
            variables[name] = replace(
                variable,
                low=variable.low if low is None else low,
                high=variable.high if high is None else high,
            )
        except Untranslatable as why:
            left.append(Untranslated(line=line, name=name, what=f"constraint “{text}”", why=str(why)))
    for name, variable in variables.items():
        if variable.kind in _KINDS.values() and (variable.low is None or variable.high is None):
            needed = f'the form does not limit it on both sides: kind = "{variable.kind}" with min and max'
            variables[name] = replace(variable, kind=None, open_because=needed)
    failed: set[tuple[int, str]] = set()
    asked: dict[str, list[Expression]] = {}
    incomplete: set[str] = set()
    for line, name, text, columns in reading.relevant:
        try:
            condition = translator.translate(text)
        except Untranslatable as why:
            incomplete.update(columns)
            if (line, name) not in failed:
                failed.add((line, name))
                left.append(Untranslated(line=line, name=name, what=f"relevant “{text}”", why=str(why)))
            continue
        for column in columns:
            asked.setdefault(column, []).append(condition)
            if column not in incomplete:
                variables[column] = with_universe(
                    replace(variables[column], universe=None), join_conditions(asked[column])
                )
    for column in incomplete:
        # Half a universe would be another universe.
        variables[column] = replace(variables[column], universe=None)
    return Codebook(variables=tuple(variables.values()), untranslated=tuple(left))
