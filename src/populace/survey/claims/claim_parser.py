"""From the text of a claim to what it says; whatever is wrong is shown with a caret below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.conditions.condition_parser import parse_condition, point_at
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import suggest
from populace.schema.schema import Schema
from populace.survey.claims.claim_syntax import (
    Assertion,
    Combination,
    Inequality,
    Quantity,
    Rank,
    Statistic,
    Variable,
)

_RANKS = {"largest": True, "smallest": False}
_WORDS = (*(each.value for each in Statistic), *_RANKS)
_TOKEN = re.compile(
    r"\s*(?:(?P<call>[^\W\d]\w*)\s*\(|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(?P<percent>%)?"
    r"|(?P<text>'(?:[^']|'')*')|(?P<operator>[<>]=?|==?)|(?P<sign>[-+*]))"
)
# What stands in quotes or backquotes is passed over as a whole.
_QUOTED = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"")
_SINGLE_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_EXAMPLE = "mean(income | sex == 'f') < mean(income | sex == 'm')"


def parse_claim(text: str, *, schema: Schema, place: str = "") -> Assertion:
    """Return what a claim says; conditions in it are those of the schema's language.

    `place` says at the beginning of messages where it stands. A single = in a condition is read as ==, and a value of
    a column may stand without quotes where no column has its name.

    >>> schema = Schema.from_sizes({"AGE": 100, "SEX": 2})
    >>> str(parse_claim("2*share(AGE>=65|SEX = 1)<0.5 + 10 %", schema=schema))
    '2 * share(AGE >= 65 | SEX == 1) < 0.6'
    """
    if len(text) > LIMITS.max_condition_length:
        raise SchemaError(
            f"{place}a claim has {len(text)} characters; {LIMITS.max_condition_length} is the most.",
            hint="write it shorter",
        )
    return _ClaimParser(text, schema=schema, place=place).parse()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    start: int
    inner: str = ""
    inner_start: int = 0


class _ClaimParser:
    def __init__(self, text: str, *, schema: Schema, place: str) -> None:
        self._text = text
        self._schema = schema
        self._place = place
        self._tokens = list(self._tokenize())
        self._next = 0

    def parse(self) -> Assertion:
        token = self._tokens[0]
        if token.kind == "call" and token.text in _RANKS:
            return self._parse_rank()
        left = self._parse_sum()
        token = self._tokens[self._next]
        if token.kind == "end":
            return left
        if token.kind != "operator":
            raise self._error(
                f"{token.text!r} is one too many", token.start, hint=f"a claim reads {_EXAMPLE}"
            )
        if token.text in ("=", "=="):
            raise self._error(
                "statistics of noisy rows are never exactly equal",
                token.start,
                hint='leave out the right side and say how close it must be: within = "5 %" and value = …',
            )
        self._next += 1
        found = Inequality(left=left, operator=syntax.Operator(token.text), right=self._parse_sum())
        self._expect_end()
        if not found.excess.terms:
            raise self._error("numbers are compared, and no statistic", token.start, hint=f"write {_EXAMPLE}")
        return found

    def _tokenize(self) -> Iterator[_Token]:
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            start = place + len(self._text[place:]) - len(self._text[place:].lstrip())
            if match is None:
                raise self._error(
                    f"{self._text[start]!r} has no meaning here", start, hint=f"a claim reads {_EXAMPLE}"
                )
            kind, place = str(match.lastgroup), match.end()
            if kind == "call":
                end = self._find_close(place, opened=start)
                inner = self._text[place:end]
                yield _Token(kind=kind, text=match["call"], start=start, inner=inner, inner_start=match.end())
                place = end + 1
            elif match["number"] is not None:
                yield _Token(kind="number", text=match["number"] + (match["percent"] or ""), start=start)
            else:
                yield _Token(kind=kind, text=match[kind], start=start)
        yield _Token(kind="end", text="the end", start=len(self._text))

    def _find_close(self, place: int, *, opened: int) -> int:
        depth = 1
        for at in _plain_places(self._text, start=place):
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            if not depth:
                return at
        raise self._error("the parenthesis is not closed", opened, hint="close it with )")

    def _parse_sum(self) -> Combination:
        found, sign = Combination(), self._accept_sign("-")
        while True:
            term = self._parse_term()
            found = found - term if sign else found - (Combination() - term)
            token = self._tokens[self._next]
            if token.kind != "sign" or token.text == "*":
                return found
            sign = token.text == "-"
            self._next += 1

    def _accept_sign(self, sign: str) -> bool:
        token = self._tokens[self._next]
        taken = token.kind == "sign" and token.text == sign
        self._next += taken
        return taken

    def _parse_term(self) -> Combination:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            number = parse_number(token.text.rstrip("% "))
            if number is None:
                raise self._error("the number is too large", token.start, hint="write a finite number")
            number = number / 100 if token.text.endswith("%") else number
            if not self._accept_sign("*"):
                return Combination(constant=number)
            token = self._tokens[self._next]
            self._next += 1
            if token.kind == "call":
                return Combination(terms=((number, self._parse_quantity(token)),))
        if token.kind == "call":
            return Combination(terms=((Fraction(1), self._parse_quantity(token)),))
        raise self._error(
            f"a statistic or a number is missing before {token.text!r}",
            token.start,
            hint=f"a claim reads {_EXAMPLE}",
        )

    def _parse_quantity(self, token: _Token) -> Quantity:
        if token.text not in _WORDS or token.text in _RANKS:
            known = [each.value for each in Statistic]
            hint = suggest(token.text, known, otherwise=f"choose one of {', '.join(known)}")
            if token.text in _RANKS:
                hint = f"a rank stands alone: {token.text}(work | age < 30) == 'employed'"
            raise self._error(f"there is no statistic {token.text!r}", token.start, hint=hint)
        statistic = Statistic(token.text)
        asked, where = self._split_given(token)
        if statistic is Statistic.COUNT:
            if where is not None:
                raise self._error(
                    "a count has one condition", token.start, hint="write count(age >= 65 and sex == 'f')"
                )
            return Quantity(statistic=statistic, where=self._parse_where(asked) if asked.strip() else None)
        pieces = self._split_variables(statistic, asked, token)
        variables = tuple(self._parse_variable(piece, statistic, token) for piece in pieces)
        if len(set(variables)) < len(variables):
            raise self._error("a variable is named twice", token.start, hint="name each once")
        return Quantity(
            statistic=statistic,
            variables=variables,
            where=None if where is None else self._parse_where(where),
        )

    def _split_given(self, token: _Token) -> tuple[str, str | None]:
        bars = [at for at in _plain_places(token.inner) if token.inner[at] == "|"]
        if len(bars) > 1:
            raise self._error(
                "| stands twice", token.inner_start + bars[1], hint="write or between two conditions"
            )
        if not bars:
            return token.inner, None
        return token.inner[: bars[0]], token.inner[bars[0] + 1 :]

    def _split_variables(self, statistic: Statistic, asked: str, token: _Token) -> list[str]:
        if statistic is Statistic.COEFFICIENT:
            outcome, *others = _split(asked, "~")
            if len(others) != 1:
                raise self._error(
                    "a coefficient needs an outcome and what explains it",
                    token.start,
                    hint="write coefficient(income ~ age + (sex == 'f') | age >= 25): that of age",
                )
            return [outcome, *_split(others[0], "+")]
        pieces = _split(asked, ",")
        wanted = 2 if statistic is Statistic.CORRELATION else 1
        if len(pieces) != wanted:
            hint = (
                "write correlation(age, income)" if wanted == 2 else f"write {statistic}(income | age >= 25)"
            )
            raise self._error(
                f"{statistic} takes {wanted} variable{'s' if wanted > 1 else ''}", token.start, hint=hint
            )
        return pieces

    def _parse_variable(self, piece: str, statistic: Statistic, token: _Token) -> Variable:
        text = piece.strip()
        bare = syntax.BARE_NAME.fullmatch(text) and text not in syntax.WORDS
        quoted = _QUOTED.fullmatch(text) and text[0] in '`"'
        if not bare and not quoted:
            if not text:
                raise self._error("a variable is missing", token.start, hint=f"write {statistic}(income)")
            return Variable(that=self._parse_where(text))
        name = text[1:-1].replace(text[0] * 2, text[0]) if quoted else text
        if name not in self._schema.columns:
            raise self._error(
                f"there is no column {name!r}",
                token.start,
                hint=suggest(name, self._schema.columns, otherwise="name a column of the schema"),
            )
        if statistic is Statistic.SHARE:
            raise self._error(
                f"a share is that of a condition, and {text} is a column",
                token.start,
                hint=f"write share({text} == … ), or mean({text}) for a column of numbers",
            )
        return Variable(column=name)

    def _parse_where(self, text: str) -> str:
        expression = parse_condition(
            _double_equals(text.strip()), place=f"{self._place}in {self._text.strip()[:60]!r}: "
        )
        return str(_quote_values(expression, schema=self._schema))

    def _parse_rank(self) -> Rank:
        token = self._tokens[0]
        asked, where = self._split_given(token)
        hint = f"write {token.text}(work | age < 30) == 'employed'"
        variable = self._parse_variable(asked, Statistic.MEAN, token)
        if variable.column is None:
            raise self._error("a rank is that of a value of a column", token.start, hint=hint)
        operator, value = (*self._tokens[1:3], token)[:2]
        if (
            operator.kind != "operator"
            or operator.text not in ("=", "==")
            or value.kind not in ("text", "number")
        ):
            raise self._error("a rank says which value it is", operator.start, hint=hint)
        self._next = 3
        self._expect_end()
        text = value.text[1:-1].replace("''", "'") if value.kind == "text" else value.text
        return Rank(
            column=variable.column,
            value=text,
            largest=_RANKS[token.text],
            where=None if where is None else self._parse_where(where),
        )

    def _expect_end(self) -> None:
        token = self._tokens[self._next]
        if token.kind != "end":
            raise self._error(
                f"{token.text!r} is one too many", token.start, hint=f"a claim reads {_EXAMPLE}"
            )

    def _error(self, message: str, place: int, *, hint: str) -> SchemaError:
        return SchemaError(f"{self._place}{message}:\n{point_at(self._text, place)}", hint=hint)


def _plain_places(text: str, *, start: int = 0) -> Iterator[int]:
    """Yield the places of a text that are not in quotes."""
    while start < len(text):
        if quoted := _QUOTED.match(text, start):
            start = quoted.end()
        else:
            yield start
            start += 1


def _split(text: str, sign: str) -> list[str]:
    """Return the parts of a text between signs that are neither in quotes nor in parentheses or brackets.

    >>> _split("a, [b, c], 'd,e'", ",")
    ['a', ' [b, c]', " 'd,e'"]
    """
    parts, depth, begun = [], 0, 0
    for at in _plain_places(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[at], 0)
        if text[at] == sign and not depth:
            parts.append(text[begun:at])
            begun = at + 1
    return [*parts, text[begun:]]


def _double_equals(text: str) -> str:
    """Return a condition with == for every single =.

    >>> _double_equals("a = 'x=y' and b<=3")
    "a == 'x=y' and b<=3"
    """
    plain = set(_plain_places(text))
    return _SINGLE_EQUALS.sub(lambda found: "==" if found.start() in plain else "=", text)


def _quote_values(expression: syntax.Expression, *, schema: Schema) -> syntax.Expression:
    """Return a condition in which a bare word that is no column, but a value of the column beside it, is that value."""
    if isinstance(expression, syntax.Not):
        return replace(expression, part=_quote_values(expression.part, schema=schema))
    if isinstance(expression, syntax.And | syntax.Or):
        return replace(
            expression, parts=tuple(_quote_values(each, schema=schema) for each in expression.parts)
        )
    if not isinstance(expression, syntax.Comparison) or not isinstance(expression.right, syntax.Name):
        return expression
    word, column = expression.right.name, schema.columns.get(expression.left.name)
    if word in schema.columns or column is None or schema.layout.view(column.name).scale.code(word) is None:
        return expression
    return replace(expression, right=syntax.Literal(word))
