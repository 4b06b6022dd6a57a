"""What a strategy sees of the private table: questions it can pay for, and their noisy answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from populace.core.marginals import Candidates, Clique, Counts, Marginal
from populace.inference.model_space import DescribedTable
from populace.measurements.measurements import Batch, Measurement
from populace.measurements.public_marginals import PublicTable
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Exponential, ExponentialCount, Noise, PartitionSelection


class Oracle(DescribedTable, Protocol):
    """The questions of the barrier. Each is charged before it is answered, and refused when the budget is short."""

    @property
    def ordered(self) -> frozenset[str]: ...

    @property
    def max_rows(self) -> int | None: ...

    @property
    def groups(self) -> tuple[Clique, ...]: ...

    @property
    def partition(self) -> Clique: ...

    @property
    def public(self) -> PublicTable | None: ...

    @property
    def budget(self) -> Budget: ...

    def measure(
        self, marginals: Sequence[Marginal], *, noise: Noise | ExponentialCount
    ) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal."""
        ...

    def measure_batches(self, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal, with the noise of its batch; all are charged together, or none."""
        ...

    def score(self, candidates: Candidates, *, noise: Noise) -> Counts:
        """Return a noisy score for every candidate."""
        ...

    def choose(
        self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential, none: bool = True
    ) -> int | None:
        """Return the number of one candidate, likely one with a high score, out of `among`.

        None means that no candidate is better than none; it stands against all of `among` with score 0, unless
        it is left out.
        """
        ...

    def discover_rows(self, *, mechanism: PartitionSelection) -> Mapping[tuple[int, ...], int]:
        """Return the rows that are released, as codes of all columns, with their noisy counts."""
        ...
