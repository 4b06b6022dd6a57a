"""The barrier: the one place where private counts meet noise.

Every question is checked against public facts, priced, and charged to the ledger on disk *before* a row is
read. A question that is refused has read nothing; one that fails later has still been paid for.
What comes back is integers: exact counts plus integer noise, or the number of a candidate. Counts come back exact only
where all neighbours agree on them: the totals that the schema declares invariant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Candidates, Counts, Marginal
from populace.measurements.exact_counts import describe_totals
from populace.measurements.measurements import Batch, Measurement
from populace.measurements.public_marginals import PublicTable
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.fixed_point import LOG_STEPS, STEPS
from populace.privacy.accounting.mechanisms import (
    WHOLE_ROWS,
    Exponential,
    ExponentialCount,
    Mechanism,
    Noise,
    PartitionSelection,
    Spend,
    Verb,
)
from populace.privacy.ledger.ledger import Run
from populace.privacy.noise.noise_source import NoiseSource, is_secret
from populace.privacy.sensitivity.candidate_scores import Rank, append_none, score_candidates, score_firsts
from populace.privacy.smooth.smooth_noise import SmoothNoise
from populace.private.invariant_checks import check_invariant
from populace.private.private_table import PrivateTable
from populace.private.question_checks import check_candidates, check_groups, check_marginals, describe
from populace.private.redact import redact_errors
from populace.schema.columns.unknown_columns import UnknownValues
from populace.schema.public_facts import PublicFacts
from populace.schema.schema import Schema

if TYPE_CHECKING:
    from populace.survey.smooth_questions import BinChoice, SmoothQuestion
    from populace.survey.survey_oracle import SumBatch


@redact_errors
class Barrier(PublicFacts):
    """Answers questions about one private table, within the budget of one run of the ledger."""

    __slots__ = ("_budget", "_noise", "_public", "_run", "_scored", "_scores", "_table")

    def __init__(
        self, table: PrivateTable, *, run: Run, noise: NoiseSource, public: PublicTable | None = None
    ) -> None:
        if is_secret(noise) == run.rehearsal:
            raise UsageError(
                "the run and the randomness disagree about being a rehearsal.",
                hint="reserve the run with rehearsal=not is_secret(noise)",
            )
        self._table = table
        self._run = run
        self._budget = run.left
        self._noise = noise
        self._public = public
        self._scored: Candidates | None = None
        self._scores: Counts = np.zeros(0, dtype=np.int64)

    def __repr__(self) -> str:
        return f"Barrier({self._table!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a barrier is never pickled")

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return self._table.schema

    @property
    def public(self) -> PublicTable | None:
        """A table that everybody may know, if the curator gave one."""
        return self._public

    @property
    def budget(self) -> Budget:
        """What was left of the run's budget when this barrier was made, as public arithmetic."""
        return self._budget

    def measure(
        self, marginals: Sequence[Marginal], *, noise: Noise | ExponentialCount
    ) -> tuple[Measurement, ...]:
        """Count each marginal and add independent integer noise to every cell."""
        return self.measure_batches([(marginals, noise)])

    def measure_batches(self, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        """Count each marginal and add independent integer noise to every cell, as much as its batch asks for.

        All batches are charged in one go, or none of them, before a row is read. One row lies in exactly one cell of a
        marginal, so a unit of r rows moves it by at most r in L1 and in L2 (under replace-one: 2r and √2·r), whatever
        the domain. Proof: docs/proofs/measure.md; within a range docs/proofs/exponential-histogram.md.
        """
        if not batches:
            check_marginals([], domain=self.domain)
        for marginals, _ in batches:
            check_marginals(marginals, domain=self.domain)
        self._run.charge(
            *(
                self._spend("measure", describe(marginals), mechanism=noise, answers=len(marginals))
                for marginals, noise in batches
            )
        )
        asked = [(marginal, noise) for marginals, noise in batches for marginal in marginals]
        exact = self._table.engine().counts([marginal for marginal, _ in asked])
        return tuple(
            Measurement(marginal, self._noise.add(counts, mechanism=noise), noise.variance)
            for (marginal, noise), counts in zip(asked, exact, strict=True)
        )

    def score(self, candidates: Candidates, *, noise: Noise) -> Counts:
        """Return every candidate's score with integer noise added.

        The L1 distance to a fixed integer table moves by at most r when a unit comes or goes (2r when it is
        replaced), and a score by its weight times that. Proof: docs/proofs/score.md.
        """
        check_candidates(candidates, domain=self.domain)
        shift = max(candidates.weights) * self._table.schema.unit.score_shift
        count = len(candidates.marginals)
        what = f"{count} distances to public estimates"
        self._run.charge(self._spend("score", what, mechanism=noise, answers=count, shift=shift))
        return self._noise.add(self._exact_scores(candidates), mechanism=noise)

    def choose(
        self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential, none: bool = True
    ) -> int | None:
        """Choose one candidate, or none, by the exponential mechanism.

        A candidate has probability ∝ exp(ε · score / 2Δ), where Δ is how far a unit can move a score, its weight
        included: scores move both up and down, so the factor 2 is needed. "None" counts for as much as all candidates
        together when their scores are 0; it can be left out. Proof: docs/proofs/choose.md.
        """
        what = f"1 {'or none ' if none else ''}of {len(among)} marginals"
        return self._pick(candidates, among, what, mechanism, append_none if none else np.copy)

    def find_far(self, candidates: Candidates, *, among: Sequence[int], mechanism: Exponential) -> int | None:
        """Find the first candidate whose score is above 0, or none, by the exponential mechanism, for one price.

        By how much one is the first moves as far as a score does. Proof: docs/proofs/find-far.md.
        """
        what = f"the first of {len(among)} marginals above 0, or none"
        return self._pick(candidates, among, what, mechanism, score_firsts)

    def discover_values(self, column: str, *, mechanism: PartitionSelection) -> Mapping[str, int]:
        """Return the values of a column whose noisy counts exceed a threshold, with these counts, sorted by text.

        Noise hides how many rows of a unit hold a value that others hold too. A value that one unit alone has is
        released with at most the probability that the charge takes from δ; one that nobody has is never released.
        Proof: docs/proofs/discover.md.
        """
        known = not isinstance(self._table.schema.columns.get(column), UnknownValues)
        if known or not _selects_partitions(mechanism):
            raise UsageError(
                f"the values of {column!r} cannot be learnt with {mechanism}.",
                hint='ask for columns with values = "learn", above a threshold',
            )
        self._run.charge(self._spend("discover", f"values of {column!r}", mechanism=mechanism))
        tally = self._table.tally(column)
        return self._noise.reveal(tally.keys, tally.counts, mechanism=mechanism)

    def discover_rows(self, *, mechanism: PartitionSelection) -> Mapping[tuple[int, ...], int]:
        """Return the rows, as codes of all columns, whose noisy counts exceed a threshold, with these counts, sorted.

        A row is a key as a value is: one that one unit alone has is released with at most the probability that the
        charge takes from δ, one that nobody has is never released. Proof: docs/proofs/discover.md.
        """
        if not _selects_partitions(mechanism):
            raise UsageError(f"rows cannot have {mechanism}.", hint="ask for those above a threshold")
        self._run.charge(self._spend("discover", WHOLE_ROWS, mechanism=mechanism))
        rows, counts = self._table.engine().tally()
        return self._noise.reveal(rows, counts, mechanism=mechanism)

    def discover_bins(self, column: str, *, groups: Counts, noise: Noise) -> Counts:
        """Return noisy counts of groups of a column's codes.

        `groups` numbers the group of every code, special codes included, so a row lies in exactly one group, as it
        lies in one cell of a marginal. Proof: docs/proofs/discover.md.
        """
        check_marginals([Marginal((column,))], domain=self.domain)
        groups = np.array(groups)
        check_groups(groups, column=column, size=self.domain[column])
        if _selects_partitions(noise):
            raise UsageError(f"bins cannot be learnt with {noise}.", hint="count them with noise alone")
        self._run.charge(self._spend("discover", f"bins of {column!r}", mechanism=noise))
        engine, whole = self._table.engine(), [Marginal((column,))]
        engine.prepare(whole, memory=LIMITS.max_prepared_bytes)
        (cells,) = engine.counts(whole)
        exact = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(exact, groups, cells)
        return self._noise.add(exact, mechanism=noise)

    def publish_totals(self, level: str) -> Measurement:
        """Return the exact totals of a level that the schema declares invariant: neighbours agree, they cost nothing.

        They are booked before a row is read all the same. Proof: docs/proofs/invariants.md.
        """
        marginal = check_invariant(level, schema=self.schema)
        self._run.book_totals(level, what=describe_totals(level))
        (exact,) = self._table.engine().counts([marginal])
        return Measurement(marginal, exact, Fraction(0))

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        """Return sums over rows, in steps, with independent integer noise in every cell, as much as its batch asks for.

        One row adds at most STEPS to one cell of a sum, up or down, so a unit of r rows moves one sum by at most
        r·STEPS in L1 and in L2 (under replace-one: 2r·STEPS in both, for what leaves a cell need not have the sign of
        what enters it). Filled rows add fewer steps each. All batches are charged in one go, or none.
        Proof: docs/proofs/sums.md, of filled rows docs/proofs/donor-limit.md.
        """
        # Here and below: synthesis never asks survey questions, and starts without their code.
        from populace.private.survey.exact_sums import add_up, check_noise, check_sums

        if not batches:
            check_sums([], schema=self.schema)
        for sums, noise in batches:
            check_sums(sums, schema=self.schema)
            check_noise(noise)
        shift = STEPS * self.schema.unit.marginal_l1
        self._run.charge(
            *(
                self._spend(
                    "measure", describe(sums, "sums"), mechanism=noise, answers=len(sums), shift=shift
                )
                for sums, noise in batches
            )
        )
        rows = self._table.survey_rows()
        asked = [(each, noise) for sums, noise in batches for each in sums]
        exact = [add_up(rows, each, schema=self.schema, key=self._run.id) for each, _ in asked]
        return tuple(
            self._noise.add(cells, mechanism=noise) for cells, (_, noise) in zip(exact, asked, strict=True)
        )

    def smooth(self, question: SmoothQuestion, *, mechanism: SmoothNoise, lattice: Fraction) -> Fraction:
        """Return a number with noise that follows a smooth bound on its own rows, rounded to a public lattice.

        The bound changes by at most e^t from one row to the next, so a unit of r rows costs r times as much as one
        row. The bound, and so the scale of the noise, is never released. Proof: docs/proofs/smooth.md.
        """
        from populace.private.survey.smooth_answers import answer, check_noise_and_lattice, check_question

        check_question(question, schema=self.schema)
        check_noise_and_lattice(question, mechanism=mechanism, lattice=lattice)
        shift = self.schema.unit.marginal_l1
        self._run.charge(self._spend("smooth", str(question), mechanism=mechanism, shift=shift))
        exact, bound = answer(self._table.survey_rows(), question, schema=self.schema, key=self._run.id)
        return self._noise.smooth(exact, bound, mechanism=mechanism, lattice=lattice)

    def bound_size(self, question: SmoothQuestion, *, noise: Noise) -> int:
        """Return the logarithm of a smooth bound, in steps, with integer noise.

        It moves by at most t from one row to the next: LOG_STEPS. Proof: docs/proofs/smooth.md.
        """
        from populace.private.survey.exact_sums import check_noise
        from populace.private.survey.smooth_answers import check_question, log_bound_steps

        check_question(question, schema=self.schema)
        check_noise(noise)
        shift, what = LOG_STEPS * self.schema.unit.marginal_l1, f"size of the bound on {question}"
        self._run.charge(self._spend("score", what, mechanism=noise, shift=shift))
        steps = log_bound_steps(self._table.survey_rows(), question, schema=self.schema, key=self._run.id)
        return int(self._noise.add(steps, mechanism=noise))

    def choose_bins(self, question: BinChoice, *, mechanism: Exponential) -> int:
        """Choose one of several sets of bins by the exponential mechanism.

        Scores |S|/W₀ are multiplied and rounded down to whole numbers, which one row moves by at most a public number.
        Proof: docs/proofs/binning.md, docs/proofs/choose.md.
        """
        from populace.private.survey.smooth_answers import check_choice, integer_scores, scale_scores

        check_choice(question, schema=self.schema)
        times, step = scale_scores(question)
        shift = step * self.schema.unit.marginal_l1
        what = f"1 of {len(question.binnings)} sets of bins"
        self._run.charge(self._spend("choose", what, mechanism=mechanism, shift=shift))
        scores = integer_scores(self._table.survey_rows(), question, schema=self.schema, times=times)
        return self._noise.pick(scores, rate=mechanism.rate(sensitivity=shift))

    def _pick(
        self, candidates: Candidates, among: Sequence[int], what: str, mechanism: Exponential, rank: Rank
    ) -> int | None:
        """Pick one by ranks that move as far as scores. Proof: docs/proofs/choose.md, docs/proofs/find-far.md."""
        check_candidates(candidates, domain=self.domain, among=among)
        shift = max(candidates.weights[number] for number in among) * self._table.schema.unit.score_shift
        self._run.charge(self._spend("choose", what, mechanism=mechanism, shift=shift))
        scores = rank(self._exact_scores(candidates)[np.asarray(among, dtype=np.intp)])
        number = self._noise.pick(scores, rate=mechanism.rate(sensitivity=shift))
        return among[number] if number < len(among) else None

    def _spend(
        self, verb: Verb, what: str, *, mechanism: Mechanism, answers: int = 1, shift: int | None = None
    ) -> Spend:
        """Return a question as it is charged: answers move as marginals do, or by a shift of their own."""
        unit = self._table.schema.unit
        return Spend(
            verb=verb,
            what=what,
            mechanism=mechanism,
            answers=answers,
            l1=unit.marginal_l1 if shift is None else shift,
            l2_squared=unit.marginal_l2_squared if shift is None else shift**2,
        )

    def _exact_scores(self, candidates: Candidates) -> Counts:
        """Return the exact scores, kept while the same candidates are asked about: every use is charged."""
        if self._scored is not candidates:
            engine = self._table.engine()
            engine.prepare(candidates.marginals, memory=LIMITS.max_prepared_bytes)
            exact = engine.counts(candidates.marginals)
            self._scored, self._scores = candidates, score_candidates(exact, candidates)
        return self._scores


def _selects_partitions(mechanism: object) -> bool:
    """Say whether a mechanism tells keys; asked of whatever comes in, not of what its type promises."""
    return isinstance(mechanism, PartitionSelection)
