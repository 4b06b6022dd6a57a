"""Columns that follow from others: by a public map, or as the coarser level of a hierarchy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique
from populace.schema.columns.column import CategoricalColumn, Column, Key
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.hints import quote_names, suggest

Table = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumn:
    """How a column follows from its sources: by a map of texts or, without one, by how the source's text begins."""

    column: Column
    sources: Clique
    map: Mapping[Key, str]

    @property
    def text(self) -> str:
        """The function in words."""
        return f"{self.column.name} follows from {', '.join(self.sources)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecodeTable:
    """A column seen from the variables: `codes` has an axis for each of them and holds the column's own codes.

    A function also has the very texts that it leads to, and `places` says which of them a cell has.
    """

    scale: CodeSemantics
    variables: Clique
    codes: npt.NDArray[Any]
    results: tuple[str, ...] = ()
    places: npt.NDArray[Any] | None = None


def find_derived_columns(columns: Mapping[str, Column]) -> dict[str, DerivedColumn]:
    """Return the columns that follow from others, each after those it follows from."""
    found: dict[str, DerivedColumn] = {}
    for name, column in columns.items():
        if column.function_of:
            _add_derived(found, DerivedColumn(column=column, sources=column.function_of, map=column.map))
        if column.parent is not None:
            if column.parent not in columns:
                raise _no_column(column.parent, columns, place=f"column {name!r}: parent")
            coarser = columns[column.parent]
            _add_derived(found, DerivedColumn(column=coarser, sources=(name,), map=column.map))
    for name, function in found.items():
        for source in function.sources:
            if source not in columns:
                raise _no_column(source, columns, place=f"column {name!r}: function_of")
    done, left = sort_by_sources({name: function.sources for name, function in found.items()})
    if left:
        raise SchemaError(
            f"columns {quote_names(left)} follow from each other in a circle.",
            hint="one of them must be read from the data",
        )
    return {name: found[name] for name in done}


def _add_derived(found: dict[str, DerivedColumn], function: DerivedColumn) -> None:
    name = function.column.name
    if name in found:
        sources = quote_names([*found[name].sources, *function.sources])
        raise SchemaError(
            f"column {name!r} follows from {sources} in two ways.",
            hint="let it follow from one of them, and forbid what does not fit with [[zeros]]",
        )
    if function.column.universe is not None or function.column.unknown:
        has = "a universe" if function.column.universe is not None else "values to be learnt"
        raise SchemaError(
            f"column {name!r} follows from {quote_names(function.sources)} and has {has}.",
            hint="it is known wherever they are: declare its values, and no universe",
        )
    found[name] = function


def _no_column(name: str, columns: Mapping[str, Column], *, place: str) -> SchemaError:
    return SchemaError(
        f"{place} names {name!r}, which is no column.",
        hint=suggest(name, columns, otherwise="name a column of the schema"),
    )


def sort_by_sources(sources: Mapping[str, Clique]) -> tuple[list[str], list[str]]:
    """Return names, each after those of its sources that are names too, and the names left over: they form a circle.

    >>> sort_by_sources({"county": ("area",), "region": ("county",), "a": ("b",), "b": ("a",)})
    (['county', 'region'], ['a', 'b'])
    """
    done: list[str] = []
    left = list(sources)
    while ready := [name for name in left if not {*sources[name]} & {*left}]:
        done += ready
        left = [name for name in left if name not in ready]
    return done, left


def make_recode_table(function: DerivedColumn, *, sources: Sequence[RecodeTable]) -> RecodeTable:
    """Return a function column as a table over the variables that it follows from."""
    scales = [source.scale for source in sources]
    variables: Clique = tuple(dict.fromkeys(name for source in sources for name in source.variables))
    _check_sources(function, scales)
    # Only a parent may have no map.
    table, results = _apply_map(function, scales) if function.map else _match_prefixes(function, scales[0])
    places = table[broadcast_codes(sources, variables)]
    scale = CodeSemantics.of(function.column)
    codes = np.array([scale.code(text) for text in results], dtype=np.int64)
    return RecodeTable(scale=scale, variables=variables, codes=codes[places], results=results, places=places)


def broadcast_codes(views: Sequence[RecodeTable], variables: Clique) -> tuple[npt.NDArray[Any], ...]:
    """Return each view's codes, with an axis for each of the variables: of length 1 where it has no say."""
    found = []
    for view in views:
        order = sorted(
            range(len(view.variables)), key=[variables.index(name) for name in view.variables].__getitem__
        )
        sizes = dict(zip(view.variables, view.codes.shape, strict=True))
        found.append(view.codes.transpose(order).reshape([sizes.get(name, 1) for name in variables]))
    return tuple(found)


