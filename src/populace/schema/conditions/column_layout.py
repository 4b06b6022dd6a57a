"""Conditions on a row, decided on codes: every test becomes a table of truth over codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.conditions.code_semantics import CodeSemantics, Truth
from populace.schema.conditions.condition_parser import condition_atoms, condition_columns
from populace.schema.conditions.derived_columns import (
    DerivedColumn,
    RecodeTable,
    broadcast_codes,
    count_cells,
    find_derived_columns,
    make_recode_table,
)
from populace.schema.exact_numbers import parse_number
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.hints import quote_names, suggest

Codes = npt.NDArray[Any]


class ColumnLayout:
    """How the columns of a schema hang together: which are variables, and which follow from those."""

    def __init__(self, columns: Mapping[str, Column], *, geography: Geography | None = None) -> None:
        self.columns = dict(columns)
        self.geography = geography
        self.functions: dict[str, DerivedColumn] = find_derived_columns(self.columns)
        self.variables: dict[str, Column] = {}
        levels = () if geography is None else geography.levels
        if geography is not None:
            self.variables[GEOCODE] = geography.variable
        for name, column in self.columns.items():
            if name not in self.functions and name not in levels:
                self._add_variables(name, column)
        if not self.variables:
            raise SchemaError("every column follows from others.", hint="read at least one from the data")
        self._views: dict[str, RecodeTable] = {}
        for name in self.functions:
            self.view(name)

    def _add_variables(self, name: str, column: Column) -> None:
        for part in column.variables:
            if part.name in self.variables or (part.name != name and part.name in self.columns):
                raise SchemaError(
                    f"column {name!r} is split into {part.name!r}, which is a column already.",
                    hint="rename that column, in the file as well",
                )
            self.variables[part.name] = part

    @property
    def owners(self) -> dict[str, str]:
        """For every variable of columns that are read, the column that it is, or is a part of."""
        read = (name for name in self.columns if name not in self.functions)
        return {part.name: name for name in read for part in self.columns[name].variables}

    def view(self, name: str) -> RecodeTable:
        """Return a column as a table over the variables that it is made of."""
        if name not in self._views:
            if name in self.functions:
                function = self.functions[name]
                sources = [self.view(source) for source in function.sources]
                self._views[name] = make_recode_table(function, sources=sources)
            elif self.geography is not None and name in self.geography.levels:
                scale, codes = CodeSemantics.of(self.columns[name]), self.geography.level_codes(name)
                self._views[name] = RecodeTable(scale=scale, variables=(GEOCODE,), codes=codes)
            else:
                scale = CodeSemantics.of(self.columns[name])
                codes = np.arange(scale.size)
                self._views[name] = RecodeTable(scale=scale, variables=(scale.variable.name,), codes=codes)
        return self._views[name]

    def sources(self, name: str) -> Clique:
        """Return the variables behind a column that conditions may name."""
        return self.view(name).variables

    def condition(self, expression: syntax.Expression, *, place: str) -> Condition:
        """Return a condition made ready for codes; `place` says for messages where it stands."""
        for name in condition_columns(expression):
            if name not in self.columns:
                raise SchemaError(
                    f"{place}: there is no column {name!r} in {expression}.",
                    hint=suggest(name, self.columns, otherwise="texts stand in single quotes"),
                )
        try:
            tests = {atom: self._test(atom) for atom in condition_atoms(expression)}
        except SchemaError as error:
            raise SchemaError(f"{place}: {error.message}", hint=error.hint) from None
        return Condition(expression=expression, tests=tests)

    def _test(self, atom: syntax.Atom) -> TruthTable:
        if isinstance(atom, syntax.Comparison) and isinstance(atom.right, syntax.Name):
            return self._pair(atom, atom.right)
        view = self.view(atom.left.name if isinstance(atom, syntax.Comparison) else atom.column.name)
        self._refuse_learnt(view)
        return TruthTable(variables=view.variables, truth=_truth(atom, view.scale)[view.codes])

    def _pair(self, atom: syntax.Comparison, right: syntax.Name) -> TruthTable:
        views = [self.view(atom.left.name), self.view(right.name)]
        variables = tuple(dict.fromkeys(name for view in views for name in view.variables))
        if count_cells(views) > LIMITS.max_map_cells:
            raise SchemaError(
                f"{atom} has {count_cells(views)} combinations of codes; {LIMITS.max_map_cells} is the most.",
                hint="compare coarser columns",
            )
        for view in views:
            self._refuse_learnt(view)
        truth = compare_columns(views[0].scale, atom.operator, views[1].scale)
        return TruthTable(variables=variables, truth=truth[broadcast_codes(views, variables)])

    def _refuse_learnt(self, view: RecodeTable) -> None:
        """Refuse what cannot be decided before rows are read: a later refusal would depend on them."""
        name = view.scale.column.name
        unknown = [source for source in view.variables if self.variables[source].domain_learnt]
        if name in self.functions and unknown:
            raise SchemaError(
                f"column {name!r} follows from {quote_names(unknown)}, whose values are learnt.",
                hint="declare those values, or leave it out of the condition",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TruthTable:
    """The answer to one test: `truth` has an axis for each variable, indexed by its codes."""

    variables: Clique
    truth: Truth


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """A condition on one row with the tables that decide it on codes."""

    expression: syntax.Expression
    tests: Mapping[syntax.Atom, TruthTable]

    @property
    def variables(self) -> Clique:
        """The variables that it looks at, in the order they are named."""
        return tuple(dict.fromkeys(name for test in self.tests.values() for name in test.variables))

    def __call__(self, codes: Mapping[str, Codes]) -> Truth:
        """Say for every row whether the condition holds; arrays of codes of one shape give one of that shape."""
        return self._holds(self.expression, codes)

    def _holds(self, part: syntax.Expression, codes: Mapping[str, Codes]) -> Truth:
        if isinstance(part, syntax.Not):
            return ~self._holds(part.part, codes)
        if isinstance(part, syntax.And | syntax.Or):
            combine = np.logical_and if isinstance(part, syntax.And) else np.logical_or
            found = self._holds(part.parts[0], codes)
            for other in part.parts[1:]:
                found = combine(found, self._holds(other, codes))
            return found
        test = self.tests[part]
        return np.asarray(test.truth[tuple(codes[name] for name in test.variables)])


def _truth(atom: syntax.Atom, scale: CodeSemantics) -> Truth:
    if isinstance(atom, syntax.Missing):
        return scale.missing
    if isinstance(atom, syntax.Membership):
        return np.asarray(np.logical_or.reduce([scale.equal(value) for value in atom.values]))
    if isinstance(atom.right, syntax.Name):
        raise TypeError("a pair of columns has a table of two axes")
    if atom.operator.ordered:
        return scale.ordered(atom.operator, atom.right)
    equal = scale.equal(atom.right)
    return equal if atom.operator is syntax.Operator.EQUAL else ~equal


def compare_columns(left: CodeSemantics, operator: syntax.Operator, right: CodeSemantics) -> Truth:
    """Return the table of a comparison of two columns over the codes of both."""
    for scale in (left, right):
        torn = np.flatnonzero(~scale.single)
        if scale.column.unknown or len(torn):
            what = (
                "its domain is learnt"
                if scale.column.unknown
                else f"{scale.describe(int(torn[0]))} is one code"
            )
            raise scale.column.error(
                f"cannot be compared with another column: {what}.",
                hint="only columns with one code for each value can be compared",
            )
    dated = [scale.column.kind if isinstance(scale.column, TemporalColumn) else "" for scale in (left, right)]
    if dated[0] != dated[1]:
        raise _no_order(left.column, right.column)
    places = _places([left, right], ordered=operator.ordered)
    first, second = places[0][:, None], places[1][None, :]
    if not operator.ordered:
        return np.asarray(first == second if operator is syntax.Operator.EQUAL else first != second)
    known = (first >= 0) & (second >= 0)
    truth = {
        syntax.Operator.BELOW: first < second,
        syntax.Operator.AT_MOST: first <= second,
        syntax.Operator.ABOVE: first > second,
        syntax.Operator.AT_LEAST: first >= second,
    }[operator]
    return np.asarray(known & truth)


def _places(scales: Sequence[CodeSemantics], *, ordered: bool) -> list[npt.NDArray[np.int64]]:
    """Return for the codes of two columns their places among all values of both; −1 where a code has no order."""
    if ordered:
        values = _sizes(scales)
        line = sorted({value for column in values for value in column})
        known = {value: place for place, value in enumerate(line)}
        return [
            np.array([*(known[v] for v in column), *[-1] * (scale.size - scale.levels)], dtype=np.int64)
            for scale, column in zip(scales, values, strict=True)
        ]
    listed = all(isinstance(scale.column, CategoricalColumn) for scale in scales)
    texts = [[_same(scale, code, listed=listed) for code in range(scale.size)] for scale in scales]
    seen = {value: place for place, value in enumerate(dict.fromkeys(texts[0] + texts[1]))}
    return [np.array([seen[value] for value in column], dtype=np.int64) for column in texts]


def _same(scale: CodeSemantics, code: int, *, listed: bool) -> object:
    """Return what two values are equal by: their text or, beside a column of numbers, their number."""
    text = scale.text(code)
    if listed or scale.bounded:
        return text if listed else scale.value(text)
    value = parse_number(text)
    return text if value is None else value


def _sizes(scales: Sequence[CodeSemantics]) -> list[list[Any]]:
    """Return the values of two columns as things that can be ordered among each other."""
    kinds = [scale.column for scale in scales]
    if all(scale.bounded for scale in scales):
        return [
            [int(value) for value in scale.intervals.first] for scale in scales if scale.intervals is not None
        ]
    lists = {k.values for k in kinds if isinstance(k, CategoricalColumn) and k.ordered}
    if len(lists) == 1 and all(isinstance(k, CategoricalColumn) and k.ordered for k in kinds):
        return [list(range(scale.levels)) for scale in scales]
    found = [[parse_number(scale.text(code)) for code in range(scale.levels)] for scale in scales]
    if any(value is None for column in found for value in column) or not all(k.ordered for k in kinds):
        raise _no_order(*kinds)
    return found


def _no_order(left: Column, right: Column) -> SchemaError:
    return SchemaError(
        f"columns {left.name!r} and {right.name!r} have no common order.",
        hint="compare two columns of numbers, two of one kind of dates, or two with the same ordinal values",
    )
