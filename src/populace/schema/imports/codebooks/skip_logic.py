"""Skip logic and limits of questionnaires, translated into conditions of a schema, or refused.

Three dialects: REDCap's branching logic, XPath as XLSForm uses it, and the C# of Survey Solutions. A condition is
translated whole or not at all: half a universe would be another universe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from populace.schema.conditions import syntax_tree as syntax
from populace.schema.exact_numbers import parse_number
from populace.schema.imports.codebooks.variable import Variable

SELF = "."
"""The name under which a limit speaks of its own variable."""
MAX_LENGTH, MAX_DEPTH = 20_000, 30

_OPERATORS = {
    "=": syntax.Operator.EQUAL,
    "==": syntax.Operator.EQUAL,
    "!=": syntax.Operator.UNEQUAL,
    "<>": syntax.Operator.UNEQUAL,
    "<": syntax.Operator.BELOW,
    "<=": syntax.Operator.AT_MOST,
    ">": syntax.Operator.ABOVE,
    ">=": syntax.Operator.AT_LEAST,
}
_ALL, _ANY = ("and", "&&"), ("or", "||")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<field>\[[^\[\]]*\]|\$\{[^{}]*\})
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<operator><>|!=|<=|>=|==|=|<|>)
    | (?P<sign>&&|\|\||[!(),\-]|\.(?![A-Za-z]))
    | (?P<word>\.?[A-Za-z_][\w-]*)
    )""",
    re.VERBOSE,
)


class Dialect(Enum):
    """Whose skip logic it is."""

    REDCAP = "REDCap branching logic"
    XPATH = "XPath"
    CSHARP = "C#"


class Untranslatable(Exception):
    """What has no translation; the message says why."""


@dataclass(frozen=True, slots=True)
class _Literal:
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class _Field:
    variable: Variable


