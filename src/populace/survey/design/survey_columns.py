"""Columns of a schema as designs and queries use them: lists of public values, and numbers in public ranges."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from populace.core.errors import SchemaError
from populace.core.marginals import Grouping
from populace.schema.columns.column import Column
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.hints import quote_names, suggest
from populace.schema.schema import Schema


def column(schema: Schema, name: str, *, place: str) -> Column:
    """Return a column of a schema, or refuse a name that it does not have."""
    if name not in schema.columns:
        raise SchemaError(
            f"{place}: the schema has no column {name!r}.",
            hint=suggest(name, schema.columns, otherwise=f"it has {quote_names(schema.columns)}"),
        )
    return schema.columns[name]


def scale(schema: Schema, name: str, *, place: str) -> CodeSemantics:
    """Return the codes of a column whose values are public and that is read as it is."""
    found = column(schema, name, place=place)
    if name in schema.layout.functions or len(found.variables) > 1 or found.domain_learnt:
        raise SchemaError(
            f"{place}: column {name!r} is a function, split or to be learnt, so rows cannot be grouped by it.",
            hint="name a column that is read as it is, with a declared domain",
        )
    return schema.layout.view(name).scale


def span(schema: Schema, name: str, *, place: str) -> tuple[Fraction, Fraction]:
    """Return the public range of a column of numbers.

    >>> span(Schema.from_sizes({"AGE": 100}), "AGE", place="query 1")
    (Fraction(0, 1), Fraction(99, 1))
    """
    found = column(schema, name, place=place)
    if name in schema.layout.functions or not isinstance(found, IntegerColumn | DecimalColumn):
        raise SchemaError(
            f"{place}: column {name!r} holds no numbers of a declared range.",
            hint='numbers come from columns of kind "integer" or "numeric" with min and max that follow from no other',
        )
    if isinstance(found, IntegerColumn):
        return Fraction(found.min), Fraction(found.max)
    return found.edges[0], found.edges[-1]


def values(found: CodeSemantics) -> tuple[str, ...]:
    """Return the texts of the values of a column, without its special codes.

    >>> values(CodeSemantics.of(IntegerColumn(name="PSU", min=1, max=3)))
    ('1', '2', '3')
    """
    return tuple(found.text(code) for code in range(found.levels))


def code(found: CodeSemantics, text: str, *, place: str) -> int:
    """Return the code of a value, or refuse what is none."""
    own = found.code(text)
    if own is None or own >= found.levels:
        known = values(found)
        raise SchemaError(
            f"{place}: {text!r} is not a value of column {found.column.name!r}.",
            hint=suggest(
                text, known if len(known) <= 10_000 else (), otherwise=f"its values are {quote_names(known)}"
            ),
        )
    return own


def cut(found: CodeSemantics, starts: Sequence[Fraction], *, place: str) -> Grouping:
    """Return groups of an ordered column that begin at some values; each special code stays alone.

    >>> cut(CodeSemantics.of(IntegerColumn(name="AGE", min=0, max=5)), [Fraction(0), Fraction(4)], place="").groups
    (0, 0, 0, 0, 1, 1, 2)
    """
    name = found.column.name
    if found.intervals is None or not found.bounded:
        raise SchemaError(
            f"{place}: column {name!r} has no numbers to cut at.", hint="join its values instead"
        )
    first = _firsts(found)
    if not starts or any(b <= a for a, b in pairwise(starts)):
        raise SchemaError(
            f"{place}: the edges of column {name!r} do not increase.", hint="sort them, each once"
        )
    if starts[0] > first[0]:
        raise SchemaError(
            f"{place}: the edges of column {name!r} begin at {float(starts[0]):g}, its values at {float(first[0]):g}.",
            hint="let the first edge be the lowest value, so that every row has a group",
        )
    if torn := sorted(set(starts[1:]) - set(first)):
        near = [value for value in first if value < torn[0]][-1:]
        near += [value for value in first if value > torn[0]][:1]
        starts_near = " or ".join(f"{float(value):g}" for value in near)
        raise SchemaError(
            f"{place}: {float(torn[0]):g} is not where a value or bin of column {name!r} begins.",
            hint=f"cut where its bins do, such as {starts_near}, or give the column edges of which it is one",
        )
    return _group_levels(found, [bisect(starts, value) - 1 for value in first])


def wide(found: CodeSemantics, width: Fraction, *, place: str, origin: Fraction | None = None) -> Grouping:
    """Return groups of one width of an ordered column: one of them begins at the origin, or at its lowest value.

    >>> age = CodeSemantics.of(IntegerColumn(name="AGE", min=18, max=33))
    >>> wide(age, Fraction(10), place="", origin=Fraction(0)).groups
    (0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
    """
    name = found.column.name
    if found.intervals is None or not found.bounded or width <= 0:
        raise SchemaError(
            f"{place}: column {name!r} has no groups of width {float(width):g}.",
            hint="give a width above 0, for columns of numbers only",
        )
    first = _firsts(found)
    start = first[0] if origin is None else origin
    dense = np.unique([(value - start) // width for value in first], return_inverse=True)[1]
    return _group_levels(found, dense.tolist())


def _group_levels(found: CodeSemantics, groups: Sequence[int]) -> Grouping:
    """Return groups of the levels of an ordered column; each special code is one of its own after them."""
    last = groups[-1]
    return Grouping(found.column.name, (*groups, *range(last + 1, last + 1 + found.size - found.levels)))


def _firsts(found: CodeSemantics) -> list[Fraction]:
    """Return where each value or bin of a column of numbers begins; a bottom code begins at its own number."""
    own = found.column
    if isinstance(own, IntegerColumn):
        return [Fraction(start) for start in own.starts]
    if isinstance(own, DecimalColumn):
        return [own.bounds(level)[0] for level in range(own.levels)]
    return (
        [Fraction(start) for start in found.intervals.first.tolist()] if found.intervals is not None else []
    )


def join_values(found: CodeSemantics, groups: Iterable[Sequence[str]], *, place: str) -> Grouping:
    """Return groups of values; a value that is in none, and each special code, stays alone.

    >>> from populace.schema.columns.column import CategoricalColumn
    >>> letters = CodeSemantics.of(CategoricalColumn(name="A", values=("x", "y", "z")))
    >>> join_values(letters, [("z", "x")], place="").groups
    (0, 1, 0, 2)
    """
    leader, seen = list(range(found.size)), set[int]()
    for group in groups:
        codes = [code(found, text, place=place) for text in group]
        if seen & set(codes) or len(set(codes)) < len(codes):
            raise SchemaError(
                f"{place}: a value of column {found.column.name!r} is in two groups.",
                hint="put each into one",
            )
        seen |= set(codes)
        for own in codes:
            leader[own] = min(codes)
    number = {own: turn for turn, own in enumerate(sorted(set(leader)))}
    return Grouping(found.column.name, tuple(number[own] for own in leader))
