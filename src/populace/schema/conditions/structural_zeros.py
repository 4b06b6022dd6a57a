"""The rules of a schema, worked out when it is loaded: universes, structural zeros, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Grouping
from populace.schema.columns.column import Column
from populace.schema.conditions.column_layout import ColumnLayout, Condition
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.derived_columns import sort_by_sources
from populace.schema.conditions.rules import NO_RULES, Allowed, Rule, Rules
from populace.schema.conditions.syntax_tree import Not
from populace.schema.hints import quote_names, suggest

Labels = npt.NDArray[np.int64]
Witness = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralZero:
    """A structural zero: rows for which `when` holds cannot occur; `replacement` says what such a row becomes."""

    when: str
    replacement: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", str(parse_condition(self.when)))
        object.__setattr__(self, "replacement", dict(self.replacement))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UniverseRule:
    """One variable's universe: rows where the condition fails have the code `outside`, all others have not."""

    variable: str
    condition: Condition
    outside: int
    other: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroRule:
    """One structural zero with its condition, and the codes that a row gets instead, if they are declared."""

    condition: Condition
    replacement: Mapping[str, int]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rulebook:
    """All rules of a schema: as tables for the model, and in the order in which rows are held to them.

    `groups` are the variables that rules tie together, each with codes that keep all of them.
    """

    universes: tuple[UniverseRule, ...] = ()
    zeros: tuple[ZeroRule, ...] = ()
    rules: Rules = NO_RULES
    groups: tuple[Witness, ...] = ()


def compile_rules(layout: ColumnLayout, *, zeros: Sequence[StructuralZero]) -> Rulebook:
    """Return the rules of the columns and the structural zeros, after making sure that they can all be kept."""
    universes = _compile_universes(layout)
    forbidden = tuple(_compile_zero(zero, layout, number=place) for place, zero in enumerate(zeros, start=1))
    if not universes and not forbidden:
        return Rulebook()
    rules = _tabulate_rules(layout, universes, forbidden)
    for rule, zero in zip(rules.rules[len(universes) :], forbidden, strict=True):
        _check_zero(rule, zero, rules.classes)
    return Rulebook(universes=universes, zeros=forbidden, rules=rules, groups=_find_witnesses(rules))


def require_conditions(
    conditions: Sequence[Condition], *, layout: ColumnLayout, beside: Rulebook | None = None
) -> Rules:
    """Return conditions that must hold as rules, alone or together with the rules of a schema."""
    universes = beside.universes if beside else ()
    refused = [
        ZeroRule(
            condition=Condition(expression=Not(each.expression), tests=each.tests),
            replacement={},
            text=str(each.expression),
        )
        for each in conditions
    ]
    return _tabulate_rules(layout, universes, [*(beside.zeros if beside else ()), *refused])


def _compile_universes(layout: ColumnLayout) -> tuple[UniverseRule, ...]:
    """Return the universes, each after those that its condition depends on."""
    found = {}
    for name, column in layout.columns.items():
        if column.universe is None:
            continue
        place = f"the universe of column {name!r}"
        condition = layout.condition(parse_condition(column.universe), place=place)
        variable = column.variables[0]
        if variable.name in condition.variables:
            raise SchemaError(f"{place} depends on itself.", hint="name only other columns in it")
        if variable.outside_code is None:
            raise TypeError("a universe always comes with a code for the rows outside it")
        found[variable.name] = UniverseRule(
            variable=variable.name,
            condition=condition,
            outside=variable.outside_code,
            other=variable.other_code,
            text=f"{name} is '{column.outside}' unless {condition.expression}",
        )
    done, left = sort_by_sources({name: universe.condition.variables for name, universe in found.items()})
    if left:
        raise SchemaError(
            f"the universes of {quote_names(left)} depend on each other in a circle.",
            hint="say one of them with [[zeros]] instead",
        )
    return tuple(found[name] for name in done)


def _compile_zero(zero: StructuralZero, layout: ColumnLayout, *, number: int) -> ZeroRule:
    place = f"[[zeros]] {number}"
    condition = layout.condition(parse_condition(zero.when), place=place)
    replacement = {}
    for name, text in zero.replacement.items():
        column = layout.columns.get(name)
        level = layout.geography is not None and name in layout.geography.levels
        if column is None or name in layout.functions or len(column.variables) > 1 or level:
            known = layout.columns if column is None else ()
            raise SchemaError(
                f"{place}: else names {name!r}, which is no column that is read as it is.",
                hint=suggest(
                    name,
                    known,
                    otherwise="give values to columns of the condition that are neither functions, split nor levels",
                ),
            )
        code = layout.view(name).scale.code(text)
        if code is None:
            raise SchemaError(
                f"{place}: else gives column {name!r} {text!r}, which is not a value of it.",
                hint="give a value or a special code of the column",
            )
        replacement[name] = code
    return ZeroRule(condition=condition, replacement=replacement, text=f"never {condition.expression}")


def _tabulate_rules(
    layout: ColumnLayout, universes: Sequence[UniverseRule], zeros: Sequence[ZeroRule]
) -> Rules:
    classes = _code_classes(layout.variables, universes, zeros)
    parts: list[UniverseRule | ZeroRule] = [*universes, *zeros]
    return Rules(classes=classes, rules=tuple(_tabulate_rule(part, classes) for part in parts))


