"""One table of a schema file, read key by key with errors that name the place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from populace.core.errors import PopulaceError, SchemaError, UsageError
from populace.schema.bounded_parsing import parse_toml
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest

_E = TypeVar("_E", bound=Enum)
_HEADER = re.compile(r"\s*\[\s*columns\s*\.([^\"'\]]+)\]\s*(?:#.*)?")
_BARE = re.compile(r"\s*[A-Za-z0-9_-]+\s*")
_COMMAS = re.compile(r"([^=#]+)=\s*(-?[0-9]{1,3}(?:,[0-9]{3})+)\s*(?:#.*)?")
_QUOTED_TWICE = re.compile(r'\s*(when|universe)\s*=\s*"[^"]*"\s*[^\s#]')


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table of a schema file and its place there, such as `[columns.AGE]`.

    >>> TomlTable("[table]", {"max_rows": 10}).integer("max_rows")
    10
    """

    place: str
    items: Mapping[str, object]

    def __contains__(self, key: str) -> bool:
        return key in self.items

    def error(self, what: str, *, hint: str) -> SchemaError:
        """Return the refusal of the table for something that is wrong with it."""
        return SchemaError(f"{self.place}{'' if what.startswith(':') else ' '}{what}", hint=hint)

    def allow(self, keys: Iterable[str]) -> None:
        """Refuse keys that are not among those given."""
        known = list(keys)
        for key in self.items:
            if key in known:
                continue
            hint = suggest(key, known, otherwise="allowed here: " + ", ".join(known))
            raise self.error(f": unknown key {key!r}.", hint=hint)

    def table(self, key: str, *, place: str) -> TomlTable:
        """Return the table under a key; an empty one where the key is absent."""
        value = self.items.get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(f": {key} is not a table.", hint=f"write {place} on a line of its own")
        return TomlTable(place, value)

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables of a list such as `[[zeros]]`; none where the key is absent."""
        value = self.items.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise SchemaError(
                f"{key} is not a list of tables.",
                hint=f"write [[{key}]] on a line of its own for each of them",
            )
        return [TomlTable(f"[[{key}]] {number}", each) for number, each in enumerate(value, start=1)]

    def text(self, key: str) -> str | None:
        """Return the text under a key; numbers and booleans count as their text."""
        value = self.items.get(key)
        return None if value is None else self._as_text(key, value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the list of texts under a key; an empty one where the key is absent."""
        return tuple(self._as_text(key, value) for value in self._list(key))

    def lists(self, key: str, *, hint: str) -> tuple[tuple[str, ...], ...]:
        """Return the lists of texts under a key; none where the key is absent.

        >>> TomlTable("[table]", {"groups": [["SEX", "AGE"], ["STATE"]]}).lists("groups", hint="")
        (('SEX', 'AGE'), ('STATE',))
        """
        given = self._list(key)
        if not all(isinstance(part, list) for part in given):
            raise self.error(f": {key} is not a list of lists.", hint=hint)
        return tuple(TomlTable(self.place, {key: part}).texts(key) for part in given)

    def number(self, key: str) -> Fraction | None:
        """Return the number under a key, exactly."""
        value = self.items.get(key)
        return None if value is None else self._as_number(key, value)

    def numbers(self, key: str) -> tuple[Fraction, ...]:
        """Return the list of numbers under a key, exactly."""
        return tuple(self._as_number(key, value) for value in self._list(key))

    def integer(self, key: str) -> int | None:
        """Return the whole number under a key."""
        value = self.number(key)
        return None if value is None else self._as_integer(key, value)

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the list of whole numbers under a key."""
        return tuple(self._as_integer(key, value) for value in self.numbers(key))

    def boolean(self, key: str) -> bool:
        """Return the truth value under a key; false where the key is absent."""
        value = self.items.get(key, False)
        if not isinstance(value, bool):
            raise self.error(
                f": {key} holds {_short(value)}.", hint=f"write {key} = true, without quotes, or leave it out"
            )
        return value

    def choice(self, key: str, *, default: _E) -> _E:
        """Return the member of an enumeration that a key names."""
        value = self.items.get(key, default.value)
        members = [member.value for member in type(default)]
        if value in members:
            return type(default)(value)
        raise self.unknown_choice(key, members)

    def unknown_choice(self, key: str, known: Collection[str]) -> SchemaError:
        """Return the refusal of what a key names, which is none of those known."""
        value = self.items[key]
        hint = suggest(str(value), known, otherwise=f"choose one of {quote_names(known)}")
        return self.error(f": {key} is {_short(value)}.", hint=hint)

    def _list(self, key: str) -> list[object]:
        value = self.items.get(key, [])
        if not isinstance(value, list):
            raise self.error(f": {key} is not a list.", hint=f"write {key} = [ … ]")
        return value

    def _as_text(self, key: str, value: object) -> str:
        text = toml_text(value)
        if text is None:
            raise self.error(f": {key} holds something that is not a text.", hint="put it in quotes")
        return text

    def _as_number(self, key: str, value: object) -> Fraction:
        found = to_fraction(value)
        if found is None:
            raise self.error(
                f": {key} holds {_short(value)}, which is not a finite number.",
                hint="write a plain number, without quotes",
            )
        return found

    def _as_integer(self, key: str, value: Fraction) -> int:
        if value.denominator != 1:
            raise self.error(
                f": {key} holds {_short(float(value))}, which is not whole.",
                hint="give whole numbers",
            )
        return int(value)


def read_toml_table(
    text: str, *, name: str, hint: str, refuse: type[PopulaceError] = UsageError
) -> TomlTable:
    """Return a TOML text as a table; `name` says in messages which text it is. Numbers stay exact."""
    try:
        return TomlTable(name, parse_toml(text))
    except ValueError as error:
        suggested = suggest_toml_fix(text, error) or hint
        raise refuse(f"{name} is not valid TOML: {error}.", hint=suggested) from None


def toml_text(value: object) -> str | None:
    """Return a text, or a number, boolean, date or time as its text; None for anything else.

    >>> toml_text("a"), toml_text(7), toml_text(True), toml_text([])
    ('a', '7', 'true', None)
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, str | int | Decimal) else None


