"""The samplers follow their laws, and the tests would notice too little and too much noise.

A test alarms when the p-value of a chi-square statistic is below 1e-5 or above 1 − 1e-5 (a fit too good to be
random): false-alarm rate 2e-5 each, 1e-3 for the whole file, and none at all as long as seeds and streams
stay as they are, for rehearsal entropy repeats. Tests on unrepeatable randomness (the system's, OpenDP's) alarm
below 1e-9. Wrong laws must be rejected with p below 1e-12.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from populace.privacy.noise import block_rejection as blocks
from populace.privacy.noise import table_inversion as inversion
from populace.privacy.noise.block_rejection import build_blocks_of_width, draw_blocks
from populace.privacy.noise.distributions import ExponentialDecay, gaussian_distribution, laplace_distribution
from populace.privacy.noise.entropy import Entropy, RehearsalEntropy, SystemEntropy
from populace.privacy.noise.samplers import (
    MAX_TABLED_SCALE,
    MAX_TABLED_VARIANCE,
    draw_discrete_gaussian,
    draw_discrete_laplace,
    draw_exponential_choice,
)
from populace.privacy.noise.table_inversion import build_inversion_table, draw_from_table
from tests.helpers.sampled_cases import sample_cases

Draws = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ALARM = 1e-5
UNREPEATABLE_ALARM = 1e-9
REJECTED = 1e-12

VARIANCES = [
    "1/9",
    "1/4",
    "1/2",
    "1",
    "2",
    "9/2",
    "10",
    "25",
    "317/7",
    "100",
    "1000",
    "12345/11",
    "10000",
    "1000000",
]
SCALES = ["1/3", "1/2", "1", "3/2", "3", "77/10", "10", "25", "40", "64", "100", "1000"]


def runs(expected: Floats) -> npt.NDArray[np.int64]:
    """Join neighbouring values into numbered runs that expect 25 draws or more each."""
    labels, run, held = [], 0, 0.0
    for count in expected.tolist():
        labels.append(run)
        held += count
        if held >= 25:
            run, held = run + 1, 0.0
    return np.minimum(labels, run - 1)  # what is left over joins the last full run


def p_value(draws: Draws, distribution: ExponentialDecay) -> float:
    """Return the chi-square p-value of draws against a symmetric law; the end runs take the tails."""
    tail_cutoff = distribution.tail_cutoff(40)
    weights = np.exp(
        -float(distribution.rate) * np.abs(np.arange(-tail_cutoff, tail_cutoff + 1.0)) ** distribution.power
    )
    expected = weights / weights.sum() * len(draws)
    run = runs(expected)
    seen = np.bincount(run[np.clip(draws, -tail_cutoff, tail_cutoff) + tail_cutoff], minlength=run[-1] + 1)
    return float(stats.chisquare(seen, np.bincount(run, weights=expected)).pvalue)


def two_sample_p_value(first: Draws, second: Draws, *, bins: int = 100) -> float:
    """Return the chi-square p-value of two sets of draws having one distribution."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, bins + 1)[1:-1]))
    both = [
        np.bincount(np.searchsorted(edges, sample), minlength=len(edges) + 1) for sample in (first, second)
    ]
    table = np.array(both)[:, np.sum(both, axis=0) > 10]
    return float(stats.chi2_contingency(table).pvalue)


def accepted(p: float) -> bool:
    return ALARM < p < 1 - ALARM


def square(text: str) -> Fraction:
    return Fraction(text) ** 2


class TestTables:
    @pytest.mark.parametrize("variance", VARIANCES)
    def test_gaussian(self, variance: str) -> None:
        source = RehearsalEntropy(101)
        claimed = Fraction(variance)
        assert accepted(
            p_value(
                draw_discrete_gaussian(claimed, size=100_000, entropy=source), gaussian_distribution(claimed)
            )
        )
        for factor in ("9/10", "11/10"):
            wrong = draw_discrete_gaussian(claimed * square(factor), size=100_000, entropy=source)
            assert p_value(wrong, gaussian_distribution(claimed)) < REJECTED, factor

    @pytest.mark.parametrize("scale", sample_cases(SCALES, to=6))
    def test_laplace(self, scale: str) -> None:
        source = RehearsalEntropy(102)
        claimed = Fraction(scale)
        assert accepted(
            p_value(
                draw_discrete_laplace(claimed, size=100_000, entropy=source), laplace_distribution(claimed)
            )
        )
        for factor in ("9/10", "11/10"):
            wrong = draw_discrete_laplace(claimed * Fraction(factor), size=100_000, entropy=source)
            assert p_value(wrong, laplace_distribution(claimed)) < REJECTED, factor

    @pytest.mark.slow
    @pytest.mark.parametrize("variance", VARIANCES)
    def test_gaussian_with_many_draws(self, variance: str) -> None:
        source = RehearsalEntropy(103)
        claimed = Fraction(variance)
        assert accepted(
            p_value(
                draw_discrete_gaussian(claimed, size=20_000_000, entropy=source),
                gaussian_distribution(claimed),
            )
        )
        for factor in ("99/100", "101/100"):
            wrong = draw_discrete_gaussian(claimed * square(factor), size=20_000_000, entropy=source)
            assert p_value(wrong, gaussian_distribution(claimed)) < REJECTED, factor

    def test_the_systems_randomness(self) -> None:
        source = SystemEntropy()
        noise = draw_discrete_gaussian(Fraction(30), size=200_000, entropy=source)
        assert p_value(noise, gaussian_distribution(Fraction(30))) > UNREPEATABLE_ALARM
        noise = draw_discrete_laplace(Fraction(6), size=200_000, entropy=source)
        assert p_value(noise, laplace_distribution(Fraction(6))) > UNREPEATABLE_ALARM

    def test_neighbouring_draws_are_independent(self) -> None:
        noise = draw_discrete_gaussian(Fraction(1), size=400_000, entropy=RehearsalEntropy(104))
        table = np.histogram2d(np.clip(noise[::2], -2, 2), np.clip(noise[1::2], -2, 2), bins=5)[0]
        assert accepted(float(stats.chi2_contingency(table).pvalue))