def _code_classes(
    variables: Mapping[str, Column], universes: Sequence[UniverseRule], zeros: Sequence[ZeroRule]
) -> dict[str, Grouping]:
    """Return for each variable in a rule the classes of its codes: codes that all rules treat alike."""
    labels: dict[str, Labels] = {}
    conditions = [u.condition for u in universes] + [zero.condition for zero in zeros]
    for condition in conditions:
        for test in condition.tests.values():
            for axis, name in enumerate(test.variables):
                answers = test.truth.astype(np.int64)
                if test.truth.ndim > 1:
                    rows = np.moveaxis(test.truth, axis, 0).reshape(test.truth.shape[axis], -1)
                    answers = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
                labels[name] = _refine_labels(labels.get(name), answers)
    for universe in universes:
        outside = np.arange(variables[universe.variable].size) == universe.outside
        labels[universe.variable] = _refine_labels(labels.get(universe.variable), outside.astype(np.int64))
    return {name: Grouping(name, tuple(labels[name].tolist())) for name in variables if name in labels}


def _refine_labels(labels: Labels | None, answers: Labels) -> Labels:
    """Return labels that tell apart what either argument does, numbered by first appearance."""
    both = answers if labels is None else labels * (int(answers.max(initial=0)) + 1) + answers
    # Columns of which bins are learnt have millions of codes: nothing is sorted but the labels.
    first = np.full(int(both.max(initial=-1)) + 1, len(both))
    first[both[::-1]] = np.arange(len(both))[::-1]
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(rank[both])


def _tabulate_rule(part: UniverseRule | ZeroRule, classes: Mapping[str, Grouping]) -> Rule:
    """Return a rule as a table, asked about the first code of every class."""
    text, clique = part.text, part.condition.variables
    if isinstance(part, UniverseRule):
        clique = (*clique, part.variable)
    shape = tuple(classes[name].size for name in clique)
    cells = math.prod(shape)
    if cells > LIMITS.max_rule_cells:
        raise SchemaError(
            f"the rule “{text}” has {cells} combinations of classes; {LIMITS.max_rule_cells} is the most.",
            hint="compare coarser columns, or say it with several rules of fewer columns",
        )
    firsts = np.ix_(*([int(codes[0]) for codes in classes[name].members] for name in clique))
    codes = dict(zip(clique, firsts, strict=True))
    holds = part.condition(codes)
    if isinstance(part, UniverseRule):
        holds = holds == (codes[part.variable] != part.outside)
    else:
        holds = ~holds
    allowed = np.array(np.broadcast_to(holds, shape))
    allowed.setflags(write=False)
    return Rule(text=text, clique=clique, allowed=allowed)


def _check_zero(rule: Rule, zero: ZeroRule, classes: Mapping[str, Grouping]) -> None:
    """Refuse a zero that leaves no row, and an `else` that leaves a row in its zero."""
    if not rule.allowed.any():
        what = f"every value of column {rule.clique[0]!r}" if len(rule.clique) == 1 else "every row"
        raise SchemaError(
            f"“{rule.text}”: this rule alone forbids {what}.", hint="say only which combinations cannot occur"
        )
    if not zero.replacement:
        return
    cells = list(np.nonzero(~rule.allowed))
    for axis, name in enumerate(rule.clique):
        if name in zero.replacement:
            cells[axis] = np.full_like(cells[axis], classes[name].groups[zero.replacement[name]])
    if not rule.allowed[tuple(cells)].all():
        raise SchemaError(
            f"“{rule.text}”: a row with what else gives is still one that cannot occur.",
            hint="let else break the condition, whatever the other columns hold",
        )


def _find_witnesses(rules: Rules) -> tuple[Witness, ...]:
    """Return, for each set of variables that rules tie together, codes that keep all of its rules."""
    groups: list[set[str]] = []
    for rule in rules.rules:
        touched = [group for group in groups if group & set(rule.clique)]
        groups = [group for group in groups if group not in touched]
        groups.append(set(rule.clique).union(*touched))
    found = []
    for group in groups:
        own = [rule for rule in rules.rules if set(rule.clique) <= group]
        members = [name for name in rules.classes if name in group]
        search = _Search(own)
        chosen = search.find({name: np.ones(rules.classes[name].size, dtype=np.bool_) for name in members})
        if chosen is None:
            raise SchemaError(
                f"the rules leave column {search.empty!r} no code: "
                + "; ".join(rule.text for rule in own[:5])
                + ".",
                hint="take one of them back: they contradict each other",
            )
        found.append({name: int(rules.classes[name].members[chosen[name]][0]) for name in members})
    return tuple(found)


class _Search:
    """Looks for classes that keep all rules: strike out what no rule can have, then choose, then strike out again."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._tries = 0
        self.empty = ""

    def find(self, possible: Mapping[str, Allowed]) -> Witness | None:
        left = self._propagate(possible)
        if left is None:
            return None
        open_ones = [name for name, classes in left.items() if classes.sum() > 1]
        if not open_ones:
            return {name: int(np.argmax(classes)) for name, classes in left.items()}
        name = min(open_ones, key=lambda each: int(left[each].sum()))
        for choice in np.flatnonzero(left[name]):
            self._tries += 1
            if self._tries > LIMITS.max_rule_search_steps:
                break
            found = self.find({**left, name: np.arange(len(left[name])) == choice})
            if found is not None:
                return found
        return None

    def _propagate(self, possible: Mapping[str, Allowed]) -> dict[str, Allowed] | None:
        left, changed = dict(possible), True
        while changed:
            changed = False
            for rule in self._rules:
                table = rule.allowed
                for axis, name in enumerate(rule.clique):
                    table = table & left[name].reshape([-1 if i == axis else 1 for i in range(table.ndim)])
                for axis, name in enumerate(rule.clique):
                    others = tuple(i for i in range(table.ndim) if i != axis)
                    kept = np.asarray(table.any(axis=others))
                    if not kept.any():
                        self.empty = name
                        return None
                    if not np.array_equal(kept, left[name]):
                        left[name], changed = kept, True
        return left
