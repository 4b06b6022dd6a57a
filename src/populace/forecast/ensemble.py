"""Several rehearsals together: the method against invented populations of different kinds, and what they agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from populace.forecast.effort import Effort, effort
from populace.forecast.pairs import PairError, Supposed, pair_errors, suppose
from populace.forecast.population import Floats, invent
from populace.forecast.rehearsal import Rehearsal, Terms, rehearse
from populace.forecast.shares import fitting
from populace.forecast.spread import Spread, by_chance, by_choice
from populace.forecast.verdict import Outcome
from populace.forecast.worth import Worth, worth
from populace.marginals import Clique
from populace.progress import Progress, silent
from populace.records import dataclass
from populace.strategy.methods import AUTO

# How often usual tables are rehearsed where there are up to so many columns; above, each kind shows enough of them.
OFTEN = {20: 6, 40: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One rehearsal: to which side its population leans, where its columns begin, and how much it counts.

    `tied` is how much more closely columns go together than they usually do in such a table.
    """

    lean: float
    turn: float
    weight: float
    tied: float = 0.0


# Three points that stand for a normal law, those at the ends two deviations out: tables of uneven columns that hardly
# go together, usual ones, and tables of even columns that do.
FAR, RARE = 1.2, 1 / 8
# Usual tables as well go together more or less closely, whatever their columns are like.
TIED = (0.0, -1.0, 1.0)
LEANING = (Part(lean=-FAR, turn=1 / 3, weight=RARE), Part(lean=FAR, turn=2 / 3, weight=RARE))


def cast(columns: int) -> tuple[Part, ...]:
    """Return the rehearsals for a table of so many columns."""
    times = next((times for most, times in OFTEN.items() if columns <= most), 1)
    weight = (1 - 2 * RARE) / times
    ties = TIED if times % len(TIED) == 0 else (0.0,)
    usual = (
        Part(lean=0, turn=number / times, weight=weight, tied=ties[number % len(ties)])
        for number in range(times)
    )
    return (*usual, *LEANING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ensemble:
    """What rehearsals came to, with their weights, and what pairs would err by in each."""

    terms: Terms
    known: Mapping[str, Floats]
    parts: tuple[Part, ...]
    runs: tuple[Rehearsal, ...]
    supposed: tuple[Mapping[Clique, Supposed], ...]
    worths: tuple[Worth, ...]

    @property
    def weights(self) -> list[float]:
        """How much each rehearsal counts."""
        return [part.weight for part in self.parts]

    @property
    def outcome(self) -> Outcome:
        """The mean error of columns, and the balance of pairs in usual tables, where the method measures any."""
        chooses = self.terms.method == AUTO or any(run.pairs for run in self.runs)
        usual = [each for each, part in zip(self.worths, self.parts, strict=True) if not part.lean]
        alone = sum(each.alone for each in usual)
        balance = sum(each.left for each in usual) / alone if chooses and alone else 0.0
        return Outcome(error=self.columns.mean, balance=balance)

    @property
    def columns(self) -> Spread:
        """The mean error of columns."""
        sizes = list(self.terms.schema.domain.values())
        chance = max(by_chance(run.columns.values(), cells=sizes) for run in self.runs)
        means = [_mean(run.columns) for run in self.runs]
        return Spread.of(means, weights=self.weights, chance=chance, most=1.0)

    @property
    def by_column(self) -> dict[str, Spread]:
        """The error of each column."""
        found = {}
        for name, codes in self.terms.schema.domain.items():
            errors = [run.columns[name] for run in self.runs]
            chance = by_chance([1.0], cells=[codes])
            found[name] = Spread.of(errors, weights=self.weights, chance=chance, most=1.0)
        return found

    @property
    def pairs(self) -> Spread | None:
        """The mean error of the pairs that were measured, or None where none were."""
        told = [(run, part) for run, part in zip(self.runs, self.parts, strict=True) if run.pairs]
        if not told:
            return None
        chance = max(self._chance(run.pairs) for run, _ in told)
        means = [_mean(run.pairs) for run, _ in told]
        return Spread.of(means, weights=[part.weight for _, part in told], chance=chance, most=1.0)

    def _chance(self, pairs: Mapping[Clique, float]) -> float:
        """Return how far the mean error of measured pairs lies off by chance: by noise, and by which pairs they are."""
        noise = by_chance(pairs.values(), cells=map(self.terms.schema.domain.cells, pairs))
        return math.hypot(noise, by_choice(pairs.values(), possible=self._possible))

    @property
    def _possible(self) -> float:
        columns = len(self.terms.schema.domain)
        return columns * (columns - 1) / 2

    @property
    def by_pair(self) -> dict[Clique, PairError]:
        """What each pair errs by if it is measured."""
        return pair_errors(
            self.supposed,
            measured=[run.pairs for run in self.runs],
            weights=self.weights,
            schema=self.terms.schema,
            known=self.known,
            columns={name: error.mean for name, error in self.by_column.items()},
        )

    @property
    def afforded(self) -> Spread:
        """How many pairs were measured: by chance more or fewer where the method chooses how many."""
        numbers = [float(len(run.pairs)) for run in self.runs]
        if self.terms.method != AUTO:
            return Spread.of(numbers, weights=self.weights)
        return Spread.of_counts(numbers, weights=self.weights, most=self._possible)

    @property
    def shares(self) -> dict[str, float]:
        """The share of the budget that each kind of question took."""
        labels = dict.fromkeys(label for run in self.runs for label in run.shares)
        told = {label: [run.shares.get(label, 0.0) for run in self.runs] for label in labels}
        return {label: float(np.average(shares, weights=self.weights)) for label, shares in told.items()}

    def effort(self, *, rows: int) -> Effort:
        """Return the effort of a run."""
        schema = self.terms.schema
        each = [effort(schema, rows=rows, items=run.items, seconds=run.seconds) for run in self.runs]
        seconds = float(np.average([one.seconds for one in each], weights=self.weights))
        return Effort(seconds=seconds, memory=max(one.memory for one in each))


def rehearse_all(
    terms: Terms,
    *,
    rows: int,
    seed: int,
    pairs: bool = False,
    known: Mapping[str, Floats] = MappingProxyType({}),
    progress: Progress = silent,
) -> Ensemble:
    """Rehearse a run on invented populations of so many rows; with `pairs`, say what each pair would err by.

    `known` are public shares of the codes of columns.
    """
    known = fitting(known, terms.schema)
    parts = cast(len(terms.schema.domain))
    runs, supposed, worths = [], [], []
    for number, part in enumerate(parts):
        progress("rehearsing", number / len(parts))
        rng = np.random.default_rng([seed, number])
        population = invent(
            terms.schema, rows=rows, rng=rng, lean=part.lean, turn=part.turn, tied=part.tied, known=known
        )
        run = rehearse(terms, population, rng=rng)
        runs.append(run)
        # Other methods that measured no pair never do, or choose in ways that single columns say nothing about.
        asked = pairs and (run.pairs or terms.method == AUTO)
        told = suppose(run.items, population=population, measured=run.pairs, rng=rng) if asked else {}
        supposed.append(told)
        worths.append(worth(run.items, population=population, columns=run.columns, pairs=run.pairs))
    return Ensemble(
        terms=terms,
        known=known,
        parts=parts,
        runs=tuple(runs),
        supposed=tuple(supposed),
        worths=tuple(worths),
    )


def _mean(errors: Mapping[Any, float]) -> float:
    return float(np.mean(list(errors.values())))