def suggest_toml_fix(text: str, error: Exception) -> str | None:
    """Return what is probably meant by a text that is no TOML, or None.

    >>> suggest_toml_fix("[columns.marital status]", ValueError("Expected ']' (at line 1, column 18)"))
    'quote a name with blanks or signs: [columns."marital status"]'
    >>> suggest_toml_fix("max = 500,000", ValueError("Expected newline (at line 1, column 10)"))
    'write thousands without commas: max = 500_000'
    """
    message = str(error)
    if twice := re.search(r"Cannot declare \('columns', (.*?),?\) twice", message):
        return f"column {twice[1]} is declared twice: keep one of the two tables"
    if "Cannot overwrite a value" in message:
        return "a key stands twice in its table: keep one of them"
    place = re.search(r"at line ([0-9]+)", message)
    lines = text.splitlines()
    line = lines[int(place[1]) - 1] if place and int(place[1]) <= len(lines) else ""
    if (header := _HEADER.fullmatch(line)) and not _BARE.fullmatch(header[1]):
        return f'quote a name with blanks or signs: [columns."{header[1].strip()}"]'
    if number := _COMMAS.fullmatch(line):
        return f"write thousands without commas: {number[1].strip()} = {number[2].replace(',', '_')}"
    if condition := _QUOTED_TWICE.match(line):
        return f'inside {condition[1]} = "…" use single quotes: {condition[1]} = "SEX == \'2\'"'
    return None


def _short(value: object) -> str:
    shown = str(value) if isinstance(value, int | Decimal) else repr(value)
    return shown if len(shown) <= 60 else shown[:59] + "…"
