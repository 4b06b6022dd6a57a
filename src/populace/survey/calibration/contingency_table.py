"""The table that public totals and a sample share: its cells, what they join to, and where anybody can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Grouping, Marginal
from populace.inference.constraints.support import Support
from populace.privacy.sensitivity.poststratification import Binning
from populace.schema.conditions.column_layout import Condition
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.rules import Rules
from populace.schema.conditions.structural_zeros import require_conditions
from populace.schema.conditions.syntax_tree import Not
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema
from populace.survey.calibration.ipf import TableTotals
from populace.survey.design.design_parts import ControlTotals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContingencyTable:
    """Cells by some columns, and the table that they join to: an axis for each set of public totals.

    `joined` tells for each cell of `by`, in order, the cell of the joined table that it belongs to.
    """

    by: Marginal
    joined: Ints
    possible: Truth
    totals: TableTotals
    ordered: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        controls: Sequence[ControlTotals],
        *,
        schema: Schema,
        binnings: Sequence[Binning | None] | None = None,
    ) -> ContingencyTable:
        """Return the table by the bins that were chosen; without a choice each base bin is a bin of its own."""
        _check_controls(controls, schema=schema)
        axes = [
            _ControlAxis.of(control, binning, schema=schema)
            for control, binning in zip(controls, binnings or [None] * len(controls), strict=True)
        ]
        by = Marginal(
            tuple(name for axis in axes for name in axis.by.clique),
            tuple(grouping for axis in axes for grouping in axis.by.groupings),
        )
        shape = tuple(len(axis.populations) for axis in axes)
        cells, joined_cells, bins = math.prod(by.shape(schema.domain)), math.prod(shape), sum(shape)
        if (
            cells > LIMITS.max_table_cells
            or joined_cells > LIMITS.max_joined_cells
            or bins > LIMITS.max_table_bins
            or joined_cells * bins > LIMITS.max_fitted_cells
        ):
            raise UsageError(
                f"the table of all totals together has {joined_cells} cells of {bins} bins, by {cells} combinations of "
                "values: too many.",
                hint=f"group the columns that totals are given for, to {LIMITS.max_joined_cells} cells, "
                f"{LIMITS.max_table_bins} bins and {LIMITS.max_table_cells} combinations, or name fewer of them",
            )
        places = np.meshgrid(*(axis.joined for axis in axes), indexing="ij")
        joined = np.ravel_multi_index(places, shape).ravel()
        possible = _possible_cells(by, rules=schema.rules, schema=schema)
        anybody = np.bincount(joined, weights=possible, minlength=math.prod(shape)) > 0
        totals = TableTotals.of([axis.populations for axis in axes], possible=anybody.reshape(shape))
        return cls(
            by=by,
            joined=joined,
            possible=possible & totals.possible.ravel()[joined],
            totals=totals,
            ordered=tuple(axis.ordered for axis in axes),
        )

    def where(self, condition: str | None, *, schema: Schema) -> Truth:
        """Say for each cell of `by` whether anybody there can meet a condition."""
        if condition is None:
            return self.possible
        return self.possible & _possible_cells(
            self.by, rules=RowFilter.of(condition, schema=schema).rules, schema=schema
        )


def count_from_totals(
    where: str | None, *, finest: ContingencyTable, controls: Sequence[ControlTotals], schema: Schema
) -> Fraction | None:
    """Return how many of the population meet a condition, if the cells of one set of totals decide it.

    Where nobody can be there are none.

    >>> schema = Schema.from_sizes({"AGE": 4, "SEX": 2})
    >>> ages = ControlTotals(by=Marginal(("AGE",)), populations=tuple(map(Fraction, (5, 6, 7, 8))), binnings=())
    >>> table = ContingencyTable.of([ages], schema=schema)
    >>> old = ("AGE >= 2", "AGE >= 2 and SEX == 1")
    >>> [count_from_totals(text, finest=table, controls=[ages], schema=schema) for text in old]
    [Fraction(15, 1), None]
    """
    if where is None:
        return controls[0].total
    whole = schema.layout.condition(parse_condition(where), place="where")
    for control in controls:
        if not set(whole.variables) <= set(control.by.clique):
            continue
        meets, fails = (
            _cells_meeting(control.by, condition=each, schema=schema)
            for each in (whole, replace(whole, expression=Not(whole.expression)))
        )
        lived_in = np.array([population > 0 for population in control.populations])
        if not (meets & fails & lived_in).any():
            return sum((control.populations[cell] for cell in np.flatnonzero(meets)), Fraction(0))
    return None if finest.where(where, schema=schema).any() else Fraction(0)


def _cells_meeting(by: Marginal, *, condition: Condition, schema: Schema) -> Truth:
    """Say for each cell whether a code in it meets a condition, whatever the rules of the schema."""
    rules = require_conditions([condition], layout=schema.layout)
    if not rules.rules[0].allowed.any():
        return np.zeros(math.prod(by.shape(schema.domain)), dtype=np.bool_)
    return _possible_cells(by, rules=rules, schema=schema)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ControlAxis:
    """One set of totals: the cells that are counted, and how they join to the bins that have totals."""

    by: Marginal
    joined: Ints
    populations: Floats
    ordered: bool

    @classmethod
    def of(cls, control: ControlTotals, binning: Binning | None, *, schema: Schema) -> _ControlAxis:
        apart = Binning(name="apart", bins=tuple((cell,) for cell in range(len(control.populations))))
        # Bins in the order of their first cells, so that what lies side by side stays there.
        bins = replace(binning or apart, bins=tuple(sorted((binning or apart).bins, key=min)))
        joined, by, ordered = bins.bin_of_base(), control.by, False
        if len(by.clique) == 1:
            # One column is counted by its bins, so that what is joined has the noise of one cell.
            (name,) = by.clique
            ordered = schema.variables[name].ordered
            own = by.grouping(name)
            codes = np.arange(schema.domain[name]) if own is None else own.lookup
            by = Marginal((name,), (Grouping(name, tuple(joined[codes].tolist())),))
            joined = np.arange(len(bins.bins))
        totals = np.array([float(total) for total in bins.totals(control.populations)])
        return cls(by=by, joined=joined, populations=totals, ordered=ordered)


def _check_controls(controls: Sequence[ControlTotals], *, schema: Schema) -> None:
    if not controls:
        raise UsageError("no public totals are given.", hint="give the population of at least one column")
    names = [name for control in controls for name in control.by.clique]
    if len(set(names)) < len(names):
        raise UsageError(
            "a column has several sets of totals.",
            hint="give each column one set of totals, alone or together with others",
        )
    if strange := [name for name in names if name not in schema.domain]:
        raise UsageError(f"the schema has no column {strange[0]!r}.", hint="name columns of the schema")
    for control in controls:
        cells = math.prod(control.by.shape(schema.domain))
        if len(control.populations) != cells:
            raise UsageError(
                f"{control.by} has {cells} cells; {len(control.populations)} populations are given.",
                hint="give one for each cell, in order",
            )


def _possible_cells(by: Marginal, *, rules: Rules, schema: Schema) -> Truth:
    """Say for each cell whether a row that keeps some rules can lie in it."""
    shape = by.shape(schema.domain)
    if not any(name in by.clique for name in rules.classes):
        return np.ones(math.prod(shape), dtype=np.bool_)
    possible = Support(rules)
    constrained: Clique = tuple(name for name in by.clique if name in possible)
    allowed = possible.table(constrained)
    # From classes of codes to groups of codes: a group can be where one of its codes can.
    for axis, name in enumerate(constrained):
        classes, grouping = rules.classes[name].lookup, by.grouping(name)
        groups = np.arange(len(classes)) if grouping is None else grouping.lookup
        size = int(groups.max()) + 1
        reached = np.zeros((size, allowed.shape[axis]), dtype=np.bool_)
        reached[groups, classes] = True
        allowed = np.moveaxis(
            np.tensordot(reached.astype(np.int64), allowed.astype(np.int64), (1, axis)) > 0, 0, axis
        )
    found = allowed.reshape(
        [size if name in constrained else 1 for name, size in zip(by.clique, shape, strict=True)]
    )
    return np.broadcast_to(found, shape).ravel()
