"""What an engine must do: count exactly. It never adds noise and never decides what may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt

from populace.core.marginals import Counts, Marginal


class Engine(Protocol):
    """Exact counts over private rows.

    The methods are called by the barrier alone, and only after a charge is on disk.
    """

    def prepare(self, marginals: Sequence[Marginal], *, memory: int) -> None:
        """Count candidate marginals in one pass and keep them; all that is kept takes at most `memory` bytes."""

    def counts(self, marginals: Sequence[Marginal]) -> tuple[Counts, ...]:
        """Return the exact counts of each marginal, in its public shape."""

    def tally(self) -> tuple[npt.NDArray[Any], Counts]:
        """Return the rows that occur, sorted, a row of codes each, and how often: work grows with rows, not cells."""
