"""Rules that the data do not keep, as far as noisy counts that were paid for tell.

Rows that break a rule are moved until they keep it, so a wrong universe would empty a column and leave no trace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from populace.core.number_format import count_of, format_percent, format_percent_bound
from populace.measurements.measurements import Measurements
from populace.measurements.rule_checks import RuleCheck, RuleOutcome
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


class RuleCheckLine(TypedDict):
    """How many rules were checked by noisy counts, and the most of all rows that break one, in a sentence."""

    rules: int
    text: str


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


def describe_rule_check(measurements: Measurements) -> RuleCheckLine | None:
    """Return what the noisy counts say about all rules together, or None where no rule was checked."""
    checks = measurements.rule_checks
    if not checks:
        return None
    which = "it" if len(checks) == 1 else "one or more"
    share = format_percent_bound(bound_broken_share(checks))
    text = f"{count_of(len(checks), 'rule')} checked: at most {share} of the rows break {which} (95 %)."
    return RuleCheckLine(rules=len(checks), text=text)


def bound_broken_share(checks: Sequence[RuleCheck]) -> float:
    """Return the most of all rows that break a rule, with 95 % confidence, from the noisy counts alone.

    Rows that break several rules count for each. Half of the 5 % is for the rows that break one, half for all rows;
    Laplace noise has the heavier tails there.
    """
    tail = laplace_quantile(0.025)
    broken = [
        (count, check.variance)
        for check in checks
        for outcome, count in check.counts.items()
        if outcome is not RuleOutcome.KEPT
    ]
    most = max(sum(count for count, _ in broken), 0) + tail * math.sqrt(
        float(sum(variance for _, variance in broken))
    )
    rows = sum(sum(check.counts.values()) for check in checks) / len(checks)
    spread = math.sqrt(float(sum(check.variance * len(check.counts) for check in checks))) / len(checks)
    least_rows = rows - tail * spread
    return min(most / least_rows, 1.0) if least_rows > 0 else 1.0


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
