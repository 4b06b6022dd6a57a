"""Counts that are asked of another machine in one go, and kept there and then."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Counts, Domain, Marginal


class KeptCounts(ABC):
    """An engine that has each batch of marginals counted in one job, and keeps the last one that it prepared."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._kept: Mapping[Marginal, Counts] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._domain)} columns)"

    def prepare(self, marginals: Sequence[Marginal], *, memory: int) -> None:
        """Count marginals in one pass and keep them, as far as `memory` bytes reach; those of earlier calls go."""
        asked = []
        for marginal in dict.fromkeys(marginals):
            memory -= 8 * math.prod(marginal.shape(self._domain))
            if memory < 0:
                break
            asked.append(marginal)
        self._kept = self._ask(asked)

    def counts(self, marginals: Sequence[Marginal]) -> tuple[Counts, ...]:
        """Return the exact counts of each marginal, in its public shape."""
        found = self._ask(marginals)
        return tuple(found[marginal] for marginal in marginals)

    def _ask(self, marginals: Sequence[Marginal]) -> dict[Marginal, Counts]:
        """Return counts that are kept as they are, and all others from one job."""
        missing = [m for m in dict.fromkeys(marginals) if m not in self._kept]
        found = {marginal: self._kept[marginal] for marginal in marginals if marginal in self._kept}
        if missing:
            cells = self._count_cells(missing)
            for number, marginal in enumerate(missing):
                found[marginal] = self._fill(marginal, *(part[cells[0] == number] for part in cells[1:]))
        return found

    def _fill(self, marginal: Marginal, cells: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> Counts:
        counts: Counts = np.zeros(math.prod(marginal.shape(self._domain)), dtype=np.int64)
        counts[cells] = numbers
        return counts.reshape(marginal.shape(self._domain))

    @abstractmethod
    def _count_cells(self, marginals: Sequence[Marginal]) -> tuple[npt.NDArray[Any], ...]:
        """Return, of all cells that have rows, the place of its marginal, its own place there, and how many rows."""
