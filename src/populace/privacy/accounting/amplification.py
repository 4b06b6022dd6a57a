"""What a secret random sample hides: the price of an answer on a piece, and how much worse the answer is.

A mechanism that is ε-DP on the sample is ε′-DP for the population when who was drawn stays secret. That holds for
designs that draw persons without looking at anything private; others may make privacy worse and are refused.
The draw must come from secret randomness, stay fixed for an account's life, and be by person, never by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from populace.core.errors import UsageError
from populace.privacy.accounting.interval_arithmetic import ball, bounds, round_up


class SamplingDesign(Enum):
    """How a sample was drawn, and the neighbours for which amplification holds.

    Under SIMPLE and STRATIFIED they replace one person (in STRATIFIED by one of the same stratum, whose public size
    and allocation stay), under POISSON they add or remove one. ε must be meant in the same way.
    """

    SIMPLE = "simple"
    POISSON = "poisson"
    STRATIFIED = "stratified, fixed public allocation"
    PROPORTIONAL = "stratified, allocation from the data"
    CLUSTER = "cluster"
    SYSTEMATIC = "systematic"
    ADAPTIVE = "adaptive"


_AMPLIFYING = (SamplingDesign.SIMPLE, SamplingDesign.POISSON, SamplingDesign.STRATIFIED)


def amplify_epsilon(
    epsilon: Fraction, *, share: Fraction, design: SamplingDesign = SamplingDesign.SIMPLE
) -> Fraction:
    """Return ε′ = ln(1 + β(e^ε − 1)) for a sample of this share β, rounded up.

    `share` is the probability that a given person is in the sample: for strata the greatest of them.
    Source: Balle, Barthe and Gaboardi 2018, Theorems 8 and 9.

    >>> round(float(amplify_epsilon(Fraction(1), share=Fraction(1, 10))), 4)
    0.1586
    """
    _check_epsilon_and_share(epsilon, share)
    if design not in _AMPLIFYING:
        raise UsageError(
            f"a {design.value} design hides nobody: persons are drawn together, or where the data says.",
            hint="claim amplification for simple, Poisson, or stratified samples with a fixed public allocation; "
            "without it the answer costs its full epsilon",
        )
    return round_up(bounds(lambda: (ball(share) * ball(epsilon).expm1()).log1p())[1])


def amplify_epsilon_of_source(epsilon: Fraction, *, share: Fraction) -> Fraction | None:
    """Return the older bound ln((e^ε·β + 1 − β)/(1 − β)), rounded up, for comparison; None for a whole.

    It is never below `amplify_epsilon`, and helps only where the share is small.

    >>> [round(float(amplify_epsilon_of_source(Fraction(e), share=Fraction(1, 10))), 2) for e in (1, 2, 5)]
    [0.26, 0.6, 2.86]
    """
    _check_epsilon_and_share(epsilon, share)
    if share == 1:
        return None
    return round_up(bounds(lambda: (ball(share) * ball(epsilon).exp() / ball(1 - share)).log1p())[1])


def combine_shares(shares: Sequence[Fraction]) -> Fraction:
    """Return the share of several pieces that come together: their sum, for it is as if one piece had been drawn.

    >>> combine_shares([Fraction(1, 10)] * 3)
    Fraction(3, 10)
    """
    together = sum(shares, Fraction(0))
    if not shares or min(shares) <= 0 or together > 1:
        raise UsageError(
            "the pieces are not parts of one whole.", hint="give shares above 0 that add up to at most 1"
        )
    return together


def piece_variance(
    proportion: Fraction, *, piece: int, population: int, epsilon: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the variances of a proportion asked of one piece: of drawing the piece, and of its noise.

    p(1 − p)/n_i·(n − n_i)/(n − 1), and 2/(n_i·ε)² of Laplace noise on the proportion.

    >>> piece_variance(Fraction(1, 2), piece=10, population=100, epsilon=Fraction(1))
    (Fraction(1, 44), Fraction(1, 50))
    """
    if not 0 <= proportion <= 1:
        raise UsageError(f"the proportion is {float(proportion)}.", hint="give a number from 0 to 1")
    if not 1 <= piece <= population or population < 2:
        raise UsageError(
            f"a piece of {piece} cannot be drawn of {population}.",
            hint="give a piece no larger than the whole",
        )
    _check_epsilon_and_share(epsilon, Fraction(1))
    drawing = proportion * (1 - proportion) / piece * Fraction(population - piece, population - 1)
    return drawing, 2 / (piece * epsilon) ** 2


def whole_variance(*, population: int, queries: int, epsilon: Fraction) -> Fraction:
    """Return the variance of one of j such queries on the whole, which share ε: 2j²/(nε)².

    >>> whole_variance(population=100, queries=10, epsilon=Fraction(1))
    Fraction(1, 50)
    """
    if population < 1 or queries < 1:
        raise UsageError(
            f"{queries} queries of {population} persons are asked.", hint="give whole numbers of 1 or more"
        )
    _check_epsilon_and_share(epsilon, Fraction(1))
    return 2 * queries**2 / (population * epsilon) ** 2


def _check_epsilon_and_share(epsilon: Fraction, share: Fraction) -> None:
    if not epsilon > 0:
        raise UsageError(f"epsilon is {epsilon}.", hint="give a number above 0")
    if not 0 < share <= 1:
        raise UsageError(f"the share of a piece is {share}.", hint="give a number above 0 and at most 1")
