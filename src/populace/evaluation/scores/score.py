"""A score: a number that says in which direction it is better, on which scale, and what it cannot see."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

# Two-sided 95 % of the normal distribution.
NORMAL_95 = 1.959963984540054


class Direction(StrEnum):
    """Which values are better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One comparison of two files.

    `interval` holds the score at 95 %, in the sense that `interval_of` names. Most scores are exact for the two files:
    their interval is the value itself.

    >>> lower = Direction.LOWER
    >>> score = Score(name="tv_pairs", title="Pairs", value=0.25, direction=lower, scale="0 to 1", blind_to="triples")
    >>> score.to_json()["interval"], score.to_json()["direction"]
    ([0.25, 0.25], 'lower')
    """

    name: str
    title: str
    value: float
    direction: Direction
    scale: str
    blind_to: str
    interval: tuple[float, float] | None = None
    interval_of: str = "exact for these two files"
    note: str = ""

    def __post_init__(self) -> None:
        low, high = self.interval or (self.value, self.value)
        object.__setattr__(self, "value", float(self.value))
        object.__setattr__(self, "interval", (float(low), float(high)))
        if not all(map(math.isfinite, (self.value, low, high))):
            raise ValueError(f"the score {self.name} is not a finite number")

    def rename(self, name: str, *, title: str) -> Score:
        """Return the same score under another name."""
        return replace(self, name=name, title=title)

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain values."""
        low, high = self.interval or (self.value, self.value)
        return {
            "value": self.value,
            "interval": [low, high],
            "direction": self.direction.value,
            "scale": self.scale,
            "blind_to": self.blind_to,
            "interval_of": self.interval_of,
            "title": self.title,
            **({"note": self.note} if self.note else {}),
        }
