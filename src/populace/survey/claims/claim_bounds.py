"""Claims that public bounds decide: statistics lie in ranges that follow from the schema, whatever the rows are."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from populace.core.errors import UsageError
from populace.schema.conditions.syntax_tree import Operator
from populace.schema.schema import Schema
from populace.survey.claims.claim_syntax import Combination, Inequality, Quantity, Statistic, Variable
from populace.survey.claims.claims import Claim, Claims
from populace.survey.design import survey_columns as columns

# The lowest and the highest value; infinite where the schema gives no bound.
Bounds: TypeAlias = tuple[Fraction | float, Fraction | float]


def refuse_decided(claims: Claims) -> None:
    """Refuse claims that hold, or fail, in every table of the schema: an answer would be paid for and say nothing."""
    for claim in claims:
        says = claim.says
        if isinstance(says, Inequality):
            if _is_decided(bound_combination(says.excess, schema=claims.schema), says.operator):
                _refuse(claim, says.excess, schema=claims.schema)
        elif isinstance(says, Combination) and _is_estimate_decided(claim, says, schema=claims.schema):
            _refuse(claim, says, schema=claims.schema)


def bound_quantity(quantity: Quantity, *, schema: Schema) -> Bounds:
    """Return the range of a statistic by the schema alone.

    >>> pay = Quantity(statistic=Statistic.MEAN, variables=(Variable(column="PAY"),))
    >>> bound_quantity(pay, schema=Schema.from_sizes({"PAY": 100}))
    (Fraction(0, 1), Fraction(99, 1))
    """
    statistic = quantity.statistic
    if statistic is Statistic.COUNT:
        return Fraction(0), math.inf
    if statistic is Statistic.CORRELATION:
        return Fraction(-1), Fraction(1)
    if statistic is Statistic.COEFFICIENT:
        return -math.inf, math.inf
    low, high = _bound_variable(quantity.variables[0], schema=schema)
    if statistic is Statistic.TOTAL:
        return (-math.inf if low < 0 else Fraction(0)), (math.inf if high > 0 else Fraction(0))
    return low, high


def bound_combination(combination: Combination, *, schema: Schema) -> Bounds:
    """Return a range that holds a weighted sum of statistics."""
    low: Fraction | float = combination.constant
    high: Fraction | float = combination.constant
    for weight, quantity in combination.terms:
        if weight:
            ends = sorted(weight * end for end in bound_quantity(quantity, schema=schema))
            low, high = low + ends[0], high + ends[1]
    return low, high


def _bound_variable(variable: Variable, *, schema: Schema) -> tuple[Fraction, Fraction]:
    if variable.column is None:
        return Fraction(0), Fraction(1)
    return columns.span(schema, variable.column, place="claim")


def _is_decided(excess: Bounds, operator: Operator) -> bool:
    low, high = excess
    if operator in (Operator.AT_MOST, Operator.AT_LEAST):
        return low >= 0 or high < 0
    return low > 0 or high <= 0


def _is_estimate_decided(claim: Claim, says: Combination, *, schema: Schema) -> bool:
    """Say whether all values of a statistic are as close to an estimate as asked, or none."""
    low, high = bound_combination(says, schema=schema)
    if claim.within is None:
        return False
    if claim.value is None:
        # The release's own estimate lies in the same range.
        return not claim.within.relative and claim.within.size >= high - low
    far = claim.within.around(claim.value)
    covers = claim.value - far <= low and high <= claim.value + far
    return covers or claim.value + far < low or claim.value - far > high


def _refuse(claim: Claim, compared: Combination, *, schema: Schema) -> None:
    """Refuse a claim with the range that decides it."""
    hint = "leave the claim out, or compare with a number inside the range"
    subject, bounds = str(compared), bound_combination(compared, schema=schema)
    if len(compared.terms) == 1:
        weight, quantity = compared.terms[0]
        subject, bounds = str(quantity), bound_quantity(quantity, schema=schema)
        number = claim.value if isinstance(claim.says, Combination) else -compared.constant / weight
        is_share = quantity.statistic.averaged and quantity.variables[0].column is None
        if is_share and number is not None and 1 < number <= 100:
            hint = (
                f"a share lies between 0 and 1; did you mean {float(number / 100):g} ({float(number):g} %)?"
            )
    raise UsageError(
        f"claim {claim.name!r}: {subject} {_describe_range(*bounds)} by the schema: the claim needs no data.",
        hint=hint,
    )


def _describe_range(low: Fraction | float, high: Fraction | float) -> str:
    if math.isinf(high):
        return f"is at least {float(low):g}"
    if math.isinf(low):
        return f"is at most {float(high):g}"
    return f"lies between {float(low):g} and {float(high):g}"
