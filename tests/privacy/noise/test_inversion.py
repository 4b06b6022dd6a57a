"""Draws decide every string of random bits as the law demands: all strings are tried, not a sample of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from populace.core.errors import UsageError
from populace.privacy.noise.block_rejection import build_blocks, decide_event, draw_blocks
from populace.privacy.noise.distributions import (
    Distribution,
    ExponentialDecay,
    ScoreLevels,
    gaussian_distribution,
    laplace_distribution,
)
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.samplers import (
    draw_discrete_gaussian,
    draw_discrete_laplace,
    draw_exponential_choice,
)
from populace.privacy.noise.table_inversion import (
    InversionTable,
    Thresholds,
    build_inversion_table,
    count_thresholds,
    count_thresholds_guided,
    draw_from_table,
)


class OutOfWords(Exception):
    """The script has ended."""


class Script:
    """Words from a list, as the first bits of 64."""

    def __init__(self, words: list[int], *, bits: int = 64) -> None:
        self.left = [word << (64 - bits) for word in words]

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        if n > len(self.left):
            raise OutOfWords
        taken, self.left = self.left[:n], self.left[n:]
        return np.array(taken, dtype=np.uint64)

    def below(self, n: int) -> int:
        raise AssertionError


def decided(distribution: Distribution, *, bits: int, depth: int) -> Counter[int]:
    """Draw with every string of `depth` words; count the strings that decide each value."""
    table = build_inversion_table(distribution, bits=bits)
    strings: Counter[int] = Counter()
    undecided: list[list[int]] = [[]]
    for level in range(1, depth + 1):
        longer = [[*path, word] for path, word in product(undecided, range(1 << bits))]
        undecided = []
        for path in longer:
            script = Script(path, bits=bits)
            try:
                value = int(draw_from_table(table, size=1, entropy=script)[0])
            except OutOfWords:
                undecided.append(path)
            else:
                assert not script.left, "a draw took fewer words than it had to look at"
                strings[value] += 1 << bits * (depth - level)
    return strings


LAWS = [
    gaussian_distribution(Fraction(4)),
    gaussian_distribution(Fraction(1, 5)),
    laplace_distribution(Fraction(2)),
    laplace_distribution(Fraction(1, 3)),
]
ONE_SIDED = [
    ExponentialDecay(rate=Fraction(1, 9), power=2, symmetric=False),
    ExponentialDecay(rate=Fraction(1), power=1, symmetric=False),
]
CHOICES = [
    ScoreLevels(rate=Fraction(1, 2), heights=(7, 6, 0, -3), sizes=(1, 2, 5, 1)),
    ScoreLevels(rate=Fraction(1), heights=(0, -8, -12), sizes=(1, 1, 700)),
    ScoreLevels(rate=Fraction(1), heights=(3,), sizes=(2,)),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("distribution", LAWS + ONE_SIDED + CHOICES, ids=str)
@pytest.mark.parametrize(("bits", "depth"), [(3, 5), (6, 2)])
def test_every_string_is_decided_as_the_law_demands(
    distribution: Distribution, bits: int, depth: int
) -> None:
    """A string u of m bits must give k exactly when F(k−1) ≤ U < F(k) for all U that begin with u.

    These are the u strictly between the floors of 2^m·F(k−1) and 2^m·F(k); the thresholds themselves are
    compared with mpmath elsewhere. What is undecided is one string per threshold.
    """
    length = bits * depth
    strings = decided(distribution, bits=bits, depth=depth)
    thresholds = Thresholds(distribution, bits=length)
    expected = {
        thresholds.low + i: thresholds[i] - thresholds[i - 1] - 1
        for i in range(1, len(thresholds))
        if thresholds[i] - thresholds[i - 1] > 1
    }
    assert strings == expected
    assert 2**length - strings.total() == len(set(thresholds))


def test_enumerated_probabilities_match_mpmath() -> None:
    strings = decided(gaussian_distribution(Fraction(4)), bits=4, depth=5)
    slack = 1 - strings.total() / 2**20
    with mpmath.workdps(30):
        total = mpmath.jtheta(3, 0, mpmath.exp(mpmath.mpf(-1) / 8))
        for k in range(-9, 10):
            probability = float(mpmath.exp(-(mpmath.mpf(k) ** 2) / 8) / total)
            assert strings[k] / 2**20 <= probability <= strings[k] / 2**20 + slack
    assert slack < 4e-5


def test_a_draw_takes_one_word() -> None:
    table = build_inversion_table(gaussian_distribution(Fraction(100)))
    script = Script(RehearsalEntropy(1).words(1_000).tolist())
    draw_from_table(table, size=1_000, entropy=script)
    assert not script.left


# Thresholds on, before and after the places where words with other first bits begin.
ON_EDGES = InversionTable(
    distribution=gaussian_distribution(Fraction(1)),
    bits=64,
    low=0,
    thresholds=np.array([0, 5 << 48, (9 << 48) - 1, 9 << 48, (11 << 48) + 1, 2**64 - 1], dtype=np.uint64),
)


@pytest.mark.parametrize(
    "table",
    [
        build_inversion_table(gaussian_distribution(Fraction(2))),
        build_inversion_table(gaussian_distribution(Fraction(10**6))),
        build_inversion_table(laplace_distribution(Fraction(30))),
        ON_EDGES,
    ],
)
def test_the_guide_changes_nothing(table: InversionTable) -> None:
    words = RehearsalEntropy(4).words(50_000)
    # The words where the two ways could part: at thresholds, beside them, and at the ends.
    edges = np.concatenate(
        [table.thresholds, table.thresholds + np.uint64(1), table.thresholds - np.uint64(1)]
    )
    for sample in (words, edges):
        plain, undecided = count_thresholds(table, sample)
        guided, also_undecided = count_thresholds_guided(table, sample)
        assert (plain == guided).all()
        assert (undecided == also_undecided).all()


def test_small_and_large_draws_use_the_same_words_alike() -> None:
    small, large = RehearsalEntropy(9), RehearsalEntropy(9)
    pieces = [draw_discrete_gaussian(Fraction(50), size=1_000, entropy=small) for _ in range(100)]
    assert (np.concatenate(pieces) == draw_discrete_gaussian(Fraction(50), size=100_000, entropy=large)).all()


def test_words_on_a_threshold_are_decided_by_the_next_ones() -> None:
    table = build_inversion_table(gaussian_distribution(Fraction(9)))
    # The bits of F(0), word by word.
    first, second, third = (t[-t.low] for t in map(table.deeper, (64, 128, 192)))
    first, second, third = first, second - (first << 64), third - (second << 64)
    for word, value in ((second - 1, 0), (second + 1, 1), (0, 0), (2**64 - 1, 1)):
        assert draw_from_table(table, size=1, entropy=Script([first, word])).tolist() == [value]
    for word, value in ((third - 1, 0), (third + 1, 1)):
        assert draw_from_table(table, size=1, entropy=Script([first, second, word])).tolist() == [value]


def test_values_beyond_the_table_are_drawn() -> None:
    table = build_inversion_table(gaussian_distribution(Fraction(9)))
    last = -table.low - 1
    top = 2**64 - 1
    assert draw_from_table(table, size=1, entropy=Script([top, 0]))[0] <= last
    near, far, as_far = (
        int(draw_from_table(table, size=1, entropy=Script(words))[0])
        for words in ([top, top, 0], [top] * 5 + [0], [0] * 5 + [top])
    )
    assert last < near < far
    # P[Z > z] is about 2^−320 at z = 3·sqrt(2·320·ln 2) − 1 or so.
    assert far == -as_far == 62


@pytest.mark.parametrize("scale", [3, 100])
def test_samplers_cut_no_tail(scale: int) -> None:
    """Noise that ends somewhere tells for certain what lies beyond; the first and last words lead far out."""
    far = {
        scale * 8.5: (
            draw_discrete_gaussian,
            Fraction(scale**2),
            build_inversion_table(gaussian_distribution(Fraction(scale**2))),
        ),
        scale * 40.0: (
            draw_discrete_laplace,
            Fraction(scale),
            build_inversion_table(laplace_distribution(Fraction(scale))),
        ),
    }
    for least, (sampler, parameter, table) in far.items():
        words = [5, 2**64 - 6]
        told = sampler(parameter, size=2, entropy=Script([*words, 5, 5, 5, 5]))
        assert told.tolist() == draw_from_table(table, size=2, entropy=Script([*words, 5, 5, 5, 5])).tolist()
        assert told[0] < -least
        assert told[1] > least


def test_far_candidates_can_be_chosen() -> None:
    scores = np.array([0, -1_000, 0], dtype=np.int64)

    class Low(Script):
        def below(self, n: int) -> int:
            return n - 1

    # exp(−1000)/2 is about 2^−1443.7: 22 words of ones (1,408 bits) and a large one lead there.
    assert draw_exponential_choice(scores, rate=Fraction(1), entropy=Low([*[2**64 - 1] * 22, 2**64 - 2])) == 1
    assert draw_exponential_choice(scores, rate=Fraction(1), entropy=Low([*[2**64 - 1] * 22, 0])) == 2
    assert draw_exponential_choice(scores, rate=Fraction(1), entropy=Low([5])) == 2


def test_scores_at_the_ends_of_64_bits() -> None:
    ends = np.array([-(2**63), 2**63 - 1], dtype=np.int64)
    source = RehearsalEntropy(1)
    assert draw_exponential_choice(ends, rate=Fraction(1), entropy=source) == 1
    even = Fraction(1, 2**64)  # the better one is chosen with probability 1/(1 + 1/e) = .731
    chosen = sum(draw_exponential_choice(ends, rate=even, entropy=source) for _ in range(400))
    assert 230 < chosen < 350  # 292 ± 6.8 standard deviations; seed fixed


@pytest.mark.parametrize("scores", [np.zeros(0, np.int64), np.zeros((2, 2), np.int64), np.zeros(3)])
def test_wrong_scores_are_refused(scores: npt.NDArray[np.int64]) -> None:
    with pytest.raises(UsageError, match="int64"):
        draw_exponential_choice(scores, rate=Fraction(1), entropy=RehearsalEntropy(1))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1), 0.5, True])
def test_wrong_rates_are_refused(rate: Fraction) -> None:
    with pytest.raises(UsageError, match="rate"):
        draw_exponential_choice(np.arange(3), rate=rate, entropy=RehearsalEntropy(1))


@pytest.mark.parametrize("sampler", [draw_discrete_gaussian, draw_discrete_laplace])
def test_sizes(sampler: object) -> None:
    source = RehearsalEntropy(1)
    for scale in (Fraction(5), Fraction(2**40)):
        for size in (0, 1, 70_001):
            noise = sampler(scale, size=size, entropy=source)
            assert noise.shape == (size,)
            assert noise.dtype == np.int64
        with pytest.raises(UsageError, match="0 or more"):
            sampler(scale, size=-1, entropy=source)


def test_happens_decides_as_exp_does() -> None:
    with mpmath.workdps(60):
        bound = int(mpmath.floor(mpmath.ldexp(mpmath.exp(mpmath.mpf(-1) / 3), 64)))
        next_word = int(mpmath.floor(mpmath.ldexp(mpmath.exp(mpmath.mpf(-1) / 3), 128))) - (bound << 64)
    third = Fraction(1, 3)
    for word, answer in ((bound - 1, True), (bound + 1, False), (0, True), (2**64 - 1, False)):
        assert decide_event(third, prefix=word, entropy=Script([])) is answer
    for word, answer in ((next_word - 1, True), (next_word + 1, False)):
        assert decide_event(third, prefix=bound, entropy=Script([word])) is answer
    assert decide_event(Fraction(0), prefix=2**64 - 1, entropy=Script([]))


@pytest.mark.parametrize(
    "distribution",
    [
        gaussian_distribution(Fraction(10**10)),
        laplace_distribution(Fraction(10**5)),
        laplace_distribution(Fraction(2**40)),
    ],
    ids=str,
)
def test_what_a_block_keeps_at_once_would_be_kept(distribution: ExponentialDecay) -> None:
    blocks = build_blocks(distribution)
    width = 1 << blocks.width_bits
    assert distribution.scale / 129 < width <= distribution.scale / 64
    for h in (0, 1, 60, len(blocks.kept_below) - 1):
        loss = distribution.rate * (
            (width * h + width - 1) ** distribution.power - (width * h) ** distribution.power
        )
        last_kept = int(blocks.kept_below[h]) - 1
        assert decide_event(loss, prefix=last_kept, entropy=Script([]))
        assert not decide_event(loss, prefix=last_kept + 3, entropy=Script([]))


def test_minus_zero_is_drawn_again() -> None:
    # Words: block 0 (F(0) is above 2^−9), then place 0 with the sign bit set or not, then "keep".
    small, tries = 1 << 40, 9
    negative, positive = [1] + [0] * (tries - 1), [0] * tries
    distribution = build_blocks(gaussian_distribution(Fraction(10**10)))
    drawn = draw_blocks(distribution, size=1, entropy=Script([small] * tries + negative + [0] * tries))
    assert drawn.tolist() == [0]
    with pytest.raises(OutOfWords):
        draw_blocks(distribution, size=1, entropy=Script([small] * tries + [1] * tries + [0] * tries))
    assert draw_blocks(
        distribution, size=1, entropy=Script([small] * tries + positive + [0] * tries)
    ).tolist() == [0]


def test_a_block_beyond_the_table_is_not_kept_by_the_words_of_the_last() -> None:
    blocks = build_blocks(gaussian_distribution(Fraction(10**10)))
    top, tries = 2**64 - 1, 9
    far = [top] * tries + [top, top, top, 0] * tries  # undecided at first, then nearly twice as far out
    farthest_place = [(1 << blocks.width_bits) - 1 << 1] * tries
    surely_kept_in_the_last = [int(blocks.kept_below[-1]) - 1] * tries
    with pytest.raises(OutOfWords):
        draw_blocks(blocks, size=1, entropy=Script(far + farthest_place + surely_kept_in_the_last))
    drawn = draw_blocks(blocks, size=1, entropy=Script(far + farthest_place + [0] * tries))
    assert drawn[0] >> blocks.width_bits > 1.9 * len(blocks.kept_below)


def test_noise_needs_no_compiled_loops() -> None:
    code = (
        "import sys; from fractions import Fraction;"
        "from populace.privacy.noise.samplers import draw_discrete_gaussian; from "
        "populace.privacy.noise.entropy import SystemEntropy;"
        "draw_discrete_gaussian(Fraction(100), size=100_000, entropy=SystemEntropy());"
        "sys.exit(bool({'populace._native._kernels', 'scipy', 'pyarrow'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
