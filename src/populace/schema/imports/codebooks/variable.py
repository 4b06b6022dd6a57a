"""What a codebook says, whatever its format: variables, who is asked, and what could not be translated.

Only declarations count: choices, validation limits, skip logic. What somebody computed from rows (frequencies,
smallest and largest values) is never a domain; it is left open, and the draft says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from populace.schema.conditions.syntax_tree import Expression
from populace.schema.exact_numbers import parse_number
from populace.schema.imports.round_bins import decimal_bins, integer_bins

# What stands where a question was asked and nobody answered, where an empty cell means that it was not asked.
NO_ANSWER = ("-9", "-99", "-999", "-9999", "-99999", "-999999")
NO_ANSWER_WORD = "no answer"
NO_ANSWER_LABEL = "no answer, or not a declared value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable of a codebook.

    `kind` is that of a column, or None where the codebook does not say enough: then `open_because` says what is
    missing. Dates have their ends as ISO texts.
    """

    name: str
    line: int = 0
    label: str = ""
    description: str = ""
    kind: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    low: Fraction | str | None = None
    high: Fraction | str | None = None
    universe: Expression | None = None
    outside: str = ""
    """What a cell holds outside the universe; the empty text is an empty cell."""
    no_answer: str | None = None
    """What a cell holds inside the universe where nobody answered, where the format has a code for that."""
    may_be_empty: bool = True
    open_because: str = ""

    @property
    def is_open(self) -> bool:
        """Whether somebody has to fill in the domain."""
        return self.kind is None

    @property
    def empty_texts(self) -> tuple[str, ...]:
        """The texts of cells without an answer: not asked, or not answered."""
        if self.universe is None:
            own = self.no_answer
            return ("",) if own is None or own not in self.missing else ("", own)
        return tuple(dict.fromkeys((self.outside, self.other or "")))

    @property
    def other(self) -> str | None:
        """The code of everything that is not declared: an empty cell, unless that says that nobody asked."""
        if self.universe is None or self.outside:
            return None
        if self.no_answer is not None:
            return self.no_answer
        if self.missing:
            return next(iter(self.missing))
        if self.kind in ("date", "datetime", "time") or not _all_whole(self.choices):
            return NO_ANSWER_WORD
        low = self.low if isinstance(self.low, Fraction) else Fraction(0)
        free = [code for code in NO_ANSWER if code not in self.choices and int(code) < low]
        return free[0] if free else NO_ANSWER_WORD

    def keys(self) -> dict[str, Any]:
        """Return the keys of the column; none that say a domain where it is open."""
        keys: dict[str, Any] = {
            "label": self.label,
            "description": self.description,
            **({} if self.is_open else {"kind": self.kind, **self._domain(), "origin": "codebook"}),
        }
        missing = [code for code in self.missing if code not in self.choices]
        if self.universe is not None:
            keys |= {"universe": str(self.universe), "outside": self.outside}
        elif self.may_be_empty and not self.is_open and "" not in missing:
            missing.append("")
        labels = {code: label for code, label in {**self.choices, **self.missing}.items() if label}
        if (other := self.other) is not None:
            keys["other"] = other
            labels.setdefault(other, NO_ANSWER_LABEL)
        words = {code: label for code, label in labels.items() if label != code}
        if self.is_open:
            # Of what is left to fill in, the missing codes are known.
            words = {code: label for code, label in words.items() if code in missing}
        keys |= {"missing": missing, "labels": words}
        return {key: value for key, value in keys.items() if value or key in ("outside", "min")}

    def _domain(self) -> dict[str, Any]:
        if self.kind in ("categorical", "ordinal"):
            codes = [code for code in self.choices if code not in self.missing]
            whole = _all_whole({**self.choices, **self.missing, **({self.other: ""} if self.other else {})})
            return {"values": codes, **({"type": "integer"} if whole else {})}
        if isinstance(self.low, Fraction) and isinstance(self.high, Fraction):
            if self.kind == "integer":
                return integer_bins(int(self.low), int(self.high))
            return decimal_bins(self.low, self.high)
        width = {"date": "month", "datetime": "day", "time": "hour"}[str(self.kind)]
        return {"min": self.low, "max": self.high, "width": width}


@dataclass(frozen=True, slots=True, kw_only=True)
class Untranslated:
    """Something that a codebook says and a schema does not: in which line, about what, and why not."""

    line: int
    name: str
    what: str
    why: str

    def describe(self, source: str) -> str:
        """Return it in one sentence."""
        place = f"{source} line {self.line}" if self.line else source
        return f"{place}, {self.name}: {self.what} is not translated: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codebook:
    """The variables of a codebook in their order, what could not be translated, and combinations that cannot occur."""

    variables: tuple[Variable, ...]
    untranslated: tuple[Untranslated, ...] = ()
    zeros: tuple[tuple[int, str, Expression], ...] = ()
    """For each the line, the variable that it is about, and the condition under which no row can be."""
    id: str | None = None
    """The column that names the units, if the format has one."""


def number_or_none(text: object) -> Fraction | None:
    """Return a plain number, or None.

    >>> number_or_none(" 1.50 "), number_or_none("today")
    (Fraction(3, 2), None)
    """
    return parse_number(str(text).strip()) if text is not None else None


def _all_whole(codes: Mapping[str, str]) -> bool:
    numbers = [parse_number(code) for code in codes]
    return all(number is not None and number.denominator == 1 for number in numbers)
