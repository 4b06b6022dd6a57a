"""Rules that follow from others: a ≤ b and b ≤ c say a ≤ c already, and stating it would only join more columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from populace.schema.conditions.rules import Allowed, Rules

# Classes of a column beyond which nothing is looked for.
MAX_CLASSES = 512

Pair = frozenset[str]


def drop_redundant_rules(rules: Rules) -> Rules:
    """Return the rules without those on two columns that follow from rules of either with a third.

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
