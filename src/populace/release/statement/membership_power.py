"""The power of the best membership test against a release: what ε means to somebody who attacks it.

The statement's sentence about membership tests is made here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import NormalDist

from populace.core.number_format import format_percent_bound
from populace.core.spine import ROOT
from populace.privacy.accounting.privacy_loss import Currency, cap
from populace.privacy.ledger.run_record import RunRecord
from populace.schema.unit import Neighbours, PrivacyUnit

FALSE_POSITIVE_RATE = 0.05
# A random guess has a power of 5 %. From these on, the guarantee is weak, and hardly one at all.
MIN_WEAK_POWER = 0.2
MIN_UNPROTECTED_POWER = 0.5


def bound_membership_power(
    record: RunRecord,
    *,
    earlier: Sequence[RunRecord] = (),
    false_positives: float = FALSE_POSITIVE_RATE,
) -> float:
    """Return the largest power of any test at a false-positive rate, under the guarantee of a run.

    `earlier` runs, of which a release holds tables too, add to it: Σμ² where all are Gaussian, else Σε and Σδ.

    Gaussian: Φ(Φ⁻¹(α) + μ), the exact trade-off curve at the cap μ² that (ε, δ) allows. Otherwise, for (ε, δ):
    min(e^ε·α + δ, 1 − e^−ε·(1 − δ − α)). Sources: Dong, Roth and Su 2022, section 2; Kairouz, Oh and
    Viswanath 2015, section 2. The part κ of δ for keys moves both probabilities by at most κ: docs/proofs/discover.md.
    """
    records = (record, *earlier)
    curves = [gaussian_curve(each) for each in records]
    if all(curve is not None for curve in curves):
        most = sum(curve for curve in curves if curve is not None)
        normal = NormalDist()
        keys = float(sum(each.keys for each in records))
        alarms = false_positives / (1 - keys) if keys < 1 else 1.0
        return min(1.0, keys + normal.cdf(normal.inv_cdf(alarms) + math.sqrt(most)) if alarms < 1 else 1.0)
    epsilon, delta = map(float, add_guarantees(records))
    # e^1000 is no float; above that the second bound is the smaller one anyway.
    first = math.exp(min(epsilon, 700.0)) * false_positives + delta
    return min(first, 1 - math.exp(-epsilon) * (1 - delta - false_positives), 1.0)


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
        f"A membership test with a 5 % false-positive rate has at most {format_percent_bound(power)} power (a random "
        f"guess: 5 %). This holds for every test of {question}, by anybody who knows all other rows and this whole "
        "folder."
    )
