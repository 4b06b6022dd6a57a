"""Budgets: how ε and δ are given, and how shares of a run's budget become noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from populace.core.errors import UsageError
from populace.privacy.accounting.fixed_point import LOG_STEPS, STEPS
from populace.privacy.accounting.gaussian_dp import gaussian_cap, max_pure_epsilon, min_variance
from populace.privacy.accounting.interval_arithmetic import round_down, round_up
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Exponential,
    ExponentialCount,
    Noise,
    PartitionSelection,
    Spend,
    is_drawable,
)
from populace.privacy.accounting.partition_selection import min_threshold
from populace.privacy.accounting.privacy_loss import Currency, cap, price
from populace.privacy.accounting.privacy_loss_distribution import calibrate_variances
from populace.privacy.smooth.smooth_noise import SmoothNoise, calibrate_smooth_noise
from populace.schema.unit import PrivacyUnit

Number = str | int | float | Fraction | Decimal

MIN_EPSILON, MAX_EPSILON = Fraction(1, 10**9), Fraction(10**6)
MIN_DELTA = Fraction(1, 10**300)
_MAX_DIGITS = 400
_SHORT_BITS = 32
# An answer with smooth noise takes no more, whatever is left: its noise is nothing beside its bound by then, and
# distributions of a greater price leave the range in which they are searched for.
MAX_SMOOTH_EPSILON = Fraction(512)


def parse_epsilon(value: Number) -> Fraction:
    """Return ε as an exact number; the float 0.1 means one tenth.

    >>> parse_epsilon(0.1), parse_epsilon("1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    epsilon = parse_number(value, name="epsilon", hint="give a positive number, such as 1 or 0.5")
    if epsilon <= 0:
        raise UsageError(f"epsilon is {value}.", hint="give a positive number, such as 1 or 0.5")
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise UsageError(
            f"epsilon is {_shorten(value)}; between 1e-9 and 1e6 it means something.",
            hint="common choices lie between 0.1 and 10",
        )
    return epsilon


def parse_delta(value: Number) -> Fraction:
    """Return δ as an exact number; 0 asks for pure differential privacy.

    >>> parse_delta("1e-9") == Fraction(1, 10**9), parse_delta(0)
    (True, Fraction(0, 1))
    """
    hint = "give a number of at least 0 and below 1, such as 1e-9"
    delta = parse_number(value, name="delta", hint=hint)
    if not 0 <= delta < 1:
        raise UsageError(f"delta is {_shorten(value)}.", hint=hint)
    if 0 < delta < MIN_DELTA:
        raise UsageError(
            f"delta is {_shorten(value)}; the least above 0 is 1e-300.", hint="give 0 for pure privacy"
        )
    return delta


def parse_number(value: object, *, name: str, hint: str) -> Fraction:
    """Return a number exactly as it is written, and refuse everything that is not one.

    >>> parse_number("1/3", name="the share", hint="give a number")
    Fraction(1, 3)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Fraction | Decimal):
        raise UsageError(f"{name} is {_shorten(value)}, not a number.", hint=hint)
    if isinstance(value, Fraction):
        return value
    text = (
        value.strip() if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
    )
    upper, slash, lower = text.partition("/")
    numerator, denominator = _parse_decimal(upper), _parse_decimal(lower) if slash else Fraction(1)
    if numerator is None or not denominator:
        raise UsageError(f"{name} is {_shorten(value)}, not a number.", hint=hint)
    return numerator / denominator


def _parse_decimal(text: str) -> Fraction | None:
    """Return a finite decimal number, or None. Decimal never expands an exponent: 1e999999999 costs nothing."""
    try:
        number = Decimal(text)
    except (InvalidOperation, ValueError):
        return None
    if (
        not number.is_finite()
        or len(number.as_tuple().digits) > _MAX_DIGITS
        or abs(number.adjusted()) > _MAX_DIGITS
    ):
        return None
    return Fraction(number)


def _shorten(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of one run as public arithmetic: a share of it becomes the least noise it can pay for.

    `keys` is the part of the run's δ that is set aside for telling keys, and for Gaussian noise among pure questions;
    it is no part of the cap. `promise` is the (ε, δ) that a plan fixed in advance may use as a whole, while nothing of
    it is spent.

    >>> from populace.schema.unit import PrivacyUnit
    >>> budget = Budget.of(Fraction(1), Fraction("1e-9"), unit=PrivacyUnit())
    >>> round(float(budget.measure_noise(Fraction(1, 2), marginals=14).variance))
    846
    """

    currency: Currency
    cap: Fraction
    unit: PrivacyUnit
    keys: Fraction = Fraction(0)
    promise: tuple[Fraction, Fraction] | None = None

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, *, unit: PrivacyUnit) -> Budget:
        """Return the budget of a run that must be (ε, δ)-differentially private for this unit."""
        currency, most = cap(epsilon, delta)
        return cls(currency=currency, cap=most, unit=unit, promise=(epsilon, delta))

    def key_mechanism(self, share: Fraction, *, delta: Fraction) -> PartitionSelection:
        """Return the partition selection for a share of the budget and a part of δ, with the least threshold."""
        noise = self.measure_noise(share, marginals=1)
        return PartitionSelection(noise, min_threshold(noise, delta=delta, unit=self.unit))

    def measure_noise(self, share: Fraction, *, marginals: int) -> Noise:
        """Return the least noise with which this many marginals cost at most a share of the budget."""
        return self._noise(
            share, answers=marginals, l1=self.unit.marginal_l1, l2_squared=self.unit.marginal_l2_squared
        )

    def plan_noise(self, shares: Sequence[Fraction]) -> tuple[Noise, ...]:
        """Return the least noise of marginals that are all fixed before the first answer: one for each share of all.

        Gaussian noise is calibrated by its privacy loss distribution, which needs less than the sum of prices does;
        only a run reserved with a plan fixed in advance may draw it. The ε of Laplace noise add up exactly.
        Proof: docs/proofs/privacy-loss-distribution.md

        >>> from populace.schema.unit import PrivacyUnit
        >>> budget = Budget.of(Fraction(8), Fraction("1e-9"), unit=PrivacyUnit())
        >>> (noise,) = budget.plan_noise([Fraction(1)])
        >>> round(float(noise.variance), 3), round(float(budget.measure_noise(Fraction(1), marginals=1).variance), 3)
        (0.562, 0.714)
        """
        if sum(shares) != 1:
            raise UsageError(
                f"the shares of a plan add up to {_shorten(sum(shares))}.", hint="share out the whole budget"
            )
        calibrated = None
        if self.currency is Currency.GDP and self.promise and self.unit.rows == 1:
            epsilon, delta = self.promise
            cells = self.unit.marginal_l2_squared
            calibrated = calibrate_variances(tuple(shares), cells=cells, epsilon=epsilon, delta=delta)
        if calibrated is None:
            return tuple(self.measure_noise(share, marginals=1) for share in shares)
        return tuple(map(DiscreteGaussian, calibrated))

    def measure_gaussian(self, share: Fraction, *, marginals: int, delta: Fraction) -> EpsilonDeltaGaussian:
        """Return the least Gaussian noise with which this many marginals cost a share of a pure budget, and δ.

        >>> from populace.schema.unit import PrivacyUnit
        >>> budget = Budget.of(Fraction(1), Fraction(0), unit=PrivacyUnit())
        >>> round(float(budget.measure_gaussian(Fraction(1, 2), marginals=14, delta=Fraction("1e-9")).variance))
        1595
        """
        if self.currency is not Currency.PURE:
            raise UsageError(
                "a part of delta is not taken twice.", hint="ask a budget that is pure but for it"
            )
        # The price is rounded up in the last of 40 bits.
        most = gaussian_cap(share * self.cap * (1 - Fraction(1, 2**36)), delta)
        variance = min_variance(most / (marginals * self.unit.marginal_l2_squared))
        return EpsilonDeltaGaussian(variance, delta)

    def measure_bounded(self, share: Fraction, *, marginals: int, most: int) -> ExponentialCount:
        """Return the sharpest mechanism with which this many marginals, within 0 and `most`, cost at most a share."""
        epsilon = self.choice(share, choices=marginals).epsilon
        return ExponentialCount(_short_up(2 * self.unit.marginal_l1 / epsilon), most)

    def score_noise(self, share: Fraction, *, scores: int) -> Noise:
        """Return the least noise with which this many scores cost at most a share of the budget."""
        return self._noise(share, answers=scores, l1=self.unit.score_shift)

    def sum_noise(self, share: Fraction, *, sums: int) -> Noise:
        """Return the least noise with which this many sums, released in steps, cost at most a share of the budget.

        >>> from populace.schema.unit import PrivacyUnit
        >>> noise = Budget.of(Fraction(1), Fraction(0), unit=PrivacyUnit()).sum_noise(Fraction(1, 2), sums=3)
        >>> noise.scale / STEPS
        Fraction(6, 1)
        """
        return self._noise(share, answers=sums, l1=STEPS * self.unit.marginal_l1)

    def bound_noise(self, share: Fraction) -> Noise:
        """Return the least noise with which the size of a smooth bound costs at most a share of the budget."""
        return self._noise(share, answers=1, l1=LOG_STEPS * self.unit.marginal_l1)

    def smooth_epsilon(self, share: Fraction, *, answers: int = 1) -> Fraction:
        """Return the ε that each of some answers with smooth noise may have, together for at most a share.

        It is the ε between tables that differ by one row: a unit of several rows takes as many times as much. What
        exceeds `MAX_SMOOTH_EPSILON` is not spent.

        >>> from populace.schema.unit import PrivacyUnit
        >>> Budget.of(Fraction(6), Fraction(0), unit=PrivacyUnit(rows=3, id="id")).smooth_epsilon(Fraction(1, 2))
        Fraction(1, 1)
        """
        each, rows = self._each(share, answers=answers), self.unit.marginal_l1
        if self.currency is Currency.GDP:
            found = max_pure_epsilon(each)
        else:
            found = _root_down(2 * each) if self.currency is Currency.ZCDP else each
        return min(found / rows, MAX_SMOOTH_EPSILON)

    def smooth_noise(self, share: Fraction, *, t: Fraction, answers: int = 1) -> SmoothNoise:
        """Return the smallest noise with which some answers, whose bounds have smoothness t, cost at most a share."""
        return calibrate_smooth_noise(self.smooth_epsilon(share, answers=answers), t=t)

    def choice(self, share: Fraction, *, choices: int) -> Exponential:
        """Return the sharpest mechanism with which this many choices cost at most a share of the budget."""
        each = self._each(share, answers=choices)
        if self.currency is Currency.GDP:
            return Exponential(2 * max_pure_epsilon(each))
        if self.currency is Currency.ZCDP:
            return Exponential(_root_down(8 * each))
        return Exponential(_short_down(each))

    def can_afford(self, share: Fraction) -> bool:
        """Say whether one answer for a share of the budget, a marginal or a score, has noise that fits 64 bits.

        >>> from populace.schema.unit import PrivacyUnit
        >>> [Budget.of(Fraction(e), Fraction(0), unit=PrivacyUnit()).can_afford(Fraction(1, 10**5)) for e in
        ... ("1e-6", "1e-9")]
        [True, False]
        """
        widest = max(self.unit.marginal_l1, self.unit.score_shift)
        return is_drawable(self._noise(share, answers=1, l1=widest))

    def share(self, spend: Spend) -> Fraction:
        """Return the share of the budget that a spend takes; above 1 it cannot be paid."""
        return price(spend, currency=self.currency) / self.cap

    def _noise(self, share: Fraction, *, answers: int, l1: int, l2_squared: int | None = None) -> Noise:
        """Return the noise of answers that move this far in L1 and, unless it is given, as far in L2."""
        each, squared = self._each(share, answers=answers), l1**2 if l2_squared is None else l2_squared
        if self.currency is Currency.GDP:
            return DiscreteGaussian(min_variance(each / squared))
        if self.currency is Currency.ZCDP:
            return DiscreteGaussian(_short_up(squared / (2 * each)))
        return DiscreteLaplace(_short_up(l1 / each))

    def _each(self, share: Fraction, *, answers: int) -> Fraction:
        """Return what one of several equal answers may cost."""
        if not isinstance(share, int | Fraction) or not 0 < share <= 1:
            raise UsageError(
                f"the share of a budget is {_shorten(share)}.", hint="give a Fraction above 0 and at most 1"
            )
        if isinstance(answers, bool) or not isinstance(answers, int) or answers < 1:
            raise UsageError(
                f"a share is split over {_shorten(answers)} answers.", hint="give a whole number, 1 or more"
            )
        return share * self.cap / answers


def _short_up(value: Fraction) -> Fraction:
    """Return the value itself if it is short, else the next number above it with few bits."""
    return value if _is_short(value) else round_up(value, bits=_SHORT_BITS)


def _short_down(value: Fraction) -> Fraction:
    return value if _is_short(value) else round_down(value, bits=_SHORT_BITS)


def _is_short(value: Fraction) -> bool:
    return value.numerator.bit_length() <= _SHORT_BITS and value.denominator.bit_length() <= _SHORT_BITS


def _root_down(square: Fraction) -> Fraction:
    """Return a short number whose square is at most this one, to seven digits."""
    root = round_down(Fraction(float(square) ** 0.5), bits=_SHORT_BITS)
    while root * root > square:
        root = round_down(root * (1 - Fraction(1, 2**_SHORT_BITS)), bits=_SHORT_BITS)
    return root
