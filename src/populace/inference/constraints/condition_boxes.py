"""Conditions cut into boxes: disjoint parts in which every column is restricted by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique
from populace.schema.conditions.rules import Allowed, Rules

Box = Mapping[str, Allowed]


def cut_into_boxes(rules: Rules, *, text: str) -> list[Box]:
    """Return disjoint boxes that hold just the rows which keep all rules: the classes allowed of some columns.

    A condition that falls into very many of them is refused; `text` names it.
    """
    found: list[Box] = [{}]
    for rule in rules.rules:
        parts = cut_table(rule.clique, rule.allowed)
        found = [both for box in found for part in parts if (both := _intersect(box, part)) is not None]
        if len(found) > LIMITS.max_condition_boxes:
            raise UsageError(
                f"{text} falls into more than {LIMITS.max_condition_boxes} cases.",
                hint="compare columns with values instead of with each other, or say it with fewer alternatives",
            )
    return found


def cut_table(clique: Clique, allowed: Allowed) -> list[Box]:
    """Return disjoint boxes that cover just the cells of a table which are allowed.

    The table is cut along the column with the fewest different slices; alike slices stay together.

    >>> old_or_poor = np.array([[False, True], [True, True]])
    >>> [{name: classes.tolist() for name, classes in box.items()} for box in cut_table(("age", "pay"), old_or_poor)]
    [{'age': [True, False], 'pay': [False, True]}, {'age': [False, True]}]
    """
    if not allowed.any():
        return []
    if allowed.all():
        return [{}]
    slices = [np.moveaxis(allowed, axis, 0).reshape(size, -1) for axis, size in enumerate(allowed.shape)]
    kinds = [np.unique(each, axis=0, return_index=True, return_inverse=True)[1:] for each in slices]
    axis = min(
        (axis for axis, (firsts, _) in enumerate(kinds) if len(firsts) > 1),
        key=lambda axis: len(kinds[axis][0]),
    )
    firsts, numbers = kinds[axis]
    rest = clique[:axis] + clique[axis + 1 :]
    return [
        {clique[axis]: np.asarray(numbers.reshape(-1) == number), **inner}
        for number, first in enumerate(firsts)
        for inner in cut_table(rest, np.asarray(allowed.take(first, axis=axis)))
    ]


def _intersect(one: Box, other: Box) -> Box | None:
    """Return what two boxes share, or None where that is nothing."""
    both = dict(one)
    for name, classes in other.items():
        both[name] = both[name] & classes if name in both else classes
        if not both[name].any():
            return None
    return both
