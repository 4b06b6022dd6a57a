"""Whether there are enough rows, before a run is paid for: from what is public about their number, never from rows.

How many rows there are is private. Where nobody declares a public figure, nothing can be said before the first spend.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from populace.api.request import RunRequest
from populace.api.rule_measurement import RULE_CHECK_SHARE
from populace.core.errors import UsageError
from populace.core.marginals import MAX_ESTIMATE_ROWS
from populace.core.number_format import format_percent
from populace.core.progress import Progress, silent
from populace.methods.workload import resolve_workload
from populace.planning.simulated.column_shares import compute_declared_shares
from populace.planning.simulated.ensemble import simulate_ensemble
from populace.planning.simulated.simulated_run import RunTerms, close_domains
from populace.planning.verdict import PlanOutcome, Verdict
from populace.private.rule_table import rule_schema
from populace.schema.schema import Schema

# Tables of more columns take too long to simulate before every run; `populace plan` does it once.
MAX_JUDGED_COLUMNS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRows:
    """A number of rows that everybody may know, and where it comes from."""

    rows: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowJudgement:
    """What simulations of a run on invented tables of so many rows came to."""

    known: PublicRows
    outcome: PlanOutcome

    @property
    def too_few(self) -> bool:
        """Whether there are too few rows."""
        return self.outcome.verdict is Verdict.TOO_FEW

    @property
    def text(self) -> str:
        """Return the verdict of the plan, and what it rests on."""
        verdict, error = self.outcome.verdict.value, format_percent(self.outcome.error)
        return (
            f"{verdict} for these columns at this epsilon: with {self.known.rows:,} ({self.known.origin}), columns are "
            f"expected to err by {error} on average, and pairs to be mostly noise"
            if self.too_few
            else f"{verdict}: with {self.known.rows:,} ({self.known.origin}), columns are expected to err by {error}"
        )


def find_public_rows(schema: Schema, *, population: int | None = None) -> PublicRows | None:
    """Return what is public about the number of rows: the caller's figure, public totals, or `max_rows`; or None.

    >>> find_public_rows(Schema.from_sizes({"a": 2})) is None
    True
    >>> find_public_rows(Schema.from_sizes({"a": 2}), population=900)
    PublicRows(rows=900, origin='--population')
    """
    if population is not None:
        if not 1 <= population <= MAX_ESTIMATE_ROWS:
            hint = "give about how many rows there are, 1 or more, as a published figure or a guess has it"
            raise UsageError(f"the population is {population}.", hint=hint)
        return PublicRows(rows=population, origin="--population")
    if schema.totals:
        total = int(schema.totals[0].counts.sum())
        return PublicRows(rows=total, origin="by the public totals") if total > 0 else None
    return None if schema.max_rows is None else PublicRows(rows=schema.max_rows, origin="max_rows, the most")


def judge_rows(
    request: RunRequest, *, population: int | None = None, progress: Progress = silent
) -> RowJudgement | None:
    """Return the verdict of a plan on a request, or None where too little is public, or no plan can be made."""
    method, schema = request.synthesizer, request.schema
    known = find_public_rows(schema, population=population)
    closed = close_domains(schema)
    planned = not method.unplannable and method.plan_questions is None and request.public is None
    if known is None or not planned or len(closed.domain) > MAX_JUDGED_COLUMNS:
        return None
    terms = RunTerms.of(
        schema,
        epsilon=request.epsilon,
        delta=request.delta,
        method=method,
        workload=resolve_workload(request.workload)(closed),
        rule_share=RULE_CHECK_SHARE if request.check_rules and rule_schema(schema) else Fraction(0),
    )
    found = simulate_ensemble(
        terms, rows=known.rows, seed=0, known_shares=compute_declared_shares(schema), progress=progress
    )
    return RowJudgement(known=known, outcome=found.outcome)
