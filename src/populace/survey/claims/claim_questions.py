"""What has to be asked about a claim: sums over rows that are centred where a release has its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.privacy.accounting.mechanisms import fraction_from_json
from populace.schema.exact_numbers import parse_number
from populace.schema.schema import Schema
from populace.survey.claims.claim_margins import LinearMargin, Margin, SmoothMargin, SmoothTerm
from populace.survey.claims.claim_rows import ClaimRows, Moments, decide, evaluate_combination
from populace.survey.claims.claim_syntax import (
    Combination,
    Inequality,
    Quantity,
    Rank,
    Statistic,
    Variable,
    list_quantities,
)
from populace.survey.claims.claims import Claim, list_known_columns
from populace.survey.design import survey_columns as columns
from populace.survey.sums import Indicator, Sum, SumFactor

# Centres are given in so many parts of a range: a public lattice on which every machine finds the same one.
CENTRE_PARTS = 1024
# Of an estimate from synthetic rows, as an analyst would write it down.
ESTIMATE_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a release says of a claim: the moments of its quantities, and the estimate that is compared.

    All of it is public. It centres the sums, so that little noise is added, and shares the budget among them; whatever
    it is, answers about the private rows are right as often.
    """

    moments: tuple[Moments, ...] = ()
    value: Fraction | None = None
    holds: bool | None = None

    @classmethod
    def of(cls, claim: Claim, rows: ClaimRows) -> Reference:
        """Return what the rows of a release say of a claim."""
        quantities = [each for each in list_quantities(claim.says) if each.statistic.bounded]
        moments = tuple(Moments.of(quantity, rows).shorten() for quantity in quantities)
        if not isinstance(claim.says, Combination):
            return cls(moments=moments, holds=decide(claim.says, rows))
        found = evaluate_combination(claim.says, rows)
        value = parse_number(f"{found:.{ESTIMATE_DIGITS}g}") if claim.value is None else claim.value
        return cls(moments=moments, value=value)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "moments": [each.to_json() for each in self.moments],
            "value": None if self.value is None else str(self.value),
            "holds": self.holds,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Reference:
        """Return what `to_json` wrote."""
        value, holds = saved["value"], saved["holds"]
        if holds not in (None, True, False):
            raise ValueError("neither true nor false")
        return cls(
            moments=tuple(Moments.from_json(each) for each in saved["moments"]),
            value=None if value is None else fraction_from_json(value),
            holds=holds,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimQuestion:
    """The sums that a claim needs, in order, and its margins as functions of all their cells, one after the other."""

    claim: Claim
    reference: Reference
    sums: tuple[Sum, ...]
    margins: tuple[Margin, ...]
    expected: Floats
    """The totals that the release has."""

    @classmethod
    def of(cls, claim: Claim, reference: Reference, *, schema: Schema) -> ClaimQuestion:
        """Return what has to be asked about a claim."""
        says = claim.says
        if isinstance(says, Rank):
            return _ask_rank(claim, says, reference, schema=schema)
        excess = says.excess if isinstance(says, Inequality) else says
        ends: list[tuple[float, Fraction]] = [(1.0, Fraction(0))]
        if isinstance(says, Combination):
            if claim.within is None or reference.value is None:
                raise UsageError(
                    f"claim {claim.name!r}: the release has no estimate of {says}.",
                    hint="give one: value = …, or ask about a group that the release has rows of",
                )
            value, far = reference.value, claim.within.around(reference.value)
            if not far:
                raise UsageError(
                    f"claim {claim.name!r}: {claim.within} of an estimate of 0 is no distance.",
                    hint="give a number: within = 0.01",
                )
            # Above the lower end, and below the upper one.
            ends = [(1.0, far - value), (-1.0, far + value)]
        if all(quantity.statistic.additive for _, quantity in excess.terms):
            return _ask_totals(claim, excess, ends, reference, schema=schema)
        if len(excess.terms) == 1 and excess.terms[0][1].statistic.averaged:
            return _ask_mean(claim, excess, ends, reference, schema=schema)
        return _ask_smooth(claim, excess, ends, reference, schema=schema)


def _ask_totals(
    claim: Claim,
    excess: Combination,
    ends: Sequence[tuple[float, Fraction]],
    reference: Reference,
    *,
    schema: Schema,
) -> ClaimQuestion:
    """Counts and totals: the margin is their weighted sum."""
    sums = tuple(_list_sums(quantity, (Fraction(0),), schema=schema)[0] for _, quantity in excess.terms)
    weights = np.array([float(weight) for weight, _ in excess.terms])
    margins = tuple(
        LinearMargin(coefficients=sign * weights, constant=float(sign * excess.constant + shift))
        for sign, shift in ends
    )
    pairs = zip(reference.moments, excess.terms, strict=True)
    expected = np.array([moments.value(quantity.statistic) for moments, (_, quantity) in pairs])
    return ClaimQuestion(claim=claim, reference=reference, sums=sums, margins=margins, expected=expected)


def _ask_mean(
    claim: Claim,
    excess: Combination,
    ends: Sequence[tuple[float, Fraction]],
    reference: Reference,
    *,
    schema: Schema,
) -> ClaimQuestion:
    """One mean m: w·m + c > 0 where the sum of w·(x − t) is above 0, t = −c/w.

    An estimate has two thresholds about its value v. With the sum centred at v they differ by the count alone, which a
    small share of the budget tells well enough.
    """
    ((weight, quantity),) = excess.terms
    (moments,) = reference.moments
    count = max(moments.count, 1.0)
    if len(ends) == 1:
        threshold = -excess.constant / weight
        _, centred = _list_sums(quantity, (threshold,), schema=schema)
        margin = LinearMargin(coefficients=np.array([float(weight)]), worth=count)
        moved = count * (moments.means[0] - float(threshold))
        return ClaimQuestion(
            claim=claim, reference=reference, sums=(centred,), margins=(margin,), expected=np.array([moved])
        )
    value = (reference.value or Fraction(0)) - excess.constant
    sums = _list_sums(quantity, (value / weight,), schema=schema)
    far = sum((shift for _, shift in ends), Fraction(0)) / 2
    margins = tuple(
        LinearMargin(coefficients=np.array([float(far), sign * float(weight)]), worth=count)
        for sign, _ in ends
    )
    return ClaimQuestion(
        claim=claim, reference=reference, sums=sums, margins=margins, expected=np.array([count, 0.0])
    )


def _ask_smooth(
    claim: Claim,
    excess: Combination,
    ends: Sequence[tuple[float, Fraction]],
    reference: Reference,
    *,
    schema: Schema,
) -> ClaimQuestion:
    """Several means, correlations and coefficients: a smooth function of sums that are centred where the release is."""
    sums: list[Sum] = []
    terms: list[SmoothTerm] = []
    expected: list[float] = []
    for (weight, quantity), moments in zip(excess.terms, reference.moments, strict=True):
        additive = quantity.statistic.additive
        centres = (
            (Fraction(0),) * len(quantity.variables)
            if additive
            else tuple(
                _choose_centre(variable, mean, schema=schema)
                for variable, mean in zip(quantity.variables, moments.means, strict=True)
            )
        )
        term = SmoothTerm(
            weight=float(weight),
            statistic=quantity.statistic,
            start=len(sums),
            centres=tuple(map(float, centres)),
        )
        terms.append(term)
        sums += _list_sums(quantity, centres, schema=schema)
        filled = moments if moments.count and np.isfinite(moments.means).all() else _guess_moments(term)
        held = (
            [filled.value(quantity.statistic)]
            if additive
            else filled.totals(centres=term.centres, products=term.products)
        )
        expected += held
    margins = tuple(
        SmoothMargin(terms=tuple(terms), constant=float(sign * excess.constant + shift), sign=sign)
        for sign, shift in ends
    )
    return ClaimQuestion(
        claim=claim, reference=reference, sums=tuple(sums), margins=margins, expected=np.array(expected)
    )


def _ask_rank(claim: Claim, rank: Rank, reference: Reference, *, schema: Schema) -> ClaimQuestion:
    """The counts of all values, for the price of one: a margin for every other value."""
    scale = columns.scale(schema, rank.column, place="claim")
    own, sign = scale.code(rank.value) or 0, 1.0 if rank.largest else -1.0
    margins = []
    for other in range(scale.levels):
        if other != own:
            coefficients = np.zeros(scale.size)
            coefficients[[own, other]] = sign, -sign
            margins.append(LinearMargin(coefficients=coefficients))
    asked = Sum(by=Marginal((rank.column,)), where=rank.where, known=(rank.column,))
    return ClaimQuestion(
        claim=claim,
        reference=reference,
        sums=(asked,),
        margins=tuple(margins),
        expected=np.zeros(scale.size),
    )


def _list_sums(quantity: Quantity, centres: Sequence[Fraction], *, schema: Schema) -> tuple[Sum, ...]:
    """Return the sums of 1, of each variable less its centre, and of the products that the statistic needs.

    A count is the first of them, and a total the sum of its variable alone.
    """
    where, known = quantity.where, list_known_columns(quantity)
    factors = [
        _make_factor(variable, centre, schema=schema)
        for variable, centre in zip(quantity.variables, centres, strict=False)
    ]
    firsts = [Sum(where=where, known=known, factors=(factor,)) for factor in factors]
    if quantity.statistic is Statistic.TOTAL:
        return (firsts[0],)
    pairs = quantity.statistic.list_products(len(factors))
    products = [Sum(where=where, known=known, factors=(factors[i], factors[j])) for i, j in pairs]
    return (Sum(where=where, known=known), *firsts, *products)


def _make_factor(variable: Variable, centre: Fraction, *, schema: Schema) -> SumFactor | Indicator:
    if variable.column is None:
        return Indicator(that=variable.that or "", centre=centre)
    low, high = columns.span(schema, variable.column, place="claim")
    return SumFactor(column=variable.column, low=low, high=high, centre=centre)


def _choose_centre(variable: Variable, mean: float, *, schema: Schema) -> Fraction:
    """Return the point of a public lattice that is nearest to a mean, the middle of the range where there is none."""
    low, high = (
        (Fraction(0), Fraction(1))
        if variable.column is None
        else columns.span(schema, variable.column, place="claim")
    )
    share = (mean - float(low)) / float(high - low) if np.isfinite(mean) else 0.5
    return low + (high - low) * Fraction(round(CENTRE_PARTS * min(max(share, 0.0), 1.0)), CENTRE_PARTS)


def _guess_moments(term: SmoothTerm) -> Moments:
    """Return moments of a group that the release has no rows of: one row in the middle."""
    size = len(term.centres)
    return Moments(count=1.0, means=term.centres, covariance=tuple(map(tuple, np.eye(size).tolist())))
