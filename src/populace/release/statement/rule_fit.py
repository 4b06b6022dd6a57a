"""Rules that the data do not keep, as far as noisy counts that were paid for tell.

Rows that break a rule are moved until they keep it, so a wrong universe would empty a column and leave no trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from populace.core.number_format import format_percent, format_percent_bound
from populace.measurements.measurements import Measurements
from populace.measurements.rule_checks import RuleOutcome
from populace.release.statement.domain_fit import (
    MAX_EXPECTED_SHARE,
    MAX_FALSE_WARNING_RATE,
    MAX_UNEXPECTED_SHARE,
    laplace_quantile,
)
from populace.schema.columns.column import Column
from populace.schema.schema import Schema

BROKEN_RULE_CAUSES = {
    RuleOutcome.BROKEN: "is the rule right, and are its columns the ones that were meant?",
    RuleOutcome.UNASKED: "is the universe too narrow, or does the file write another code than `outside`?",
    RuleOutcome.UNANSWERED: "is the universe too wide, or turned round?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """A rule that many rows broke: in which way, their estimated share, and its 95 % margin of error."""

    rule: str
    outcome: RuleOutcome
    share: float
    margin: float

    @property
    def text(self) -> str:
        """Return what is so, and the likely cause; the numbers are noisy counts, so that everybody may read it."""
        share = f"{format_percent(self.share)} of the rows (± {format_percent_bound(self.margin)})"
        way = "" if self.outcome is RuleOutcome.BROKEN else f" ({self.outcome.value})"
        return (
            f"About {share} broke the rule “{self.rule}”{way} and were moved to keep it. Likely cause: "
            f"{BROKEN_RULE_CAUSES[self.outcome]}"
        )


def find_broken_rules(measurements: Measurements) -> tuple[BrokenRule, ...]:
    """Return the rules that, surely, more rows broke than may go unsaid.

    With Bonferroni's correction over all counts, and the tails of Laplace noise, the heavier ones, rules that are kept
    are called broken with probability 1 % at most.
    """
    checks = measurements.rule_checks
    counts = sum(len(check.counts) for check in checks)
    if not checks:
        return ()
    tail = laplace_quantile(MAX_FALSE_WARNING_RATE / (counts + 1))
    totals = [sum(check.counts.values()) for check in checks]
    rows = sum(totals) / len(totals)
    most_rows = rows + tail * math.sqrt(float(sum(c.variance * len(c.counts) for c in checks))) / len(checks)
    found = []
    for check in checks:
        deviation = math.sqrt(float(check.variance))
        for outcome, count in check.counts.items():
            limit = max_broken_share(check.rule, outcome, schema=measurements.schema)
            if limit is None or rows <= 0 or count - tail * deviation <= limit * most_rows:
                continue
            margin = min(laplace_quantile(0.025) * deviation / rows, 1.0)
            found.append(
                BrokenRule(rule=check.rule, outcome=outcome, share=min(count / rows, 1.0), margin=margin)
            )
    return tuple(found)


def max_broken_share(rule: str, outcome: RuleOutcome, *, schema: Schema) -> float | None:
    """Return the share of rows that may break a rule unsaid; an empty cell may be one that nobody answered."""
    if outcome is RuleOutcome.KEPT:
        return None
    column = _column_of(rule, schema)
    if outcome is RuleOutcome.UNANSWERED and column is not None and not column.outside:
        return MAX_EXPECTED_SHARE
    return MAX_UNEXPECTED_SHARE


def _column_of(text: str, schema: Schema) -> Column | None:
    """Return the column whose universe a rule is."""
    for universe in schema.rulebook.universes:
        if universe.text == text:
            return schema.variables[universe.variable]
    return None
