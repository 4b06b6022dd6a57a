"""Public totals: `[[totals]]` of a schema file, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_ESTIMATE_ROWS, Clique, Counts
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.conditions.column_layout import ColumnLayout
from populace.schema.conditions.rules import Totals
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names, suggest
from populace.schema.toml_table import TomlTable, toml_text
from populace.schema.writer import format_key, format_value


def read_totals(table: TomlTable, *, layout: ColumnLayout) -> Totals:
    """Return the public counts that one `[[totals]]` table declares; codes that it does not list have none."""
    table.allow(("by", "count", "counts"))
    clique = table.texts("by")
    scales = [find_semantics(name, layout, place=table.place) for name in clique]
    if len(set(clique)) < len(clique):
        raise table.error("names a column twice.", hint="name each column once")
    shape = tuple(scale.size for scale in scales)
    if np.prod(shape, dtype=object) > LIMITS.max_totals_cells:
        raise table.error(
            f"has {np.prod(shape, dtype=object)} cells; {LIMITS.max_totals_cells} is the most.",
            hint="name fewer or coarser columns",
        )
    counts = np.zeros(shape, dtype=np.int64)
    seen: set[tuple[int, ...]] = set()
    for texts, count in read_lines(table, clique):
        cell = tuple(
            find_code(scale, text, place=table.place) for scale, text in zip(scales, texts, strict=True)
        )
        if cell in seen:
            raise table.error(f"has {quote_names(texts)} twice.", hint="list each combination once")
        seen.add(cell)
        counts[cell] = count
    counts.setflags(write=False)
    return Totals(clique=clique, counts=counts)


def check_totals(totals: Sequence[Totals], *, layout: ColumnLayout) -> None:
    """Refuse totals that do not fit the schema, or add up to different numbers of rows."""
    for each in totals:
        shape = tuple(find_semantics(name, layout, place="totals").size for name in each.clique)
        if each.counts.shape != shape:
            raise SchemaError(
                f"totals by {quote_names(each.clique)} have shape {each.counts.shape}; the columns have {shape}.",
                hint="give one count for every combination of codes",
            )
    sums = {int(each.counts.sum()) for each in totals}
    if len(sums) > 1:
        raise SchemaError(
            f"[[totals]] add up to {' and to '.join(map(str, sorted(sums)))} rows.",
            hint="all of them count the same rows: their sums must be equal",
        )
    for one, other in combinations(totals, 2):
        shared = [name for name in one.clique if name in other.clique]
        if shared and not np.array_equal(_sum_over(one, shared), _sum_over(other, shared)):
            raise SchemaError(
                f"two [[totals]] count {quote_names(shared)} differently.",
                hint="all of them count the same rows: sums over other columns must be equal",
            )


def _sum_over(totals: Totals, columns: Sequence[str]) -> Counts:
    """Return the counts over some of the columns, in their order."""
    axes = [totals.clique.index(name) for name in columns]
    others = tuple(axis for axis in range(totals.counts.ndim) if axis not in axes)
    kept = sorted(axes)
    summed: Counts = totals.counts.sum(axis=others).transpose([kept.index(axis) for axis in axes])
    return summed


def format_totals(totals: Totals, *, layout: ColumnLayout) -> str:
    """Return one `[[totals]]` table as TOML, without the combinations that have no rows."""
    lines = ["[[totals]]", f"by = {format_value(totals.clique)}"]
    if not totals.clique:
        return "\n".join([*lines, f"count = {int(totals.counts)}"]) + "\n"
    entries = list_totals(totals, layout=layout)
    if len(totals.clique) == 1:
        pairs = ", ".join(f"{format_key(text)} = {count}" for (text,), count in entries)
        return "\n".join([*lines, f"counts = {{ {pairs} }}"]) + "\n"
    rows = [dict(zip(totals.clique, texts, strict=True)) | {"count": count} for texts, count in entries]
    listed = [f"    {format_value(row)}," for row in rows]
    return "\n".join([*lines, "counts = [", *listed, "]"]) + "\n"


def list_totals(totals: Totals, *, layout: ColumnLayout) -> list[tuple[tuple[str, ...], int]]:
    """Return the combinations that have rows, as texts, with their counts."""
    scales = [layout.view(name).scale for name in totals.clique]
    return [
        (
            tuple(s.text(int(code)) for s, code in zip(scales, cell, strict=True)),
            int(totals.counts[tuple(cell)]),
        )
        for cell in np.argwhere(totals.counts)
    ]


def find_semantics(name: str, layout: ColumnLayout, *, place: str) -> CodeSemantics:
    """Return the codes of a column that totals may count."""
    column = layout.columns.get(name)
    if column is None:
        raise SchemaError(
            f"{place}: there is no column {name!r}.",
            hint=suggest(name, layout.columns, otherwise="name a column of the schema"),
        )
    if name in layout.functions or len(column.variables) > 1 or column.domain_learnt:
        raise SchemaError(
            f"{place}: column {name!r} is a function, split or to be learnt, and can have no totals.",
            hint="count by columns that are read as they are, with a known domain",
        )
    return layout.view(name).scale


def find_code(scale: CodeSemantics, text: str, *, place: str) -> int:
    """Return the code of a value that totals count."""
    code = scale.code(text)
    if code is None:
        raise SchemaError(
            f"{place}: {text!r} is not a value of column {scale.column.name!r}.",
            hint="count its values, missing codes, outside and other",
        )
    return code


def read_lines(table: TomlTable, clique: Clique) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the combinations that `[[totals]]` list, as texts, with their counts."""
    key, beside = ("counts", "count") if clique else ("count", "counts")
    if key not in table or beside in table:
        raise table.error(
            f"needs {key}, and no {beside}.",
            hint='write by = [] and count = 7634, or by = ["SEX"] and counts = { "1" = 3700, "2" = 3934 }',
        )
    if not clique:
        yield (), read_count(table.items["count"], place=table.place)
        return
    given = table.items["counts"]
    if isinstance(given, Mapping) and len(clique) == 1:
        for text, count in given.items():
            yield (text,), read_count(count, place=table.place)
        return
    if not isinstance(given, list) or not all(isinstance(row, Mapping) for row in given):
        raise table.error(
            f": counts do not fit {quote_names(clique)}.",
            hint='write counts = [ { A = "1", B = "x", count = 5 }, … ], for one column { "1" = 5, … }',
        )
    for row in given:
        texts = [toml_text(row.get(name)) for name in clique]
        if set(row) != {*clique, "count"} or None in texts:
            raise table.error(
                f": an entry of counts does not name just {quote_names([*clique, 'count'])}.",
                hint="give each entry one value of every column, and its count",
            )
        yield tuple(text or "" for text in texts), read_count(row["count"], place=table.place)


def read_count(value: object, *, place: str) -> int:
    """Return a number of rows."""
    found = to_fraction(value) or Fraction(0)
    if to_fraction(value) is None or found.denominator != 1 or not 0 <= found <= MAX_ESTIMATE_ROWS:
        raise SchemaError(f"{place}: a count is no whole number of rows.", hint="give 0 or more rows")
    return int(found)
