"""Public facts about single units of a geography, such as a facility for one sex: a file named by `[geography]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from populace.core.array_types import Truth
from populace.core.errors import SchemaError
from populace.core.marginals import Domain
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.geocodes import GEOCODE, Geography, find_public_file, read_text_columns
from populace.schema.toml_table import TomlTable

_COLUMNS = ("when", "least", "most")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFact:
    """A unit has at least so many records in the cells that a condition names, or none at all where `least` is None."""

    level: int
    unit: int
    when: str
    least: int | None = None

    def form(self) -> list[object]:
        """Return the fact as plain JSON, for a digest."""
        return [self.level, self.unit, self.when, self.least]


def read_facts(
    document: TomlTable, *, geography: Geography | None, folder: Path | None
) -> tuple[UnitFact, ...]:
    """Return the facts that `[geography]` of a schema names: in a CSV or Parquet file, or listed row by row.

    A row has the ids of a unit, a condition `when`, and `most = 0` or `least = n`. The ids of finer levels are left
    empty where a fact is about a larger unit.
    """
    table = document.table("geography", place="[geography]")
    given = table.items.get("facts")
    if geography is None or given is None:
        return ()
    names = (*geography.levels, *_COLUMNS)
    if isinstance(given, str):
        rows = read_text_columns(
            find_public_file(table, given, folder=folder), names, place="[geography] facts"
        )
    elif isinstance(given, list) and all(isinstance(row, list) and len(row) == len(names) for row in given):
        rows = [tuple(map(str, row)) for row in given]
    else:
        raise SchemaError(
            "[geography]: facts is no file name.",
            hint='write facts = "facts.csv", a file of public facts about units',
        )
    units = {
        path: (level, number)
        for level in range(1, geography.spine.depth)
        for number, path in enumerate(geography.unit_paths(level))
    }
    found = []
    for number, (*ids, when, least, most) in enumerate(rows, start=1):
        place = f"[geography] facts, row {number}"
        path_given = tuple(ids)
        while path_given not in units and path_given and not path_given[-1]:
            path_given = path_given[:-1]
        if path_given not in units:
            raise SchemaError(
                f"{place}: there is no unit {'|'.join(ids)!r}.", hint="name units as the file of units does"
            )
        counts = (least.isascii() and least.isdigit() and not most) or (not least and most == "0")
        if not counts:
            raise SchemaError(
                f"{place}: least is {least!r} and most is {most!r}.",
                hint="write most = 0 where the cells cannot occur, or a whole number as least; leave the other empty",
            )
        level, unit = units[path_given]
        condition = str(parse_condition(when, place=f"{place}: "))
        found.append(UnitFact(level=level, unit=unit, when=condition, least=int(least) if least else None))
    return tuple(found)


def facts_to_rows(facts: Sequence[UnitFact], *, geography: Geography) -> list[list[str]]:
    """Return facts as the rows that `read_facts` takes."""
    found = []
    for fact in facts:
        path = geography.unit_paths(fact.level)[fact.unit]
        ids = [*path, *[""] * (len(geography.levels) - len(path))]
        found.append([*ids, fact.when, *(("", "0") if fact.least is None else (str(fact.least), ""))])
    return found


def check_facts(facts: Sequence[UnitFact], *, layout: ColumnLayout, invariants: Sequence[str]) -> None:
    """Refuse facts about columns that the schema does not have, and bounds that an exact total may contradict."""
    for fact in facts:
        place = f"[geography] facts, {fact.when!r}"
        condition = layout.condition(parse_condition(fact.when), place=place)
        if GEOCODE in condition.variables:
            raise SchemaError(
                f"{place}: it names a level of the geography.",
                hint="the ids of the row say which unit it is about",
            )
        if fact.least and invariants:
            raise SchemaError(
                f"{place}: a unit has at least {fact.least}, and totals are published exactly.",
                hint="take out least, or the [[invariants]]: the exact total of a unit may be smaller, and nobody can "
                "know before it is read",
            )


def fact_cells(fact: UnitFact, *, layout: ColumnLayout, domain: Domain) -> Truth:
    """Return the cells of a unit that a fact is about."""
    condition = layout.condition(parse_condition(fact.when), place="[geography] facts")
    codes = dict(zip(domain, np.indices(domain.shape(domain)), strict=True))
    return condition(codes)
