"""Rows held to the rules: a row that breaks one is moved by a public recipe, looking at that row alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Grouping
from populace.schema.columns.column import Column
from populace.schema.conditions.rules import Rule
from populace.schema.conditions.structural_zeros import Rulebook, UniverseRule

MAX_REPAIR_ROUNDS = 3

Codes = npt.NDArray[Any]
Held = dict[str, Codes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ZeroRepair:
    """A structural zero with what a row in each of its cells becomes: in which variable, and which code."""

    rule: Rule
    replacement: Mapping[str, int]
    axes: npt.NDArray[np.int8]
    codes: npt.NDArray[np.int64]


class RuleRepair:
    """Holds rows of codes to the rules of a schema.

    Universes come first, in the order in which they depend on each other: outside, a row has the code for
    outside; inside, that code becomes the code for everything else. Then each structural zero moves the rows in
    it, and universes are seen to again, three times at most. A row that still breaks a rule gets, in the
    variables tied together by it, the one combination that the schema keeps for this. Every step looks at one
    row at a time and leaves rows alone that keep all rules, so no row's codes depend on another row.
    """

    def __init__(self, book: Rulebook, *, variables: Mapping[str, Column]) -> None:
        self._book = book
        self._classes = book.rules.classes
        rules = book.rules.rules[len(book.universes) :]
        self._zeros = [
            _plan_repair(rule, zero.replacement, self._classes, variables)
            for rule, zero in zip(rules, book.zeros, strict=True)
        ]
        self._rules = [
            (group, [rule for rule in book.rules.rules if rule.clique[0] in group]) for group in book.groups
        ]

    def __call__(self, codes: Mapping[str, Codes]) -> Held:
        """Return the codes of rows that keep all rules."""
        held = {name: np.array(codes[name]) if name in self._classes else codes[name] for name in codes}
        for universe in self._book.universes:
            _enforce_universe(held, universe)
        for _ in range(MAX_REPAIR_ROUNDS):
            if not self._move_rows(held):
                return held
            for universe in self._book.universes:
                _enforce_universe(held, universe)
        for group, rules in self._rules:
            broken = np.logical_or.reduce([self.violates(held, rule) for rule in rules])
            for name, code in group.items():
                held[name][broken] = code
        return held

    def violates(self, codes: Mapping[str, Codes], rule: Rule) -> npt.NDArray[np.bool_]:
        """Say which rows break a rule."""
        return ~rule.allowed[self._cells(codes, rule)]

    def _cells(self, codes: Mapping[str, Codes], rule: Rule) -> tuple[Codes, ...]:
        return tuple(self._classes[name].lookup[codes[name]] for name in rule.clique)

    def _move_rows(self, held: Held) -> bool:
        """Move the rows in each zero, and say whether there were any."""
        moved = False
        for zero in self._zeros:
            cells = self._cells(held, zero.rule)
            rows = np.flatnonzero(~zero.rule.allowed[cells])
            if not len(rows):
                continue
            moved = True
            if zero.replacement:
                for name, code in zero.replacement.items():
                    held[name][rows] = code
                continue
            places = tuple(cell[rows] for cell in cells)
            axes, codes = zero.axes[places], zero.codes[places]
            for axis, name in enumerate(zero.rule.clique):
                here = axes == axis
                held[name][rows[here]] = codes[here]
        return moved


def _enforce_universe(held: Held, universe: UniverseRule) -> None:
    codes = held[universe.variable]
    inside = universe.condition(held)
    codes[inside & (codes == universe.outside)] = universe.other
    codes[~inside] = universe.outside


def _plan_repair(
    rule: Rule,
    replacement: Mapping[str, int],
    classes: Mapping[str, Grouping],
    variables: Mapping[str, Column],
) -> _ZeroRepair:
    """Return a zero with its recipe: change the last column that helps, to everything else or else its first code."""
    axes = np.full(rule.allowed.shape, -1, dtype=np.int8)
    codes = np.zeros(rule.allowed.shape, dtype=np.int64)
    for axis in reversed(range(rule.allowed.ndim)):
        name = rule.clique[axis]
        other = variables[name].other_code
        grouping = classes[name]
        # Classes are numbered by their first codes: the first class that is allowed holds the first such code.
        firsts = np.array([int(members[0]) for members in grouping.members])
        free = np.take(rule.allowed, [grouping.groups[other]], axis=axis)
        best = np.where(free, other, firsts[np.argmax(rule.allowed, axis=axis, keepdims=True)])
        helps = (axes < 0) & rule.allowed.any(axis=axis, keepdims=True)
        codes = np.where(helps, best, codes)
        axes = np.where(helps, np.int8(axis), axes)
    return _ZeroRepair(rule=rule, replacement=replacement, axes=axes, codes=codes)
