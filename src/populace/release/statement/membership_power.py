"""The power of the best membership test against a release: what ε means to somebody who attacks it.

The sentence about membership tests, and the word for the protection, are the same in plans and in statements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from statistics import NormalDist

from populace.core.number_format import format_percent_bound
from populace.core.spine import ROOT
from populace.privacy.accounting.privacy_loss import Currency, cap
from populace.privacy.ledger.run_record import RunRecord
from populace.schema.unit import Neighbours, PrivacyUnit

FALSE_POSITIVE_RATE = 0.05


class Protection(Enum):
    """How strong a guarantee is, by the largest power of a membership test at a false-positive rate of 5 %.

    A random guess has a power of 5 %.
    """

    STRONG = "strong"
    MODERATE = "moderate"
    WEAK = "weak"
    VERY_WEAK = "very weak"

    @classmethod
    def of(cls, power: float) -> Protection:
        """Return the word for a power.

        >>> [Protection.of(power).value for power in (0.072, 0.14, 0.2, 0.5)]
        ['strong', 'moderate', 'weak', 'very weak']
        """
        return next((word for limit, word in POWER_LIMITS.items() if power < limit), cls.VERY_WEAK)


# The power from which on the next word is due.
POWER_LIMITS = {0.1: Protection.STRONG, 0.2: Protection.MODERATE, 0.5: Protection.WEAK}


def bound_membership_power(
    record: RunRecord,
    *,
    earlier: Sequence[RunRecord] = (),
    false_positives: float = FALSE_POSITIVE_RATE,
) -> float:
    """Return the largest power of any test at a false-positive rate, under the guarantee of a run.

    `earlier` runs, of which a release holds tables too, add to it: Σμ² where all are Gaussian, else Σε and Σδ.
    """
    records = (record, *earlier)
    curves = [gaussian_curve(each) for each in records]
    if all(curve is not None for curve in curves):
        most = sum(curve for curve in curves if curve is not None)
        keys = sum((each.keys for each in records), Fraction(0))
        return compute_power(most, keys=keys, false_positives=false_positives)
    epsilon, delta = add_guarantees(records)
    return compute_power(None, epsilon=epsilon, delta=delta, false_positives=false_positives)


def bound_planned_power(epsilon: Fraction, delta: Fraction, *, keys: Fraction = Fraction(0)) -> float:
    """Return the largest power of any test under the (ε, δ) that a run will ask for, `keys` of δ set aside."""
    currency, most = cap(epsilon, delta - keys)
    curve = most if currency is Currency.GDP else None
    return compute_power(curve, keys=keys, epsilon=epsilon, delta=delta)


def compute_power(
    curve: Fraction | int | None,
    *,
    keys: Fraction = Fraction(0),
    epsilon: Fraction = Fraction(0),
    delta: Fraction = Fraction(0),
    false_positives: float = FALSE_POSITIVE_RATE,
) -> float:
    """Return the largest power under a Gaussian curve μ² or, where there is none, under (ε, δ).

    Gaussian: Φ(Φ⁻¹(α) + μ), the exact trade-off curve at the cap μ² that (ε, δ) allows. Otherwise, for (ε, δ):
    min(e^ε·α + δ, 1 − e^−ε·(1 − δ − α)). Sources: Dong, Roth and Su 2022, section 2; Kairouz, Oh and
    Viswanath 2015, section 2. The part κ of δ for keys moves both probabilities by at most κ: docs/proofs/discover.md.
    """
    if curve is not None:
        normal, part = NormalDist(), float(keys)
        alarms = false_positives / (1 - part) if part < 1 else 1.0
        return min(1.0, part + normal.cdf(normal.inv_cdf(alarms) + math.sqrt(curve)) if alarms < 1 else 1.0)
    loss, slack = float(epsilon), float(delta)
    # e^1000 is no float; above that the second bound is the smaller one anyway.
    first = math.exp(min(loss, 700.0)) * false_positives + slack
    return min(first, 1 - math.exp(-loss) * (1 - slack - false_positives), 1.0)


def gaussian_curve(record: RunRecord) -> Fraction | None:
    """Return the μ² of the Gaussian trade-off curve that bounds a run but for its keys; None where there is none."""
    kept, slack = record.guarantee
    currency, most = cap(kept, slack - record.keys)
    # What a privacy loss distribution keeps is less than its Gaussian curve needs: that curve is bounded by prices.
    return max(most, record.used) if currency is Currency.GDP else None


def add_guarantees(records: Iterable[RunRecord]) -> tuple[Fraction, Fraction]:
    """Return the (ε, δ) of several runs of an account together: they add up. Proof: docs/proofs/filters.md."""
    kept = [record.guarantee for record in records]
    return sum((e for e, _ in kept), Fraction(0)), sum((d for _, d in kept), Fraction(0))


def round_power(power: float) -> float:
    """Return a power to a tenth of a percent, rounded up: more may be said to be found than can be, never less."""
    return min(math.ceil(1000 * power) / 1000, 1.0)


def describe_protection(power: float) -> str:
    """Return how strong a guarantee is, with the number that says so, before a run.

    >>> describe_protection(0.072)  # doctest: +ELLIPSIS
    'Protection: strong. A membership test with a 5 % false-positive rate has at most 7.2 % power (a random ...
    """
    return f"Protection: {Protection.of(power).value}. {_describe_power(power)}."


def describe_membership_test(unit: PrivacyUnit, *, power: float) -> str:
    """Return the sentence of a statement that bounds the power of every membership test.

    >>> describe_membership_test(PrivacyUnit(name="person"), power=0.072)  # doctest: +ELLIPSIS
    'A membership test with a 5 % false-positive rate has at most 7.2 % power (a random guess: 5 %). This holds ...'
    """
    if unit.neighbours is Neighbours.ADD_REMOVE:
        question = f"whether one given {unit.word} is in the data"
    else:
        place = "" if unit.within in (None, ROOT) else f" in the same {unit.within}"
        question = f"which of two versions of one {unit.word}{place} is in the data"
    return (
        f"{_describe_power(power)}. This holds for every test of {question}, by anybody who knows all other rows and "
        "this whole folder."
    )


def _describe_power(power: float) -> str:
    bound = format_percent_bound(power)
    return f"A membership test with a 5 % false-positive rate has at most {bound} power (a random guess: 5 %)"
