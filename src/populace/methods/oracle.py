"""What a strategy sees of the private table: questions it can pay for, and their noisy answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from populace.core.marginals import Candidates, Counts, Marginal
from populace.measurements.measurements import Batch, Measurement
from populace.measurements.public_marginals import PublicTable
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Exponential, ExponentialCount, Noise, PartitionSelection
from populace.schema.public_facts import PublicFacts


class TableOracle(PublicFacts, Protocol):
    """The questions of the barrier. Each is charged before it is answered, and refused when the budget is short."""

    @property
    def public(self) -> PublicTable | None: ...

    @property
    def budget(self) -> Budget: ...

    def measure(
        self, marginals: Sequence[Marginal], *, noise: Noise | ExponentialCount
    ) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal."""

    def measure_batches(self, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal, with the noise of its batch; all are charged together, or none."""

    def publish_totals(self, level: str) -> Measurement:
        """Return the exact totals of a level that the schema declares invariant: they cost nothing, variance 0."""

    def score(self, candidates: Candidates, *, noise: Noise) -> Counts:
        """Return a noisy score for every candidate."""

    def choose(
        self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential, none: bool = True
    ) -> int | None:
        """Return the number of one candidate, likely one with a high score, out of `among`.

        None means that no candidate is better than none; it stands against all of `among` with score 0, unless
        it is left out.
        """

    def find_far(self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential) -> int | None:
        """Return the number of the first candidate out of `among`, in its order, whose score is above 0, or None.

        Which one is told by chance: likely the first, where scores are far from 0. All tests together have one price.
        """

    def discover_rows(self, *, mechanism: PartitionSelection) -> Mapping[tuple[int, ...], int]:
        """Return the rows that are released, as codes of all columns, with their noisy counts."""


class Oracle(TableOracle, Protocol):
    """What a method sees: the questions, and what is known without asking."""

    @property
    def earlier(self) -> Sequence[Measurement]:
        """The tables of earlier releases of the account; they stand beside its own in the fit."""


class DomainOracle(Protocol):
    """The questions of the barrier about columns whose domain is not public."""

    @property
    def budget(self) -> Budget: ...

    def discover_values(self, column: str, *, mechanism: PartitionSelection) -> Mapping[str, int]:
        """Return the values that are released, with their noisy counts."""

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Return noisy counts of groups of the column's codes: `groups` numbers the group of every code."""


class QuestionOracle(TableOracle, DomainOracle, Protocol):
    """Every question of the barrier that methods and the learning of domains ask."""
