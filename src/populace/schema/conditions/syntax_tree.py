"""A small language for conditions on one row, as a syntax tree and never as code that runs.

::

    condition  =  all { "or" all }
    all        =  part { "and" part }
    part       =  "not" part  |  "(" condition ")"  |  test
    test       =  side ("==" | "!=" | "<" | "<=" | ">" | ">=") side
               |  column ["not"] "in" "[" literal { "," literal } "]"
               |  column "is" ["not"] "missing"
    side       =  column | literal          (at least one of the two is a column)
    column     =  NAME  |  `name`  |  "name"
    literal    =  'text'  |  number         (a quotation mark inside its own kind of quotes is written twice)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

BARE_NAME = re.compile(r"[^\W\d]\w*")
WORDS = ("and", "or", "not", "in", "is", "missing")


class Operator(StrEnum):
    """The comparisons."""

    EQUAL = "=="
    UNEQUAL = "!="
    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="

    @property
    def ordered(self) -> bool:
        """Whether the comparison asks for an order, not only for equality."""
        return self not in (Operator.EQUAL, Operator.UNEQUAL)

    @property
    def mirrored(self) -> Operator:
        """The comparison that says the same with its sides swapped."""
        return Operator(self.translate(str.maketrans("<>", "><")))


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    name: str

    def __str__(self) -> str:
        bare = BARE_NAME.fullmatch(self.name) and self.name not in WORDS
        return self.name if bare else "`" + self.name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as it was written: a number bare, a text in quotes."""

    text: str
    quoted: bool = True

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'" if self.quoted else self.text


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal or with another column."""

    left: Name
    operator: Operator
    right: Name | Literal

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether a column has one of some values."""

    column: Name
    values: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"{self.column} in {self.listed}"

    @property
    def listed(self) -> str:
        """The values as they are written."""
        return f"[{', '.join(map(str, self.values))}]"


@dataclass(frozen=True, slots=True)
class Missing:
    """Whether a column has a user-missing code, or the code for everything else where that is no value."""

    column: Name

    def __str__(self) -> str:
        return f"{self.column} is missing"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Expression

    def __str__(self) -> str:
        if isinstance(self.part, Membership):
            return f"{self.part.column} not in {self.part.listed}"
        if isinstance(self.part, Missing):
            return f"{self.part.column} is not missing"
        return f"not {_inside(self.part, And, Or)}"


@dataclass(frozen=True, slots=True)
class And:
    """All of some conditions."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " and ".join(_inside(part, And, Or) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of some conditions."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " or ".join(_inside(part, Or) for part in self.parts)


Atom: TypeAlias = Comparison | Membership | Missing
Expression: TypeAlias = Atom | Not | And | Or


def _inside(part: Expression, *lower: type[And | Or]) -> str:
    return f"({part})" if isinstance(part, lower) else str(part)
