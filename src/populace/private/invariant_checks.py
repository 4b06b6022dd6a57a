"""Exact totals that the barrier refuses to publish, from public facts alone."""

from __future__ import annotations

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.measurements.exact_counts import level_marginal
from populace.private.question_checks import check_marginals
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours


def check_invariant(level: str, *, schema: Schema) -> Marginal:
    """Return the marginal of exact totals; refuse totals on which neighbours need not agree."""
    if schema.unit.neighbours is not Neighbours.REPLACE_WITHIN or level not in schema.invariants:
        raise UsageError(
            f"the exact totals by {level!r} cannot be published for {schema.unit.neighbours.value} neighbours.",
            hint="declare them with [[invariants]] in the schema, which changes who is protected: see the statement",
        )
    marginal = level_marginal(schema, level)
    check_marginals([marginal], domain=schema.domain)
    return marginal