def count_cells(views: Sequence[RecodeTable]) -> int:
    """Return the number of combinations of codes of the variables behind some views."""
    sizes = {n: s for view in views for n, s in zip(view.variables, view.codes.shape, strict=True)}
    return math.prod(sizes.values())


def _check_sources(function: DerivedColumn, scales: Sequence[CodeSemantics]) -> None:
    name = function.column.name
    unknown = [scale.column.name for scale in scales if scale.column.domain_learnt]
    if unknown and (len(scales) > 1 or scales[0].bounded):
        raise SchemaError(
            f"column {name!r} follows from {quote_names(unknown)}, whose domain is not known yet.",
            hint="declare its values or bins",
        )
    if math.prod(scale.size for scale in scales) > LIMITS.max_map_cells:
        raise SchemaError(
            f"column {name!r} follows from {quote_names(function.sources)}, which have "
            f"{math.prod(scale.size for scale in scales)} combinations; {LIMITS.max_map_cells} is the most.",
            hint="let it follow from fewer or coarser columns",
        )


def _match_prefixes(function: DerivedColumn, child: CodeSemantics) -> tuple[Table, tuple[str, ...]]:
    """Return, for each code of the finer column, the longest value of the coarser one that it begins with."""
    coarse = function.column
    if not isinstance(coarse, CategoricalColumn) or (child.bounded and not child.single.all()):
        raise child.column.error(
            f": its parent {coarse.name!r} does not follow from how a value begins.",
            hint="give a map from its values to the parent's, or list the values of both",
        )
    other = coarse.other or ""
    texts = [_match_prefix(coarse, child.text(code)) for code in range(child.size)]
    if not child.column.domain_learnt and all(texts[code] is None for code in range(child.levels)):
        raise SchemaError(
            f"no value of column {child.column.name!r} begins with a value of its parent {coarse.name!r}.",
            hint="give a map from its values to the parent's",
        )
    results = tuple(dict.fromkeys([other, *(text for text in texts if text is not None)]))
    places = {text: place for place, text in enumerate(results)}
    return np.array([places[other if text is None else text] for text in texts], dtype=np.int64), results


def _match_prefix(coarse: CategoricalColumn, text: str) -> str | None:
    if text in coarse.specials:
        return text
    return next((text[:end] for end in range(len(text), 0, -1) if text[:end] in coarse.places), None)


def _apply_map(function: DerivedColumn, scales: Sequence[CodeSemantics]) -> tuple[Table, tuple[str, ...]]:
    """Return, for each combination of the sources' codes, the text that the map leads to."""
    coarse = function.column
    if strange := sorted({text for text in function.map.values() if coarse.code(text) is None}):
        raise SchemaError(
            f"a map leads to {quote_names(strange)}, which is not a value of column {coarse.name!r}.",
            hint="add it to the values, or correct the map",
        )
    cellwise: dict[tuple[int, ...], dict[tuple[object, ...], str]] = {}
    for key, result in function.map.items():
        codes = [scale.code(text) for scale, text in zip(scales, key, strict=True)]
        if any(code is None for code in codes):
            continue
        cell = tuple(code for code in codes if code is not None)
        value = tuple(scale.value(text) for scale, text in zip(scales, key, strict=True))
        if cellwise.setdefault(cell, {}).setdefault(value, result) != result:
            raise coarse.error(
                f": its map has {quote_names(['|'.join(key)])} twice, with two results.",
                hint="write each combination once",
            )
    if not cellwise and not any(scale.column.domain_learnt for scale in scales):
        raise coarse.error(
            f": no key of its map is a value of {quote_names(function.sources)}.",
            hint="the keys are the values of the columns it follows from",
        )
    other = coarse.other or ""
    results = tuple(dict.fromkeys([other, *function.map.values()]))
    places = {text: place for place, text in enumerate(results)}
    table = np.zeros([scale.size for scale in scales], dtype=np.int64)
    for cell, found in cellwise.items():
        count = math.prod(scale.published_count(code) for scale, code in zip(scales, cell, strict=True))
        values = set(found.values()) if len(found) == count else {*found.values(), other}
        if len(values) > 1:
            both = zip(scales, cell, strict=True)
            scale, code = next((scale, code) for scale, code in both if scale.published_count(code) != 1)
            raise function.column.error(
                f"does not follow from {scale.column.name!r}: "
                f"values of its bin {scale.describe(code)} lead to different results.",
                hint="give the bins edges where the result changes, and map every value of a bin",
            )
        table[cell] = places[values.pop()]
    return table, results
