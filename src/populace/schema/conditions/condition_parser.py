"""From the text of a condition to its syntax tree; whatever is wrong is shown with a caret below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.exact_numbers import NUMBER_PATTERN, parse_number

# Around the caret at most this much of the text is shown on either side.
_SHOWN = 60


_Kind = Enum("_Kind", "TEXT NAME NUMBER OPERATOR SIGN WORD END")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str
    place: int

    def __str__(self) -> str:
        return "the end" if self.kind is _Kind.END else repr(self.text)


_BLANK = re.compile(r"\s+")
_TOKENS = (
    (_Kind.TEXT, re.compile(r"'(?:[^']|'')*'")),
    (_Kind.NAME, re.compile(r"`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"")),
    (_Kind.NUMBER, re.compile(NUMBER_PATTERN)),
    (_Kind.OPERATOR, re.compile("[=!<>]=|[<>]")),
    (_Kind.SIGN, re.compile(r"[()\[\],]")),
    # With a number behind a point it is the column of the member in that place of a unit.
    (_Kind.WORD, re.compile(rf"{syntax.BARE_NAME.pattern}(?:\.[1-9][0-9]*(?!\w))?")),
)
_HINTS = {
    "'": "close the text with another quotation mark; inside a text it is written twice",
    '"': "close the column's name with another quotation mark",
    "`": "close the column's name with another backquote",
    "=": "write == to compare",
    "!": "write != to compare, or not",
    "&": "write and",
    "|": "write or",
    "~": "write not",
    "{": "a list stands in square brackets",
}
_SWAPPED = {"=>": "did you mean >=?", "=<": "did you mean <=?"}
# What stands together without a blank, and what in it is a date or a time.
_RUN = re.compile(r"[^\s'\"`()\[\],=!<>]+")
_DATE = re.compile(r"[0-9]+(?:[-/.:][0-9]+)+")


def parse_condition(text: str, *, place: str = "") -> syntax.Expression:
    """Return the syntax tree of a condition; `str` of it is the same condition in its canonical form.

    `place` says at the beginning of messages where it stands.

    >>> str(parse_condition("(AGEP<15)and MSP not in['N' ,  7]"))
    "AGEP < 15 and MSP not in ['N', 7]"
    """
    if len(text) > LIMITS.max_condition_length:
        raise SchemaError(
            f"{place}a condition has {len(text)} characters; {LIMITS.max_condition_length} is the most.",
            hint="write it shorter",
        )
    return _Parser(text, place=place).parse()


def condition_columns(expression: syntax.Expression) -> tuple[str, ...]:
    """Return the names of the columns in a condition, each once, in the order they are named.

    >>> condition_columns(parse_condition("AGEP < 15 and MSP != 'N' or AGEP > `age of mother`"))
    ('AGEP', 'MSP', 'age of mother')
    """
    return tuple(dict.fromkeys(name for atom in condition_atoms(expression) for name in atom_columns(atom)))


def condition_atoms(expression: syntax.Expression) -> Iterator[syntax.Atom]:
    """Return the tests that a condition is made of, from left to right."""
    if isinstance(expression, syntax.Not):
        yield from condition_atoms(expression.part)
    elif isinstance(expression, syntax.And | syntax.Or):
        for part in expression.parts:
            yield from condition_atoms(part)
    else:
        yield expression


def atom_columns(atom: syntax.Atom) -> tuple[str, ...]:
    """Return the names of the columns that one test looks at."""
    if not isinstance(atom, syntax.Comparison):
        return (atom.column.name,)
    return (atom.left.name, *([atom.right.name] if isinstance(atom.right, syntax.Name) else []))


class _Parser:
    def __init__(self, text: str, *, place: str) -> None:
        self._text = text
        self._place = place
        self._tokens = self._tokenize()
        self._next = 0
        self._depth = 0

    def parse(self) -> syntax.Expression:
        found = self._parse_or()
        token = self._tokens[self._next]
        if token.kind is not _Kind.END:
            hint = self._quoting_hint(token.place) or "join conditions with and, or"
            if token.kind is _Kind.OPERATOR:
                hint = "compare two things at a time: 0 <= A and A < 9"
            raise self._error(f"{token} is one too many", token.place, hint=hint)
        return found

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        place = 0
        while True:
            blank = _BLANK.match(self._text, place)
            place = blank.end() if blank else place
            if place == len(self._text):
                return [*tokens, _Token(_Kind.END, "", place)]
            kind, match = self._first_match(place)
            tokens.append(_Token(kind, match.group(), place))
            place = match.end()

    def _first_match(self, place: int) -> tuple[_Kind, re.Match[str]]:
        for kind, pattern in _TOKENS:
            if match := pattern.match(self._text, place):
                return kind, match
        sign = self._text[place]
        hint = (
            _SWAPPED.get(self._text[place : place + 2])
            or _HINTS.get(sign)
            or self._quoting_hint(place)
            or "a condition is made of columns, values, comparisons, and, or, not"
        )
        raise self._error(f"{sign!r} has no meaning here", place, hint=hint)

    def _quoting_hint(self, place: int) -> str | None:
        """Return a hint where a name or a date without its quotes was read as several things."""
        for run in _RUN.finditer(self._text):
            if run.start() <= place < run.end() and _DATE.match(run.group()):
                return f"dates and times stand in single quotes: '{run.group()}'"
            if run.start() < place < run.end() and syntax.BARE_NAME.match(run.group()):
                return f"write {syntax.Name(run.group())} in backquotes if it is a column"
        return None

    def _parse_or(self) -> syntax.Expression:
        def parse_and() -> syntax.Expression:
            return self._parse_joined("and", self._parse_part, syntax.And)

        return self._parse_joined("or", parse_and, syntax.Or)

    def _parse_joined(
        self, word: str, part: Callable[[], syntax.Expression], node: type[syntax.And | syntax.Or]
    ) -> syntax.Expression:
        parts: list[syntax.Expression] = []
        while True:
            found = part()
            # Grouping does not matter among equals: (a and b) and c is a and b and c.
            parts += found.parts if isinstance(found, node) else [found]
            if not self._accept(word):
                return parts[0] if len(parts) == 1 else node(tuple(parts))

    def _parse_part(self) -> syntax.Expression:
        token = self._tokens[self._next]
        if self._depth > LIMITS.max_condition_depth:
            raise self._error("the condition is nested too deeply", token.place, hint="write it flatter")
        self._depth += 1
        try:
            if self._accept("not"):
                found = self._parse_part()
                return found.part if isinstance(found, syntax.Not) else syntax.Not(found)
            if self._accept("("):
                found = self._parse_or()
                self._expect(")", hint="close the parenthesis")
                return found
            return self._parse_test()
        finally:
            self._depth -= 1

    def _parse_test(self) -> syntax.Expression:
        token = self._tokens[self._next]
        left = self._parse_side()
        if isinstance(left, syntax.Name):
            if self._accept("is"):
                negated = self._accept("not")
                self._expect("missing", hint="write is missing or is not missing; compare values with ==")
                return syntax.Not(syntax.Missing(left)) if negated else syntax.Missing(left)
            negated = self._accept("not")
            if self._accept("in"):
                member = syntax.Membership(left, self._parse_list())
                return syntax.Not(member) if negated else member
            if negated:
                raise self._error(
                    "not stands between a column and no list", token.place, hint="write not in [ … ]"
                )
        return self._parse_comparison(left, token)

    def _parse_comparison(self, left: syntax.Name | syntax.Literal, start: _Token) -> syntax.Expression:
        token = self._tokens[self._next]
        if token.kind is not _Kind.OPERATOR:
            hint = "write one of == != < <= > >=, in [ … ], is missing"
            if isinstance(left, syntax.Name) and token.kind is _Kind.WORD and token.text not in syntax.WORDS:
                hint = f"write `{left.name} {token.text}` in backquotes if it is a column, or a comparison between"
            raise self._error(
                f"a comparison is missing before {token}",
                token.place,
                hint=self._quoting_hint(token.place) or hint,
            )
        self._next += 1
        operator, right = syntax.Operator(token.text), self._parse_side()
        if isinstance(left, syntax.Name):
            return syntax.Comparison(left, operator, right)
        if isinstance(right, syntax.Name):
            return syntax.Comparison(right, operator.mirrored, left)
        raise self._error("two values are compared, and no column", start.place, hint=_QUOTES)

    def _parse_side(self) -> syntax.Name | syntax.Literal:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind is _Kind.TEXT:
            return syntax.Literal(token.text[1:-1].replace("''", "'"))
        if token.kind is _Kind.NUMBER:
            if parse_number(token.text) is None:
                raise self._error("the number is too large", token.place, hint="write a finite number")
            return syntax.Literal(token.text, quoted=False)
        if token.kind is _Kind.NAME:
            mark = token.text[0]
            return syntax.Name(token.text[1:-1].replace(mark * 2, mark))
        if token.kind is _Kind.WORD and token.text not in syntax.WORDS:
            return syntax.Name(token.text)
        raise self._error(f"a column or a value is missing before {token}", token.place, hint=_QUOTES)

    def _parse_list(self) -> tuple[syntax.Literal, ...]:
        self._expect("[", hint="write the values in square brackets")
        values = []
        while True:
            token = self._tokens[self._next]
            value = self._parse_side()
            if isinstance(value, syntax.Name):
                raise self._error(f"{token} in a list is not a value", token.place, hint=_QUOTES)
            values.append(value)
            if not self._accept(","):
                self._expect("]", hint="part the values with commas and close the bracket")
                return tuple(dict.fromkeys(values))

    def _accept(self, text: str) -> bool:
        token = self._tokens[self._next]
        taken = token.kind in (_Kind.WORD, _Kind.SIGN) and token.text == text
        self._next += taken
        return taken

    def _expect(self, text: str, *, hint: str) -> None:
        if not self._accept(text):
            token = self._tokens[self._next]
            raise self._error(f"{text!r} is missing before {token}", token.place, hint=hint)

    def _error(self, message: str, place: int, *, hint: str) -> SchemaError:
        return SchemaError(f"{self._place}{message}:\n{point_at(self._text, place)}", hint=hint)


_QUOTES = "texts stand in single quotes, columns bare or in backquotes"


def point_at(text: str, place: int) -> str:
    """Return the text around a place, and a caret below the place.

    >>> print(point_at("A = 1", 2))
      A = 1
        ^
    """
    start = max(0, place - _SHOWN)
    before, after = text[start:place], text[place : place + _SHOWN]
    shown = "".join(sign if sign.isprintable() else "�" for sign in before + after)
    cut = "…" if start else ""
    return f"  {cut}{shown}\n  {' ' * (len(before) + len(cut))}^"
