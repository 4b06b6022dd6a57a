"""Tables of numbers over cliques, and how a smaller clique lies inside a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from populace.marginals import Clique, Domain

Table = npt.NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a clique lies inside a larger table: which axes are summed out, and how the others are ordered."""

    drop: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    shape: tuple[int, ...]

    @staticmethod
    def of(clique: Clique, *, inside: Clique, domain: Domain) -> Slot:
        """Return the slot of a clique inside a table over `inside`."""
        kept = [column for column in inside if column in clique]
        return Slot(
            drop=tuple(i for i, column in enumerate(inside) if column not in clique),
            order=tuple(kept.index(column) for column in clique),
            back=tuple(clique.index(column) for column in kept),
            shape=tuple(domain[column] if column in clique else 1 for column in inside),
        )

    def collapse(self, table: Table) -> Table:
        """Sum a table over everything but the clique."""
        kept = np.add.reduce(table, axis=self.drop) if self.drop else table
        return kept.transpose(self.order)

    def spread(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """View values over the clique in a shape that broadcasts against the table."""
        return values.transpose(self.back).reshape(self.shape)
