"""The tree of measured pairs, as lines to print: every column under the one it was measured with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Adjacency = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """One line of a printed tree: a column, how deep it hangs, under which one, and how strongly they go together."""

    column: str
    depth: int
    parent: str | None = None
    association: float | None = None


def list_tree(edges: Sequence[tuple[str, str, float]]) -> tuple[TreeLine, ...]:
    """Return the lines of the trees that the edges form, or nothing if they form a circle.

    Each tree hangs from its middle, so that it is as flat as can be; below a column, stronger associations come first.

    >>> [("  " * line.depth + line.column) for line in list_tree([("a", "b", 0.2), ("b", "c", 0.5)])]
    ['b', '  c', '  a']
    """
    near: dict[str, dict[str, float]] = {}
    for first, second, strength in edges:
        near.setdefault(first, {})[second] = strength
        near.setdefault(second, {})[first] = strength
    lines: list[TreeLine] = []
    placed: set[str] = set()
    trees = 0
    for start in near:
        if start in placed:
            continue
        trees += 1
        found = _depth_first(_find_centre(start, near), near)
        placed.update(line.column for line in found)
        lines.extend(found)
    return tuple(lines) if len(edges) == len(near) - trees else ()


def _depth_first(start: str, near: Adjacency) -> list[TreeLine]:
    """Return everything that hangs together with a column, as lines in depth-first order."""
    lines: list[TreeLine] = []
    seen = {start}
    waiting = [TreeLine(column=start, depth=0)]
    while waiting:
        line = waiting.pop()
        lines.append(line)
        for strength, other in sorted((s, name) for name, s in near[line.column].items() if name not in seen):
            seen.add(other)
            waiting.append(
                TreeLine(column=other, depth=line.depth + 1, parent=line.column, association=strength)
            )
    return lines


def _find_centre(start: str, near: Adjacency) -> str:
    """Return the middle of the longest path: go to a farthest column, to the farthest from there, and half back."""
    end = max(_depth_first(start, near), key=lambda line: line.depth).column
    lines = {line.column: line for line in _depth_first(end, near)}
    line = max(lines.values(), key=lambda line: line.depth)
    for _ in range(line.depth // 2):
        line = lines[line.parent or line.column]
    return line.column
