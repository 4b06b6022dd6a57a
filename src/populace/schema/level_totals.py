"""Public totals of a geography: `[[totals]]` by the units of a level, by columns, or by both.

They are known from elsewhere, so they cost nothing and change no promise. Estimates and tables have them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from populace.core.array_types import Ints
from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.exact_numbers import parse_number
from populace.schema.geocodes import Geography, find_public_file, read_text_columns
from populace.schema.hints import quote_names
from populace.schema.toml_table import TomlTable
from populace.schema.totals import find_code, find_semantics, read_count, read_lines
from populace.schema.unit_facts import UnitFact
from populace.schema.writer import format_value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LevelTotals:
    """Public counts of the units of a level, by some columns: (units, *codes). Level 0 is the whole table."""

    level: int
    clique: Clique
    counts: Ints

    def sum_to(self, geography: Geography, *, level: int, clique: Clique) -> Ints:
        """Return the counts of a wider level, or of some of the columns, in their order."""
        units = geography.spine.ancestors(level, of_level=self.level)
        summed = np.zeros((geography.spine.units(level), *self.counts.shape[1:]), dtype=np.int64)
        np.add.at(summed, units, self.counts)
        axes = [1 + self.clique.index(name) for name in clique]
        kept: Ints = summed.sum(axis=tuple(a for a in range(1, summed.ndim) if a not in axes))
        order = np.argsort(np.argsort(axes))
        return kept.transpose([0, *(1 + order)])

    def form(self) -> list[object]:
        """Return the totals as plain JSON, for a digest."""
        return [self.level, list(self.clique), self.counts.tolist()]


def read_level_totals(
    document: TomlTable, layout: ColumnLayout, *, folder: Path | None
) -> tuple[LevelTotals, ...]:
    """Return the public counts that `[[totals]]` of a schema with a geography declare."""
    return tuple(_read_table(table, layout, folder=folder) for table in document.tables("totals"))


def _read_table(table: TomlTable, layout: ColumnLayout, *, folder: Path | None) -> LevelTotals:
    """Return the public counts that one `[[totals]]` table declares; units and codes that it does not list have none.

    `counts` are written in the schema, or in a CSV or Parquet file with the columns of `by` and `count`.
    """
    geography = _geography(layout)
    table.allow(("by", "count", "counts"))
    by = table.texts("by")
    if len(set(by)) < len(by):
        raise table.error("names a column twice.", hint="name each column once")
    named = [name for name in geography.levels if name in by]
    clique = tuple(name for name in by if name not in named)
    scales = [find_semantics(name, layout, place=table.place) for name in clique]
    level = geography.spine.levels.index(named[-1]) if named else 0
    counts = np.zeros((geography.spine.units(level), *(scale.size for scale in scales)), dtype=np.int64)
    if counts.size > LIMITS.max_totals_cells:
        raise table.error(
            f"has {counts.size} cells; {LIMITS.max_totals_cells} is the most.",
            hint="name a wider level, or fewer columns",
        )
    units, repeated = geography.index_units(named)
    seen = set()
    for texts, count in _read_lines(table, by, folder=folder):
        ids = dict(zip(by, texts, strict=True))
        key = tuple(ids[name] for name in named)
        if key in repeated or key not in units:
            raise table.error(
                f": {quote_names(key)} is {'the id of several units' if key in repeated else 'no unit'}.",
                hint=f"name the wider levels as well: {quote_names(geography.levels[: max(0, level - 1)])}"
                if key in repeated
                else "write ids as the file of units does; leading zeros count",
            )
        codes = [find_code(scale, ids[scale.column.name], place=table.place) for scale in scales]
        cell = (units[key], *codes)
        if cell in seen:
            raise table.error(f"has {quote_names(texts)} twice.", hint="list each combination once")
        seen.add(cell)
        counts[cell] = count
    counts.setflags(write=False)
    return LevelTotals(level=level, clique=clique, counts=counts)


def _geography(layout: ColumnLayout) -> Geography:
    if layout.geography is None:
        raise SchemaError("totals of units have no geography.", hint="declare [geography], or give totals=")
    return layout.geography


def _read_lines(
    table: TomlTable, by: Clique, *, folder: Path | None
) -> Sequence[tuple[tuple[str, ...], int]]:
    given = table.items.get("counts")
    if isinstance(given, str):
        path = find_public_file(table, given, folder=folder)
        rows = read_text_columns(path, (*by, "count"), place=table.place)
        return [(tuple(texts), read_count(parse_number(count), place=table.place)) for *texts, count in rows]
    return list(read_lines(table, by))


def check_level_totals(
    totals: Sequence[LevelTotals],
    layout: ColumnLayout,
    *,
    invariants: Sequence[str],
    facts: Sequence[UnitFact],
) -> None:
    """Refuse totals that contradict each other, and beside them what they might contradict for some rows."""
    if not totals:
        return
    geography = _geography(layout)
    if invariants:
        raise SchemaError(
            "[[totals]] are declared beside [[invariants]]: both say how many there are, and nobody can know before "
            "the rows are read whether they agree.",
            hint="take out the invariants if the totals are public already, or the totals if they are not",
        )
    for one, other in combinations(totals, 2):
        level = min(one.level, other.level)
        shared = tuple(name for name in one.clique if name in other.clique)
        first, second = (each.sum_to(geography, level=level, clique=shared) for each in (one, other))
        if not np.array_equal(first, second):
            what = " × ".join([geography.spine.levels[level], *shared])
            raise SchemaError(
                f"two [[totals]] count {what!r} differently.",
                hint="all of them count the same rows: sums over units and other columns must be equal",
            )
    if facts and any(each.clique for each in totals):
        raise SchemaError(
            "[[totals]] by columns are declared beside facts about units.",
            hint="take out one of them: whether both can hold cannot be decided in general",
        )
    below = sorted({frozenset(each.clique) for each in totals if each.level}, key=len)
    for small, large in combinations(below, 2):
        if not small <= large:
            raise SchemaError(
                f"[[totals]] of units by {quote_names(sorted(small))} and by {quote_names(sorted(large))} overlap.",
                hint="below the whole table, columns of one must be among those of the other",
            )


def describe_level_totals(totals: LevelTotals, *, layout: ColumnLayout) -> str:
    """Return what is counted in public, such as `county × sex`; the level `all` is the whole table."""
    level = _geography(layout).spine.levels[totals.level]
    return " × ".join([*([level] if totals.level or not totals.clique else []), *totals.clique])


def format_level_totals(totals: LevelTotals, *, layout: ColumnLayout) -> str:
    """Return one `[[totals]]` table as TOML, without what counts nobody."""
    geography = _geography(layout)
    levels = geography.levels[: totals.level]
    by = (*levels, *totals.clique)
    lines = ["[[totals]]", f"by = {format_value(by)}"]
    if not by:
        return "\n".join([*lines, f"count = {int(totals.counts[0])}"]) + "\n"
    paths = geography.unit_paths(totals.level) if levels else [()]
    scales = [layout.view(name).scale for name in totals.clique]
    listed = []
    for unit, *codes in np.argwhere(totals.counts).tolist():
        texts = (*paths[unit], *(scale.text(code) for scale, code in zip(scales, codes, strict=True)))
        row: Mapping[str, str | int] = dict(zip(by, texts, strict=True)) | {
            "count": int(totals.counts[unit, *codes])
        }
        listed.append(f"    {format_value(row)},")
    return "\n".join([*lines, "counts = [", *listed, "]"]) + "\n"
