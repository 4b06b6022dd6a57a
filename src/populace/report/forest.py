"""The tree of measured pairs, as lines to print: every column under the one it was measured with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line of a printed tree: a column, how deep it hangs, and how strongly it goes with the one above."""

    column: str
    depth: int
    association: float | None


def branches(edges: Sequence[tuple[str, str, float]]) -> tuple[Branch, ...]:
    """Return the lines of the trees that the edges form, or nothing if they form a circle.

    Each tree starts at its best-connected column; below it, stronger associations come first.

    >>> [("  " * line.depth + line.column) for line in branches([("a", "b", 0.2), ("b", "c", 0.5)])]
    ['b', '  c', '  a']
    """
    near: dict[str, dict[str, float]] = {}
    for first, second, strength in edges:
        near.setdefault(first, {})[second] = strength
        near.setdefault(second, {})[first] = strength
    lines: list[Branch] = []
    seen: set[str] = set()
    trees = 0
    for start in sorted(near, key=lambda name: (-len(near[name]), name)):
        if start in seen:
            continue
        trees += 1
        waiting: list[tuple[str, int, float | None]] = [(start, 0, None)]
        while waiting:
            name, depth, association = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            lines.append(Branch(column=name, depth=depth, association=association))
            below = [(strength, other) for other, strength in near[name].items() if other not in seen]
            waiting.extend((other, depth + 1, strength) for strength, other in sorted(below))
    is_forest = len(edges) == len(near) - trees
    return tuple(lines) if is_forest else ()