class Translator:
    """Translates the conditions of one questionnaire, whose variables it knows.

    >>> sex = Variable(name="sex", kind="categorical", choices={"1": "male", "2": "female"})
    >>> str(Translator(Dialect.REDCAP, {"sex": sex}).translate("[sex] = '2' and [sex] <> ''"))
    "sex == '2' and sex != ''"
    """

    def __init__(self, dialect: Dialect, variables: Mapping[str, Variable]) -> None:
        self._dialect = dialect
        self._variables = variables
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        self._depth = 0
        self._own: Variable | None = None

    def translate(self, text: str, *, own: Variable | None = None) -> syntax.Expression:
        """Return a condition of the schema; `own` is the variable that a limit speaks of."""
        if len(text) > MAX_LENGTH:
            raise Untranslatable("it is too long")
        self._tokens, self._next, self._depth, self._own = _tokenize(text), 0, 0, own
        found = self._parse_joined(_ANY, self._parse_all)
        if self._next < len(self._tokens):
            raise Untranslatable(f"“{self._tokens[self._next][1]}” is not understood there")
        return found

    def _parse_all(self) -> syntax.Expression:
        return self._parse_joined(_ALL, self._parse_part)

    def _parse_joined(self, words: Sequence[str], part: Callable[[], syntax.Expression]) -> syntax.Expression:
        parts = [part()]
        while self._peek()[1].lower() in words and self._peek()[0] in ("word", "sign"):
            self._next += 1
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        flat: list[syntax.Expression] = []
        for each in parts:
            if words is _ALL:
                flat += each.parts if isinstance(each, syntax.And) else (each,)
            else:
                flat += each.parts if isinstance(each, syntax.Or) else (each,)
        return syntax.And(tuple(flat)) if words is _ALL else syntax.Or(tuple(flat))

    def _parse_part(self) -> syntax.Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Untranslatable("it is nested too deeply")
        try:
            kind, text = self._peek()
            if (kind, text) == ("sign", "!"):
                self._next += 1
                return syntax.Not(self._parse_part())
            if kind == "word" and text.lower() == "not":
                self._next += 1
                self._expect("(")
                return syntax.Not(self._parse_closed())
            if (kind, text) == ("sign", "("):
                self._next += 1
                return self._parse_closed()
            if kind == "word" and self._peek(1) == ("sign", "("):
                return self._parse_call()
            return self._parse_comparison()
        finally:
            self._depth -= 1

    def _parse_closed(self) -> syntax.Expression:
        found = self._parse_joined(_ANY, self._parse_all)
        self._expect(")")
        return found

    def _parse_call(self) -> syntax.Expression:
        """Translate the calls that are tests themselves."""
        name = self._take()[1]
        self._expect("(")
        if self._dialect is Dialect.XPATH and name == "selected":
            field = self._parse_field()
            self._expect(",")
            return self._test_selected(field, self._parse_literal())
        if self._dialect is Dialect.CSHARP and name == "IsAnswered":
            field = self._parse_field()
            self._expect(")")
            return syntax.Not(self._test_empty(field.variable))
        raise Untranslatable(f"the function {name}() has no counterpart in a schema")

    def _test_selected(self, field: _Field, value: _Literal) -> syntax.Expression:
        self._expect(")")
        part = self._variables.get(f"{field.variable.name}/{value.text}")
        if part is not None:
            return _equal(part.name, "1")
        return self._compare(field, syntax.Operator.EQUAL, value)

    def _parse_comparison(self) -> syntax.Expression:
        left = self._parse_side()
        if isinstance(left, _Field) and self._peek()[0] == "word" and self._peek()[1].startswith("."):
            return self._parse_method(left)
        kind, text = self._take()
        if kind != "operator":
            raise Untranslatable(f"a comparison is expected before “{text}”" if text else "it ends too early")
        operator, right = _OPERATORS[text], self._parse_side()
        if isinstance(left, _Literal):
            if isinstance(right, _Literal):
                raise Untranslatable("two values are compared, and no variable")
            left, right, operator = right, left, operator.mirrored
        return self._compare(left, operator, right)

    def _parse_method(self, field: _Field) -> syntax.Expression:
        method = self._take()[1]
        self._expect("(")
        values = [self._parse_literal()]
        while self._peek() == ("sign", ","):
            self._next += 1
            values.append(self._parse_literal())
        self._expect(")")
        own = SELF if field.variable is self._own else field.variable.name
        if method == ".InList":
            return syntax.Membership(syntax.Name(own), tuple(syntax.Literal(each.text) for each in values))
        if method == ".InRange" and len(values) == 2:
            ends = zip((syntax.Operator.AT_LEAST, syntax.Operator.AT_MOST), values, strict=True)
            return syntax.And(tuple(self._compare(field, operator, value) for operator, value in ends))
        if method in (".Contains", ".ContainsAny"):
            names = [f"{field.variable.name}__{each.text}" for each in values]
            parts = tuple(_equal(name, "1") for name in names if name in self._variables)
            if len(parts) == len(names):
                return parts[0] if len(parts) == 1 else syntax.Or(parts)
        raise Untranslatable(f"the function {method[1:]}() has no counterpart in a schema")

    def _parse_side(self) -> _Field | _Literal:
        kind, text = self._peek()
        if kind in ("text", "number") or text == "-":
            return self._parse_literal()
        return self._parse_field()

    def _parse_literal(self) -> _Literal:
        kind, text = self._take()
        if text == "-" and kind == "sign":
            kind, text = self._take()
            text = f"-{text}"
        if kind == "text":
            return _Literal(text[1:-1], quoted=True)
        if kind != "number":
            raise Untranslatable(f"“{text}” is no plain value" if text else "it ends too early")
        return _Literal(text, quoted=False)

    def _parse_field(self) -> _Field:
        kind, text = self._take()
        if self._own is not None and text in (SELF, "self"):
            return _Field(self._own)
        wanted = "word" if self._dialect is Dialect.CSHARP else "field"
        if kind == "word" and self._peek() == ("sign", "("):
            raise Untranslatable(f"the function {text}() has no counterpart in a schema")
        if kind != wanted:
            raise Untranslatable(f"“{text}” is no variable" if text else "it ends too early")
        name = text.strip("[]${}").strip()
        if self._dialect is Dialect.REDCAP and (choice := re.fullmatch(r"(\w+)\(([^()]*)\)", name)):
            name = checkbox_column(choice[1], choice[2])
        if self._dialect is Dialect.REDCAP and self._peek()[0] == "field":
            raise Untranslatable("it speaks of another event")
        if name not in self._variables:
            raise Untranslatable(f"there is no variable “{name}” among the columns")
        return _Field(self._variables[name])

    def _compare(
        self, left: _Field, operator: syntax.Operator, right: _Field | _Literal
    ) -> syntax.Expression:
        own = left.variable is self._own
        name = syntax.Name(SELF if own else left.variable.name)
        if isinstance(right, _Field):
            return syntax.Comparison(name, operator, syntax.Name(right.variable.name))
        if right.text == "" and not operator.ordered and not own:
            empty = self._test_empty(left.variable)
            return empty if operator is syntax.Operator.EQUAL else _negate(empty)
        if operator.ordered and left.variable.kind == "categorical" and not own:
            return _list_codes(left.variable, operator, right.text)
        return syntax.Comparison(name, operator, syntax.Literal(right.text, quoted=right.quoted))

    def _test_empty(self, variable: Variable) -> syntax.Expression:
        texts = variable.empty_texts
        if len(texts) == 1:
            return _equal(variable.name, texts[0])
        return syntax.Membership(syntax.Name(variable.name), tuple(map(syntax.Literal, texts)))

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        kind, text = self._take()
        if (kind, text) != ("sign", sign):
            raise Untranslatable(f"“{sign}” is expected before “{text}”" if text else "it ends too early")


