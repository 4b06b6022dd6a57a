"""The paid part of the safety net: how many rows break each rule of the schema, asked before anything else."""

from __future__ import annotations

from fractions import Fraction

from populace.core.marginals import Marginal
from populace.measurements.rule_checks import RuleCheck
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise
from populace.private.barrier import Barrier
from populace.private.rule_table import list_rules, rule_outcomes
from populace.schema.schema import Schema

# The part of a run's budget that all rules share.
RULE_CHECK_SHARE = Fraction(1, 20)


def rule_check_noise(budget: Budget, *, rules: int) -> Noise:
    """Return the noise with which so many rules cost their share of a budget: one unit can break every rule."""
    return budget.measure_noise(RULE_CHECK_SHARE, marginals=rules)


def measure_rules(barrier: Barrier, *, schema: Schema) -> tuple[RuleCheck, ...]:
    """Return how many rows keep and break each rule of a schema, with noise, from a barrier before its `rule_table`.

    Proof: docs/proofs/rule-checks.md.
    """
    rules = list_rules(schema)
    asked = rule_check_noise(barrier.budget, rules=len(rules))
    found = barrier.measure([Marginal((text,)) for text in rules], noise=asked)
    return tuple(
        RuleCheck(
            rule=text,
            counts=dict(zip(rule_outcomes(rule), map(int, each.counts), strict=True)),
            variance=each.variance,
        )
        for (text, rule), each in zip(rules.items(), found, strict=True)
    )
