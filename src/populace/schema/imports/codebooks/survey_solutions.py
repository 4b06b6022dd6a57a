"""A questionnaire of Survey Solutions: the document.json beside an export, with its conditions in C#.

Its nodes have `Children`; questions have `StataExportCaption` or `VariableName`, `QuestionText`, `Answers`,
`ConditionExpression` and `ValidationConditions`. Exports leave questions that were not asked empty, and write
-999999999 or ##N/A## where nobody answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from populace.schema.imports.codebooks.skip_logic import (
    Dialect,
    Translator,
    Untranslatable,
    join_conditions,
    read_limits,
    with_universe,
)
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable

NO_ANSWER, NO_ANSWER_TEXT = "-999999999", "##N/A##"
_SINGLE, _MULTIPLE, _NUMERIC, _DATE = 0, 3, 4, 5
_TYPES = {"SingleQuestion": 0, "MultyOptionsQuestion": 3, "NumericQuestion": 4, "DateTimeQuestion": 5}


def is_questionnaire(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is a questionnaire of Survey Solutions."""
    return isinstance(content.get("Children"), list)


def from_questionnaire(content: Mapping[str, Any], *, text: str = "") -> Codebook:
    """Return the questions of a questionnaire; the condition of a section holds for each question in it.

    `text` is the file, in which the line of each question is looked for.
    """
    lines = {found[1]: text.count("\n", 0, found.start()) + 1 for found in re.finditer(r'"(\w+)"', text)}
    variables: dict[str, Variable] = {}
    left: list[Untranslated] = []
    asked: list[tuple[str, list[str], tuple[str, ...]]] = []
    for node, conditions in _list_questions(content, ()):
        name = str(node.get("StataExportCaption") or node.get("VariableName") or "")
        line = lines.get(name, 0)
        if not name:
            continue
        if node.get("__roster"):
            why = "each row of a roster is a row of another table"
            left.append(Untranslated(line=line, name=name, what="the question", why=why))
            continue
        found = _read_question(name, node, line=line)
        variables |= {each.name: each for each in found}
        asked.append((name, [each.name for each in found], conditions))
        for check in node.get("ValidationConditions") or ():
            _limit(variables, left, name, str(check.get("Expression", "")) if isinstance(check, dict) else "")
    for name, variable in variables.items():
        if variable.kind in ("integer", "numeric") and (variable.low is None or variable.high is None):
            why = f'no validation limits it on both sides: kind = "{variable.kind}" with min and max'
            variables[name] = replace(variable, kind=None, open_because=why)
    translator = Translator(Dialect.CSHARP, variables)
    for name, columns, conditions in asked:
        try:
            parts = [translator.translate(each) for each in conditions]
        except Untranslatable as why:
            what = f"condition “{' && '.join(conditions)}”"
            left.append(Untranslated(line=lines.get(name, 0), name=name, what=what, why=str(why)))
            continue
        for column in columns if parts else ():
            variables[column] = with_universe(variables[column], join_conditions(parts))
    return Codebook(variables=tuple(variables.values()), untranslated=tuple(left))


def _list_questions(
    node: Mapping[str, Any], conditions: tuple[str, ...], *, roster: bool = False
) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    for child in node.get("Children") or ():
        if not isinstance(child, dict):
            continue
        own = str(child.get("ConditionExpression") or "").strip()
        found = (*conditions, own) if own else conditions
        inside = roster or bool(child.get("IsRoster"))
        if "QuestionType" in child or _type_of(child) in _TYPES.values():
            yield ({**child, "__roster": True} if inside else child), found
        yield from _list_questions(child, found, roster=inside)


def _type_of(node: Mapping[str, Any]) -> int | None:
    named = str(node.get("$type", "")).partition(",")[0].rpartition(".")[2]
    given = node.get("QuestionType")
    return given if isinstance(given, int) else _TYPES.get(named)


def _read_question(name: str, node: Mapping[str, Any], *, line: int) -> list[Variable]:
    label = re.sub(r"<[^>]*>", "", str(node.get("VariableLabel") or node.get("QuestionText") or ""))
    plain = Variable(name=name, line=line, label=" ".join(label.split()), no_answer=NO_ANSWER)
    answers = {
        str(each.get("AnswerValue", "")).removesuffix(".0"): str(each.get("AnswerText", ""))
        for each in node.get("Answers") or ()
        if isinstance(each, dict)
    }
    sort = _type_of(node)
    if sort == _SINGLE and answers:
        return [replace(plain, kind="categorical", choices=answers, missing={NO_ANSWER: "no answer"})]
    if sort == _MULTIPLE and answers:
        return [
            replace(
                plain,
                name=f"{name}__{code.replace('-', 'n')}",
                label=f"{plain.label}: {answer}",
                kind="categorical",
                choices={"0": "no", "1": "yes"},
                missing={NO_ANSWER: "no answer"},
            )
            for code, answer in answers.items()
        ]
    if sort == _NUMERIC:
        kind = "integer" if node.get("IsInteger") else "numeric"
        return [replace(plain, kind=kind, missing={NO_ANSWER: "no answer"})]
    why = (
        'a date: kind = "date" with min and max'
        if sort == _DATE
        else "free text: list its values or remove it"
    )
    return [replace(plain, no_answer=NO_ANSWER_TEXT, open_because=why)]


def _limit(variables: dict[str, Variable], left: list[Untranslated], name: str, text: str) -> None:
    """Take the range that a validation allows, if it is one."""
    variable = variables.get(name)
    if not text or variable is None:
        return
    try:
        if variable.kind not in ("integer", "numeric"):
            raise Untranslatable("it limits no range of numbers")
        own = re.sub(rf"\b{re.escape(name)}\b", "self", text)
        found = Translator(Dialect.CSHARP, variables).translate(own, own=variable)
        low, high = read_limits(found, whole=variable.kind == "integer")
    except Untranslatable as why:
        what = f"validation “{text}”"
        left.append(Untranslated(line=variable.line, name=name, what=what, why=str(why)))
        return
    variables[name] = replace(
        variable, low=variable.low if low is None else low, high=variable.high if high is None else high
    )
