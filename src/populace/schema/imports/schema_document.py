"""A schema in the making: the tables of a schema file as plain data, and their text.

Nothing is checked here; `Schema.parse` reads the text and says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from populace.schema.writer import format_key, format_value

Keys = Mapping[str, Any]
"""The keys of one table: texts, whole numbers, fractions, lists of those, tables of texts."""

_WIDEST = 110
# The order in which a person reads a column: its domain, then what lies outside it, then words.
_ORDER = (
    *("label", "description"),
    *("kind", "type", "values", "min", "max", "width", "edges", "bins", "top", "bottom", "split", "decimals"),
    *("function_of", "parent", "universe", "outside", "missing", "other", "origin", "labels", "map"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDocument:
    """The tables of a schema file, and a remark for each column that has one.

    >>> print(SchemaDocument(columns={"AGE": {"kind": "integer", "min": 0}}, notes={"AGE": "in years"}).text(), end="")
    # in years
    [columns.AGE]
    kind = "integer"
    min = 0
    """

    columns: Mapping[str, Keys]
    table: Keys = field(default_factory=dict)
    zeros: tuple[Keys, ...] = ()
    totals: tuple[Keys, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)
    """Comments behind keys of `[table]`."""
    remarks: tuple[str, ...] = ()
    """What whoever makes the schema should hear, and its readers need not."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each column was declared, in words."""

    def text(self, *, heading: str = "") -> str:
        """Return the document as TOML, remarks as comments."""
        parts = [_comment(heading)] if heading else []
        if self.table:
            parts.append(_table("[table]", ("table",), self.table, comments=self.asked))
        for name, keys in self.columns.items():
            header = f"[{format_key('columns', name)}]"
            parts.append(_comment(self.notes.get(name, "")) + _table(header, ("columns", name), keys))
        for key, entries in (("zeros", self.zeros), ("totals", self.totals)):
            parts += [_table(f"[[{key}]]", (key,), entry) for entry in entries]
        return "\n".join(parts)


def _table(
    header: str, path: tuple[str, ...], keys: Keys, *, comments: Mapping[str, str] | None = None
) -> str:
    """Return one table; what is too long for a line becomes a list over several, or a table of its own."""
    lines, later = [header], []
    ordered = sorted(
        keys.items(), key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)
    )
    for key, value in ordered:
        line = f"{format_key(key)} = {format_value(value)}"
        if len(line) <= _WIDEST:
            comment = (comments or {}).get(key)
            lines.append(f"{line}  # {comment}" if comment else line)
        elif isinstance(value, Mapping):
            rows = [f"{format_key(inner)} = {format_value(item)}" for inner, item in value.items()]
            later += [f"[{format_key(*path, key)}]", *rows]
        elif isinstance(value, list | tuple):
            lines += [f"{format_key(key)} = [", *_wrap_items([format_value(item) for item in value]), "]"]
        else:
            lines.append(line)
    return "\n".join([*lines, *later]) + "\n"


def _wrap_items(items: list[str]) -> list[str]:
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) + 2 > _WIDEST:
            lines.append(line)
            line = ""
        line += f"{' ' if line else '  '}{item},"
    return [*lines, line]


def _comment(text: str) -> str:
    plain = ["".join(sign if sign.isprintable() else " " for sign in line) for line in text.splitlines()]
    return "".join(f"# {line}\n" if line.strip() else "#\n" for line in plain)
