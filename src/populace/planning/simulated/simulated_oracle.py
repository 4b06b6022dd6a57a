"""An oracle without private rows: it answers a method's questions about an invented or a public population."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Candidates, Counts, Marginal
from populace.measurements.exact_counts import level_marginal
from populace.measurements.measurements import Batch, Measurement
from populace.measurements.public_marginals import PublicTable
from populace.planning.simulated.populations import SimulatedPopulation
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    Exponential,
    ExponentialCount,
    Mechanism,
    Noise,
    PartitionSelection,
    Spend,
    Verb,
)
from populace.privacy.sensitivity.candidate_scores import Rank, append_none, score_candidates, score_firsts
from populace.schema.public_facts import PublicFacts
from populace.schema.schema import Schema


@dataclass(slots=True, kw_only=True)
class SimulatedOracle(PublicFacts):
    """Answers as the barrier would, with as much noise, drawn from public random numbers.

    It keeps the bill: what was asked, and over how many columns its tables are.
    """

    population: SimulatedPopulation
    budget: Budget
    rng: np.random.Generator
    bill: list[tuple[Spend, int]] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        """The schema of the population."""
        return self.population.schema

    @property
    def public(self) -> PublicTable | None:
        """None: a plan is made without a public table to learn from."""
        return None

    @property
    def earlier(self) -> tuple[Measurement, ...]:
        """None: a plan is made without earlier releases."""
        return ()

    def discover_rows(self, *, mechanism: PartitionSelection) -> Mapping[tuple[int, ...], int]:
        """Refuse: how often whole rows repeat is what no invented population has."""
        raise UsageError(
            f"no plan can predict which rows would be released above {mechanism.threshold}.",
            hint="plan another method; docs/methods/stability.md says which rows it releases",
        )

    def measure(
        self, marginals: Sequence[Marginal], *, noise: Noise | ExponentialCount
    ) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal."""
        return self.measure_batches([(marginals, noise)])

    def measure_batches(self, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        """Return noisy counts of each marginal, with the noise of its batch."""
        unit = self.budget.unit
        found: list[Measurement] = []
        for marginals, noise in batches:
            widths = Counter(len(marginal.clique) for marginal in marginals)
            for columns, answers in sorted(widths.items()):
                moves = (unit.marginal_l1, unit.marginal_l2_squared)
                self._book("measure", noise, answers=answers, moves=moves, columns=columns)
            for marginal in marginals:
                counts = draw_noisy_counts(self.population.exact(marginal), noise, rng=self.rng)
                found.append(Measurement(marginal, counts, noise.variance))
        return tuple(found)

    def publish_totals(self, level: str) -> Measurement:
        """Return exact totals, which cost nothing."""
        marginal = level_marginal(self.schema, level)
        return Measurement(marginal, self.population.exact(marginal), Fraction(0))

    def score(self, candidates: Candidates, *, noise: Noise) -> Counts:
        """Return a noisy score for every candidate."""
        shift = max(candidates.weights) * self.budget.unit.score_shift
        columns = max(len(marginal.clique) for marginal in candidates.marginals)
        answers = len(candidates.marginals)
        self._book("score", noise, answers=answers, moves=(shift, shift**2), columns=columns)
        return draw_noisy_counts(self._scores(candidates), noise, rng=self.rng)

    def choose(
        self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential, none: bool = True
    ) -> int | None:
        """Return the number of one candidate, likely one with a high score, or None."""
        return self._pick(candidates, among, mechanism, rank=append_none if none else np.copy)

    def find_far(self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential) -> int | None:
        """Return the number of the first candidate whose score is above 0, likely, or None."""
        return self._pick(candidates, among, mechanism, rank=score_firsts)

    def _pick(
        self, candidates: Candidates, among: Sequence[int], mechanism: Exponential, *, rank: Rank
    ) -> int | None:
        shift = max(candidates.weights[number] for number in among) * self.budget.unit.score_shift
        columns = max(len(candidates.marginals[number].clique) for number in among)
        self._book("choose", mechanism, answers=1, moves=(shift, shift**2), columns=columns)
        scores = rank(self._scores(candidates)[np.asarray(among, dtype=np.intp)])
        # The largest of scores with Gumbel noise follows the exponential mechanism.
        keys = float(mechanism.rate(sensitivity=shift)) * scores + self.rng.gumbel(size=len(scores))
        number = int(np.argmax(keys))
        return among[number] if number < len(among) else None

    def _scores(self, candidates: Candidates) -> Counts:
        return score_candidates([self.population.exact(each) for each in candidates.marginals], candidates)

    def _book(
        self, verb: Verb, mechanism: Mechanism, *, answers: int, moves: tuple[int, int], columns: int
    ) -> None:
        spend = Spend(
            verb=verb, what="", mechanism=mechanism, answers=answers, l1=moves[0], l2_squared=moves[1]
        )
        self.bill.append((spend, columns))


def draw_noisy_counts(
    exact: Counts, mechanism: Noise | ExponentialCount, *, rng: np.random.Generator
) -> Counts:
    """Return counts with noise from public random numbers, for rows that nobody has to protect."""
    if isinstance(mechanism, DiscreteGaussian):
        drawn = rng.normal(0.0, float(mechanism.variance) ** 0.5, exact.shape)
    else:
        drawn = rng.laplace(0.0, float(mechanism.scale), exact.shape)
    noisy = exact + np.rint(drawn).astype(np.int64)
    if isinstance(mechanism, ExponentialCount):
        # Both sides of the range mirror what is beyond them, which is close to drawing again.
        noisy = np.clip(
            np.where(noisy > mechanism.most, 2 * mechanism.most - noisy, np.abs(noisy)), 0, mechanism.most
        )
    return noisy
