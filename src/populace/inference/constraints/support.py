"""What rules say together: which combinations of codes a row can have, and which rules follow from others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from populace.core.errors import ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain, Lookup
from populace.inference.gls.observations import refines
from populace.inference.graph.junction_tree import junction_tree
from populace.inference.graph.propagation import Propagation
from populace.inference.model_space import ModelSpace
from populace.schema.conditions.rules import Allowed, Rules

Pair = frozenset[str]

# Classes of a column beyond which no rule is looked for that follows from others.
MAX_CLASSES = 512


class Support:
    """The classes of codes that can meet, by counting all rows that break no rule on a junction tree of classes.

    A combination may be impossible although no single rule forbids it: a rule on a and b and a rule on b and c
    together can exclude pairs of a and c.
    """

    def __init__(self, rules: Rules) -> None:
        rules = drop_redundant_rules(rules)
        self._domain = Domain({name: grouping.size for name, grouping in rules.classes.items()})
        tree = junction_tree([rule.clique for rule in rules.rules], domain=self._domain)
        check_model_size(tree.cells(self._domain))
        plan = Propagation(tree, domain=self._domain)
        supports = plan.supports((rule.clique, rule.allowed) for rule in rules.rules)
        if supports is None:
            raise UsageError(
                "no row can keep all rules of the schema.", hint="remove rules until some row is allowed"
            )
        self._joints = plan.joints(supports)

    def __contains__(self, column: str) -> bool:
        return column in self._domain

    def table(self, clique: Iterable[str]) -> Allowed:
        """Say for every combination of classes of some columns that are in rules whether a row can have it."""
        return np.asarray(self._joints.table(tuple(clique)) > 0)

    def cells(self, clique: Clique, *, classes: Mapping[str, Lookup], domain: Domain) -> Allowed:
        """Say the same of the cells of a table over a clique, given the class of every code of its columns."""
        constrained = [name for name in clique if name in self]
        if not constrained:
            return np.broadcast_to(np.True_, domain.shape(clique))
        shape = tuple(domain[name] if name in self else 1 for name in clique)
        table = self.table(constrained)[np.ix_(*(classes[name] for name in constrained))]
        return np.broadcast_to(table.reshape(shape), domain.shape(clique))


def class_lookups(space: ModelSpace) -> dict[str, Lookup]:
    """Return for every column in rules the class of each of its groups, or of its codes where it is not grouped."""
    found: dict[str, Lookup] = {}
    groupings = space.groupings
    for name, grouping in space.rules.classes.items():
        if len(grouping.groups) != space.domain[name]:
            raise UsageError(
                f"the rules know {len(grouping.groups)} codes of column {name!r}; the domain has {space.domain[name]}.",
                hint="take rules and domain from one schema",
            )
        if name not in groupings:
            found[name] = grouping.lookup
            continue
        found[name] = np.array([grouping.lookup[codes[0]] for codes in groupings[name].members])
        if not refines(groupings[name], grouping):
            raise UsageError(
                f"codes of column {name!r} that a rule tells apart share a group.",
                hint="group codes only within their class: merge_rare_codes(…, classes=rules.classes)",
            )
    return found


def check_model_size(cells: int) -> None:
    """Refuse tables that would not fit into memory."""
    if cells > LIMITS.max_model_cells:
        raise ResourceError(
            f"the rules and measured tables need a model of {cells} cells; the most is {LIMITS.max_model_cells}.",
            hint="state rules over fewer columns, or measure smaller tables",
        )


def drop_redundant_rules(rules: Rules) -> Rules:
    """Return the rules without those on two columns that follow from rules of either with a third.

    a ≤ b and b ≤ c say a ≤ c already, and stating it would only join more columns.
    No rule is left out for the sake of one that is left out for its own, so the others still say all of them.

    >>> from populace.core.marginals import Grouping
    >>> from populace.schema.conditions.rules import Rule
    >>> below = np.tri(3, dtype=bool).T
    >>> pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    >>> three = [Rule(text=f"{a} ≤ {b}", clique=(a, b), allowed=below) for a, b in pairs]
    >>> classes = {name: Grouping(name, (0, 1, 2)) for name in "abc"}
    >>> [rule.text for rule in drop_redundant_rules(Rules(classes=classes, rules=tuple(three))).rules]
    ['a ≤ b', 'b ≤ c']
    """
    tables: dict[Pair, dict[tuple[str, str], Allowed]] = {}
    near: dict[str, set[str]] = defaultdict(set)
    for rule in rules.rules:
        if len(rule.clique) != 2 or max(rule.allowed.shape) > MAX_CLASSES:
            continue
        one, other = rule.clique
        near[one].add(other)
        near[other].add(one)
        table = tables.setdefault(frozenset(rule.clique), {})
        table[one, other] = rule.allowed & table.get((one, other), np.True_)
        table[other, one] = table[one, other].T
    because: dict[Pair, tuple[Pair, Pair]] = {}
    for pair in sorted(tables, key=lambda each: (-next(iter(tables[each].values())).size, *sorted(each))):
        one, other = sorted(pair)
        for third in sorted(near[one] & near[other]):
            reasons = frozenset((one, third)), frozenset((third, other))
            left, right = tables[reasons[0]][one, third], tables[reasons[1]][third, other]
            reached = left.astype(np.float32) @ right.astype(np.float32) > 0
            if not (reached & ~tables[pair][one, other]).any() and not _depends_on(pair, reasons, because):
                because[pair] = reasons
                break
    if not because:
        return rules
    kept = tuple(rule for rule in rules.rules if frozenset(rule.clique) not in because)
    return Rules(classes=rules.classes, rules=kept)


def _depends_on(pair: Pair, reasons: tuple[Pair, Pair], because: Mapping[Pair, tuple[Pair, Pair]]) -> bool:
    """Say whether reasons lead back, through theirs, to the pair itself."""
    open_ones, seen = list(reasons), set(reasons)
    while open_ones:
        each = open_ones.pop()
        if each == pair:
            return True
        more = [reason for reason in because.get(each, ()) if reason not in seen]
        seen.update(more)
        open_ones += more
    return False
