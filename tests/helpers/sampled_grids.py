"""A few cases of a large grid for the fast tests: every value of every parameter as early as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def choose_cases(grid: Sequence[Mapping[str, int]], *, count: int) -> list[int]:
    """Return the places of `count` cases, or of all if there are no more; a case holds the number of each value.

    One after another: whichever case has most values that were in none before, and of those the one that lies
    furthest from all that are chosen.

    >>> choose_cases([{"a": a, "b": b} for a in range(3) for b in range(2)], count=3)
    [0, 2, 5]
    >>> choose_cases([{"a": a} for a in range(9)], count=3)
    [0, 4, 8]
    """
    chosen: list[int] = []
    seen: set[tuple[str, int]] = set()
    for _ in range(min(count, len(grid))):
        best = max(
            (place for place in range(len(grid)) if place not in chosen),
            key=lambda place: (
                len(grid[place].items() - seen),
                min((abs(place - other) for other in chosen), default=0),
                -place,
            ),
        )
        chosen.append(best)
        seen |= grid[best].items()
    return sorted(chosen)