def checkbox_column(name: str, code: str) -> str:
    """Return the column of one box of a REDCap checkbox: lower case, and a minus sign as an underscore.

    >>> checkbox_column("race", "-1")
    'race____1'
    """
    return f"{name}___{code.strip().lower().replace('-', '_')}"


def read_limits(
    expression: syntax.Expression, *, whole: bool
) -> tuple[Fraction | str | None, Fraction | str | None]:
    """Return the smallest and the largest value that a limit allows; refuse what is no plain range.

    >>> number = syntax.Literal("17", quoted=False)
    >>> read_limits(syntax.Comparison(syntax.Name(SELF), syntax.Operator.ABOVE, number), whole=True)
    (Fraction(18, 1), None)
    """
    low: Fraction | str | None = None
    high: Fraction | str | None = None
    for part in expression.parts if isinstance(expression, syntax.And) else (expression,):
        if (
            not isinstance(part, syntax.Comparison)
            or part.left.name != SELF
            or not isinstance(part.right, syntax.Literal)
        ):
            raise Untranslatable("it is no plain range of the variable's own values")
        text, operator = part.right.text, part.operator
        number = parse_number(text)
        end: Fraction | str = text if number is None else number
        if operator in (syntax.Operator.BELOW, syntax.Operator.ABOVE):
            if not whole or not isinstance(end, Fraction):
                raise Untranslatable("an open end of a range of decimals is no end of a domain")
            end += 1 if operator is syntax.Operator.ABOVE else -1
        elif operator not in (syntax.Operator.AT_MOST, syntax.Operator.AT_LEAST):
            raise Untranslatable("it is no plain range of the variable's own values")
        if operator in (syntax.Operator.ABOVE, syntax.Operator.AT_LEAST):
            low = end
        else:
            high = end
    return low, high


def with_universe(variable: Variable, condition: syntax.Expression) -> Variable:
    """Return a variable that is asked only where a condition holds, beside the one it has."""
    if variable.universe is None:
        return replace(variable, universe=condition)
    return replace(variable, universe=join_conditions([variable.universe, condition]))


def join_conditions(conditions: Sequence[syntax.Expression]) -> syntax.Expression:
    """Return the condition that all of some hold, each said once."""
    parts: dict[syntax.Expression, None] = {}
    for each in conditions:
        parts.update(dict.fromkeys(each.parts if isinstance(each, syntax.And) else (each,)))
    return next(iter(parts)) if len(parts) == 1 else syntax.And(tuple(parts))


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            raise Untranslatable(f"“{text[place:].strip()[:1]}” is not understood there")
        tokens.append((found.lastgroup, found[found.lastgroup]))
        place = found.end()
    return tokens


def _list_codes(variable: Variable, operator: syntax.Operator, limit: str) -> syntax.Expression:
    """Return a comparison of choices by their numbers as a list of those that meet it: choices have no order."""
    end = parse_number(limit)
    numbers = {code: parse_number(code) for code in variable.choices if code not in variable.missing}
    if end is None or any(number is None for number in numbers.values()):
        raise Untranslatable(f"the choices of “{variable.name}” are no numbers, and have no order")
    compare: Mapping[syntax.Operator, Callable[[Fraction], bool]] = {
        syntax.Operator.BELOW: lambda number: number < end,
        syntax.Operator.AT_MOST: lambda number: number <= end,
        syntax.Operator.ABOVE: lambda number: number > end,
        syntax.Operator.AT_LEAST: lambda number: number >= end,
    }
    chosen = [code for code, number in numbers.items() if number is not None and compare[operator](number)]
    if not chosen:
        raise Untranslatable(f"no choice of “{variable.name}” is {operator} {limit}")
    return syntax.Membership(syntax.Name(variable.name), tuple(map(syntax.Literal, chosen)))


def _equal(name: str, text: str) -> syntax.Comparison:
    return syntax.Comparison(syntax.Name(name), syntax.Operator.EQUAL, syntax.Literal(text))


def _negate(expression: syntax.Expression) -> syntax.Expression:
    if isinstance(expression, syntax.Comparison) and expression.operator is syntax.Operator.EQUAL:
        return replace(expression, operator=syntax.Operator.UNEQUAL)
    return syntax.Not(expression)
