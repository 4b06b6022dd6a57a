"""Amplification by sampling: golden numbers, and the exact law of noisy counts on all samples of tiny populations."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import pytest

from populace.core.errors import UsageError
from populace.privacy.accounting.amplification import (
    SamplingDesign,
    amplify_epsilon,
    combine_shares,
    piece_variance,
    whole_variance,
)

TENTH = Fraction(1, 10)


def test_amplification_always_helps():
    for epsilon, share in product(("0.01", "0.5", "3", "12"), ("0.001", "0.1", "0.5", "0.99")):
        epsilon, share = Fraction(epsilon), Fraction(share)
        found = amplify_epsilon(epsilon, share=share)
        assert found < epsilon
        assert float(found) == pytest.approx(math.log1p(float(share) * math.expm1(float(epsilon))), rel=1e-12)
    assert amplify_epsilon(Fraction(2), share=Fraction(1)) - 2 < Fraction(1, 2**60)


def test_pieces_that_leak_together_count_as_one():
    assert combine_shares([TENTH] * 3) == Fraction(3, 10)
    assert amplify_epsilon(Fraction(1), share=combine_shares([TENTH] * 10)) >= 1
    for shares in ([], [Fraction(0)], [Fraction(3, 4), Fraction(1, 2)]):
        with pytest.raises(UsageError, match="parts of one whole"):
            combine_shares(shares)


# ----------------------------------------------------------------------------------------- exact laws

# A design is a list of (probability, who is drawn) over persons 0 … 3.
SIMPLE = [(1 / 6, drawn) for drawn in combinations(range(4), 2)]
STRATIFIED = [(1 / 3, (first, second)) for first, second in product((0,), (1, 2, 3))]
HALVES = [(1 / 4, (first, second)) for first, second in product((0, 1), (2, 3))]
POISSON = [
    (math.prod(0.3 if inside else 0.7 for inside in flags), tuple(i for i in range(4) if flags[i]))
    for flags in product((False, True), repeat=4)
]
CLUSTER = [(1 / 2, (0, 1)), (1 / 2, (2, 3))]


def mechanism(values, design, *, epsilon):
    """P of each answer: the sample's sum with integer Laplace noise of scale 1/ε; None is nobody."""
    whole = (1 + math.exp(-epsilon)) / (1 - math.exp(-epsilon))
    answers = range(-3, 8)
    return [
        sum(
            chance * math.exp(-epsilon * abs(answer - sum(values[i] or 0 for i in drawn))) / whole
            for chance, drawn in design
        )
        for answer in answers
    ]


def greatest_loss(design, values, *, epsilon):
    """The greatest log-ratio over all pairs of populations that differ in one person."""
    found = 0.0
    for population in product(values, repeat=4):
        for person, value in product(range(4), values):
            other = tuple(value if i == person else v for i, v in enumerate(population))
            pairs = zip(
                mechanism(population, design, epsilon=epsilon),
                mechanism(other, design, epsilon=epsilon),
                strict=True,
            )
            found = max(found, *(abs(math.log(p / q)) for p, q in pairs))
    return found


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize(
    ("design", "drawn", "share"),
    [
        (SamplingDesign.SIMPLE, SIMPLE, Fraction(1, 2)),
        (SamplingDesign.STRATIFIED, HALVES, Fraction(1, 2)),
        (SamplingDesign.POISSON, POISSON, Fraction(3, 10)),
    ],
)
def test_loss_is_what_is_claimed(epsilon, design, drawn, share):
    # Nobody (None) is a value under Poisson sampling: its neighbours add or remove a person.
    values = (None, 1) if design is SamplingDesign.POISSON else (0, 1)
    claimed = float(amplify_epsilon(Fraction(epsilon), share=share, design=design))
    loss = greatest_loss(drawn, values, epsilon=epsilon)
    assert loss <= claimed + 1e-12
    assert loss >= claimed - 1e-9, "the claim is reached"


def test_strata_count_with_their_greatest_share():
    loss = greatest_loss(STRATIFIED, (0, 1), epsilon=1.0)
    assert loss == pytest.approx(1, abs=1e-9)  # one stratum is drawn whole
    assert float(amplify_epsilon(Fraction(1), share=Fraction(1, 3), design=SamplingDesign.STRATIFIED)) < loss


def test_clusters_would_break_the_claim():
    loss = greatest_loss(CLUSTER, (0, 1), epsilon=2.0)
    assert loss > 1.2 * float(amplify_epsilon(Fraction(2), share=Fraction(1, 2)))


@pytest.mark.parametrize(
    "design",
    [SamplingDesign.PROPORTIONAL, SamplingDesign.CLUSTER, SamplingDesign.SYSTEMATIC, SamplingDesign.ADAPTIVE],
)
def test_other_designs_claim_nothing(design):
    with pytest.raises(UsageError, match="hides nobody"):
        amplify_epsilon(Fraction(1), share=TENTH, design=design)


# ----------------------------------------------------------------------------------------- what a piece costs


def test_variances_of_a_piece_and_of_the_whole():
    drawing, noise = piece_variance(Fraction(3, 10), piece=1000, population=10_000, epsilon=Fraction(1, 100))
    assert drawing == Fraction(21, 100) / 1000 * Fraction(9000, 9999)
    assert noise == Fraction(2) / 10**2
    # Ten queries on ten pieces, or on the whole with a tenth of ε each: the same noise, and no sampling error.
    assert noise == whole_variance(population=10_000, queries=10, epsilon=Fraction(1, 100))
    assert piece_variance(Fraction(1, 2), piece=50, population=50, epsilon=Fraction(1))[0] == 0


def test_sampling_variance_is_that_of_all_samples():
    values, piece = (1, 1, 0, 0, 0, 1, 1), 3
    means = [Fraction(sum(drawn), piece) for drawn in combinations(values, piece)]
    centre = sum(means) / len(means)
    spread = sum((mean - centre) ** 2 for mean in means) / len(means)
    assert piece_variance(centre, piece=piece, population=7, epsilon=Fraction(1))[0] == spread


def test_refusals():
    with pytest.raises(UsageError, match="share"):
        amplify_epsilon(Fraction(1), share=Fraction(0))
    with pytest.raises(UsageError, match="epsilon"):
        amplify_epsilon(Fraction(0), share=TENTH)
    with pytest.raises(UsageError, match="proportion"):
        piece_variance(Fraction(2), piece=1, population=2, epsilon=Fraction(1))
    with pytest.raises(UsageError, match="piece of 3"):
        piece_variance(Fraction(1, 2), piece=3, population=2, epsilon=Fraction(1))
    with pytest.raises(UsageError, match="0 queries"):
        whole_variance(population=10, queries=0, epsilon=Fraction(1))