class TestRefinement:
    @pytest.mark.parametrize(
        "distribution",
        [
            gaussian_distribution(Fraction(9)),
            pytest.param(laplace_distribution(Fraction(2)), marks=pytest.mark.slow),
        ],
        ids=str,
    )
    @pytest.mark.slow
    def test_short_words(self, distribution: ExponentialDecay, monkeypatch: pytest.MonkeyPatch) -> None:
        refined = 0
        resolve = inversion.resolve_tie

        def counted(*args: object, **kwargs: object) -> int:
            nonlocal refined
            refined += 1
            return resolve(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(inversion, "resolve_tie", counted)
        noise = draw_from_table(
            build_inversion_table(distribution, bits=6), size=480_000, entropy=RehearsalEntropy(105)
        )
        assert refined >= 100_000
        assert accepted(p_value(noise, distribution))
        assert (
            p_value(
                noise,
                ExponentialDecay(
                    rate=distribution.rate * square("51/50"), power=distribution.power, symmetric=True
                ),
            )
            < REJECTED
        )

    @pytest.mark.parametrize("wrong", [0, 1])
    def test_a_branch_that_always_picks_one_side_is_noticed(
        self, wrong: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        distribution = gaussian_distribution(Fraction(9))
        table = build_inversion_table(distribution, bits=6)

        def one_sided(*_: object, prefix: int, **__: object) -> int:
            side = "left" if wrong else "right"
            return table.low + int(np.searchsorted(table.thresholds, np.uint64(prefix), side=side))

        monkeypatch.setattr(inversion, "resolve_tie", one_sided)
        assert (
            p_value(draw_from_table(table, size=100_000, entropy=RehearsalEntropy(106)), distribution)
            < REJECTED
        )


class TestBlocks:
    """The sampler for very large scales, also at scales small enough to see every value."""

    @pytest.mark.parametrize(
        ("distribution", "width_bits"),
        [
            (gaussian_distribution(Fraction(300**2)), 2),
            pytest.param(laplace_distribution(Fraction(700, 3)), 1, marks=pytest.mark.slow),
            pytest.param(gaussian_distribution(Fraction(1000)), 0, marks=pytest.mark.slow),
            # Blocks so wide that the exact comparison, else rare, decides a third of the pairs.
            pytest.param(gaussian_distribution(Fraction(30**2)), 5, marks=pytest.mark.slow),
            (laplace_distribution(Fraction(40)), 4),
        ],
    )
    def test_every_value(self, distribution: ExponentialDecay, width_bits: int) -> None:
        source = RehearsalEntropy(107)
        assert accepted(
            p_value(
                draw_blocks(
                    build_blocks_of_width(distribution, width_bits=width_bits), size=30_000, entropy=source
                ),
                distribution,
            )
        )
        for factor in ("4/5", "5/4"):
            wrong = ExponentialDecay(
                rate=distribution.rate * Fraction(factor) ** distribution.power,
                power=distribution.power,
                symmetric=True,
            )
            noise = draw_blocks(
                build_blocks_of_width(wrong, width_bits=width_bits), size=20_000, entropy=source
            )
            assert p_value(noise, distribution) < REJECTED

    @pytest.mark.parametrize("always", [True, False])
    def test_a_comparison_that_is_not_made_is_noticed(
        self, always: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(blocks, "decide_event", lambda *_, **__: always)
        distribution = gaussian_distribution(Fraction(30**2))
        noise = draw_blocks(
            build_blocks_of_width(distribution, width_bits=5), size=30_000, entropy=RehearsalEntropy(113)
        )
        assert p_value(noise, distribution) < REJECTED

    @pytest.mark.parametrize("sigma", sample_cases([20_001, 10**6, 2**40], to=1))
    def test_gaussian_bins(self, sigma: int) -> None:
        source = RehearsalEntropy(108)
        # Against the normal law: at this scale the sum over a bin and the integral differ by less than 1e-9.
        noise = draw_discrete_gaussian(Fraction(sigma**2), size=200_000, entropy=source)
        assert accepted(float(_uniform_p_value(stats.norm.cdf(noise / sigma))))
        for factor in (0.9, 1.1):
            assert _uniform_p_value(stats.norm.cdf(noise / sigma * factor)) < REJECTED
        assert accepted(_uniform_p_value((noise % 1024 + 0.5) / 1024))

    @pytest.mark.parametrize("scale", sample_cases([4_001, 10**6, 2**40], to=1))
    def test_laplace_bins(self, scale: int) -> None:
        noise = draw_discrete_laplace(Fraction(scale), size=200_000, entropy=RehearsalEntropy(109))
        assert accepted(_uniform_p_value(stats.laplace.cdf(noise / scale)))
        for factor in (0.9, 1.1):
            assert _uniform_p_value(stats.laplace.cdf(noise / scale * factor)) < REJECTED
        assert accepted(_uniform_p_value((noise % 256 + 0.5) / 256))

    @pytest.mark.slow
    def test_nothing_changes_at_the_switch(self) -> None:
        at, above = Fraction(MAX_TABLED_VARIANCE), Fraction(MAX_TABLED_VARIANCE + 1)
        source = RehearsalEntropy(110)
        tabled, cut = (draw_discrete_gaussian(v, size=200_000, entropy=source) for v in (at, above))
        assert accepted(two_sample_p_value(tabled, cut))
        assert two_sample_p_value(tabled, cut * 21 // 20) < REJECTED
        tabled, cut = (
            draw_discrete_laplace(Fraction(MAX_TABLED_SCALE + extra), size=200_000, entropy=source)
            for extra in (0, 1)
        )
        assert accepted(two_sample_p_value(tabled, cut))
        assert two_sample_p_value(tabled, cut * 21 // 20) < REJECTED


def _uniform_p_value(places: Floats, *, bins: int = 128) -> float:
    return float(stats.chisquare(np.bincount((places * bins).astype(np.int64), minlength=bins)).pvalue)


class TestChoice:
    @pytest.mark.parametrize(
        ("scores", "rate"),
        [
            ([3, 0, 3, -2, 5], "1/2"),
            ([10**9, 10**9 - 1, 10**9 - 3, -(10**9)], "3/4"),
            pytest.param([0, 0, 0, 0], "7", marks=pytest.mark.slow),
            pytest.param([-1_000_000, 0, 1_000_000], "1/1000000", marks=pytest.mark.slow),
        ],
    )
    def test_the_law(self, scores: list[int], rate: str) -> None:
        seen = _choices(scores, rate=Fraction(rate), entropy=RehearsalEntropy(111))
        assert accepted(_choice_p_value(seen, scores=scores, rate=float(Fraction(rate))))
        if len(set(scores)) > 1:
            for factor in (0.5, 2):
                assert _choice_p_value(seen, scores=scores, rate=factor * float(Fraction(rate))) < REJECTED

    def test_the_systems_randomness(self) -> None:
        seen = _choices([2, 1, 0], rate=Fraction(1), entropy=SystemEntropy())
        assert _choice_p_value(seen, scores=[2, 1, 0], rate=1) > UNREPEATABLE_ALARM


def _choices(scores: list[int], *, rate: Fraction, entropy: Entropy) -> Draws:
    row = np.array(scores, dtype=np.int64)
    chosen = [draw_exponential_choice(row, rate=rate, entropy=entropy) for _ in range(1_500)]
    return np.bincount(chosen, minlength=len(scores))


def _choice_p_value(seen: Draws, *, scores: list[int], rate: float) -> float:
    weights = np.array([math.exp(rate * (score - max(scores))) for score in scores])
    expected = weights / weights.sum() * seen.sum()
    likely = expected > 1e-6
    assert seen[~likely].sum() == 0
    return float(stats.chisquare(seen[likely], expected[likely] / expected[likely].sum() * seen.sum()).pvalue)


class TestAgainstOpenDP:
    """An independent implementation, with its own randomness: alarms below 1e-9."""

    @pytest.mark.parametrize("scale", [5.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.75, 40.0))])
    @pytest.mark.parametrize("kind", ["gaussian", "laplace"])
    def test_the_same_law(self, kind: str, scale: float) -> None:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        make = {"gaussian": dp.m.make_gaussian, "laplace": dp.m.make_laplace}[kind]
        distance = {"gaussian": dp.l2_distance, "laplace": dp.l1_distance}[kind]
        theirs = make(dp.vector_domain(dp.atom_domain(T="i32")), distance(T="i32"), scale=scale)
        other = np.array(theirs([0] * 20_000), dtype=np.int64)
        exact = Fraction(scale)
        source = RehearsalEntropy(112)

        def ours(factor: str) -> Draws:
            if kind == "gaussian":
                return draw_discrete_gaussian(exact**2 * square(factor), size=200_000, entropy=source)
            return draw_discrete_laplace(exact * Fraction(factor), size=200_000, entropy=source)

        assert two_sample_p_value(ours("1"), other) > UNREPEATABLE_ALARM
        for factor in ("4/5", "5/4"):
            assert two_sample_p_value(ours(factor), other) < UNREPEATABLE_ALARM
