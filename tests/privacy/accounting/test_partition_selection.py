"""The stability law: the probability that a key of one unit is told, its threshold, and how the ledger books both."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations_with_replacement

import mpmath as mp
import pytest

from populace.core.errors import LedgerError, OverBudget, UsageError
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    Noise,
    PartitionSelection,
    Spend,
    mechanism_from_json,
)
from populace.privacy.accounting.partition_selection import delta_price, min_threshold, reveal_probability
from populace.privacy.accounting.privacy_loss import Currency, gdp_delta, price
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.ledgers import append_raw, forge, reserve, rows
from tests.helpers.sampled_cases import sample_cases

NOISES = [
    DiscreteGaussian(Fraction(1, 10)),
    DiscreteLaplace(Fraction(7, 2)),
    DiscreteGaussian(Fraction(9, 4)),
    DiscreteLaplace(Fraction(1, 3)),
    DiscreteGaussian(Fraction(1)),
    DiscreteGaussian(Fraction(37, 3)),
    DiscreteLaplace(Fraction(20)),
    DiscreteGaussian(Fraction(400)),
]
DELTAS = [Fraction(1, 20), Fraction(1, 10**3), Fraction(1, 10**9), Fraction(1, 10**30)]
PERSON = PrivacyUnit(name="person", rows=3, id="p")
REPLACED = replace(PERSON, neighbours=Neighbours.REPLACE_ONE)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


@cache
def tail(noise: Noise, above: int) -> mp.mpf:
    """P[Z > above], by plain summation at 60 digits; nothing is shared with the code under test."""
    with mp.workdps(60):
        if isinstance(noise, DiscreteLaplace):
            spread = mp.mpf(noise.scale.numerator) / noise.scale.denominator
            reach = int(140 * spread) + 20
            weight = {k: mp.exp(-abs(k) / spread) for k in range(-reach, above + reach)}
        else:
            spread = mp.mpf(noise.variance.numerator) / noise.variance.denominator
            reach = int(20 * mp.sqrt(spread)) + 20
            weight = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * spread)) for k in range(-reach, above + reach)}
        return mp.fsum(w for k, w in weight.items() if k > above) / mp.fsum(weight.values())


def spreads(rows: int):
    """Every multiset of positive whole numbers whose sum is at most `rows`."""
    for parts in range(1, rows + 1):
        for counts in combinations_with_replacement(range(1, rows + 1), parts):
            if sum(counts) <= rows:
                yield counts


def worst(noise: Noise, threshold: int, rows: int) -> mp.mpf:
    """The greatest probability, over all multisets, that some key is told."""
    with mp.workdps(60):
        tails = {c: tail(noise, threshold - c) for c in range(1, rows + 1)}
        # P[A or B] = P[A] + P[B] − P[A]·P[B] loses no digits, however small the tails are.
        return max(reduce(lambda a, b: a + b - a * b, (tails[c] for c in m)) for m in spreads(rows))


@pytest.mark.parametrize("noise", sample_cases(NOISES, to=3), ids=str)
@pytest.mark.parametrize("rows", sample_cases([1, 3, 2, 5, 8], to=2))
def test_the_probability_is_that_of_the_worst_multiset(noise, rows):
    """The two ends (one key of r rows, r keys of one row) bound every spread, and to the last digit."""
    for threshold in (rows, rows + 1, rows + 4, rows + 30):
        found = reveal_probability(PartitionSelection(noise, threshold), rows=rows)
        exact = max(worst(noise, threshold, rows), mp.mpf(2) ** -1024)
        with mp.workdps(60):
            excess = mp.mpf(found.numerator) / found.denominator / exact - 1
        assert 0 <= excess < 1e-17


@pytest.mark.parametrize("rows", [1, 3, 12])
def test_both_ends_matter(rows):
    """Many keys of one row are worst for wide noise, one key of many rows for narrow noise."""
    apart = PartitionSelection(DiscreteGaussian(Fraction(400)), 60)
    together = PartitionSelection(DiscreteGaussian(Fraction(1)), rows + 4)
    assert reveal_probability(apart, rows=rows) >= float(rows * tail(apart.noise, 59)) * 0.99
    assert reveal_probability(together, rows=rows) >= float(tail(together.noise, 4)) * 0.999


@pytest.mark.parametrize("noise", sample_cases(NOISES, to=3), ids=str)
@pytest.mark.parametrize("delta", sample_cases(DELTAS, to=2), ids=lambda delta: f"{float(delta):g}")
@pytest.mark.parametrize("unit", [PrivacyUnit(), PERSON, REPLACED], ids=["row", "person", "replaced"])
def test_the_threshold_is_the_least_that_fits(noise, delta, unit):
    threshold = min_threshold(noise, delta=delta, unit=unit)
    twice = 2 if unit.neighbours is Neighbours.REPLACE_ONE else 1
    with mp.workdps(60):
        most = mp.mpf(delta.numerator) / delta.denominator / twice
    assert worst(noise, threshold, unit.rows) <= most
    assert threshold == unit.rows or worst(noise, threshold - 1, unit.rows) > most


@pytest.mark.slow
def test_wide_noise_is_bounded_closely():
    """Beyond the terms that are summed, an integral bounds the rest: never below, and by less than one in 10,000."""
    noise = DiscreteGaussian(Fraction(4 * 10**6))
    found = reveal_probability(PartitionSelection(noise, 3000), rows=1)
    exact = tail(noise, 2999)
    assert exact <= float(found) * (1 + 1e-12)
    assert float(found) < exact * 1.0001


def test_what_lies_behind_the_terms_of_wide_noise_is_booked():
    """σ = 20,000 at δ = 1e-9: a third of the tail is an integral.

    Σ f(k) over k ≥ n is ∫f + f(n)/2 − f'(n)/12 up to one in 10¹², and over all k it is σ√2π.
    """
    noise, delta = DiscreteGaussian(Fraction(4 * 10**8)), Fraction(1, 10**9)

    def wide(above: int) -> mp.mpf:
        spread, first = mp.mpf(20_000), mp.mpf(above + 1)
        term = mp.exp(-((first / spread) ** 2) / 2)
        area = spread * mp.sqrt(mp.pi / 2) * mp.erfc(first / spread / mp.sqrt(2))
        return (area + term / 2 + term * first / spread**2 / 12) / (spread * mp.sqrt(2 * mp.pi))

    with mp.workdps(40):
        threshold = min_threshold(noise, delta=delta, unit=PrivacyUnit())
        found = reveal_probability(PartitionSelection(noise, threshold), rows=1)
        excess = mp.mpf(found.numerator) / found.denominator / wide(threshold - 1) - 1
        assert 0 <= excess < 1e-4
        assert wide(threshold - 1) <= 1e-9 < wide(threshold - 2)


def test_a_tiny_probability_is_booked_as_a_short_number():
    found = reveal_probability(PartitionSelection(DiscreteGaussian(Fraction(1)), 10**4), rows=1)
    assert found == Fraction(1, 2**1024)


def test_a_threshold_below_the_rows_of_a_unit_hides_nothing():
    assert reveal_probability(PartitionSelection(DiscreteGaussian(Fraction(1)), 2), rows=3) == 1
    assert delta_price(PartitionSelection(DiscreteGaussian(Fraction(1)), 2), unit=REPLACED) == 2
    assert delta_price(DiscreteGaussian(Fraction(1)), unit=PERSON) == 0


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(-1)])
def test_no_delta_no_threshold(delta):
    with pytest.raises(UsageError, match="no threshold"):
        min_threshold(DiscreteGaussian(Fraction(1)), delta=delta, unit=PrivacyUnit())


def test_the_price_is_that_of_the_noise_and_the_law_reads_back():
    mechanism = PartitionSelection(DiscreteGaussian(Fraction(25, 2)), 40)
    assert mechanism_from_json(mechanism.to_json()) == mechanism
    for currency in (Currency.GDP, Currency.ZCDP):
        assert price(asked(mechanism), currency=currency) == price(
            asked(DiscreteGaussian(Fraction(25, 2))), currency=currency
        )
    with pytest.raises(UsageError, match="pure"):
        price(asked(mechanism), currency=Currency.PURE)
    pure = PartitionSelection(DiscreteLaplace(Fraction(7, 2)), 40)
    assert mechanism_from_json(pure.to_json()) == pure
    for currency in Currency:
        assert price(asked(pure), currency=currency) == price(asked(pure.noise), currency=currency)
    for both in ({"variance": "9", "scale": "3"}, {}):
        with pytest.raises(ValueError, match="one distribution"):
            mechanism_from_json({"law": "stability", "threshold": "40", **both})


def asked(mechanism, *, unit=None, verb="discover"):
    unit = unit or PrivacyUnit()
    return Spend(
        verb=verb,
        what="values of 'city'",
        mechanism=mechanism,
        answers=1,
        l1=unit.marginal_l1,
        l2_squared=unit.marginal_l2_squared,
    )


@pytest.mark.parametrize(
    ("verb", "mechanism"),
    [
        ("measure", PartitionSelection(DiscreteGaussian(Fraction(1)), 5)),
        ("score", PartitionSelection(DiscreteGaussian(Fraction(1)), 5)),
        ("dig", Fraction(1)),
    ],
)
def test_keys_are_only_told_by_discover(verb, mechanism):
    with pytest.raises(UsageError):
        asked(mechanism, verb=verb)


@pytest.mark.parametrize("told", ["5/2", "0", "-3", "1e3"])
def test_a_threshold_is_a_whole_number_above_zero(told):
    with pytest.raises((UsageError, ValueError)):
        mechanism_from_json({"law": "stability", "variance": "1", "threshold": told})
    with pytest.raises(UsageError):
        PartitionSelection(DiscreteGaussian(Fraction(1)), True)


def test_keys_are_not_told_with_noise_that_takes_a_part_of_delta_itself():
    """The books charge what a threshold takes; what the noise names would be on top of it."""
    with pytest.raises(UsageError, match="keys cannot be released"):
        PartitionSelection(EpsilonDeltaGaussian(Fraction(100), Fraction(1, 100)), 200)
    with pytest.raises(UsageError, match="has no 'delta'"):
        mechanism_from_json({"law": "stability", "variance": "100", "delta": "1/100", "threshold": "200"})


def test_a_budget_makes_the_law_that_a_share_and_a_part_of_delta_pay_for():
    budget = Budget.of(Fraction(1), Fraction(1, 10**9), unit=PERSON)
    mechanism = budget.key_mechanism(Fraction(1, 20), delta=Fraction(1, 10**10))
    share = budget.share(asked(mechanism, unit=PERSON))
    assert Fraction(499, 10_000) < share <= Fraction(1, 20)
    assert delta_price(mechanism, unit=PERSON) <= Fraction(1, 10**10)
    assert delta_price(
        PartitionSelection(DiscreteGaussian(mechanism.variance), mechanism.threshold - 1), unit=PERSON
    ) > Fraction(1, 10**10)
    pure = Budget.of(Fraction(1), Fraction(0), unit=PERSON)
    assert pure.key_mechanism(Fraction(1, 20), delta=Fraction(1, 10**10)).noise == DiscreteLaplace(
        Fraction(60)
    )
    with pytest.raises(UsageError, match="no threshold"):
        pure.key_mechanism(Fraction(1, 20), delta=Fraction(0))


KEYS = Fraction("1e-10")


class TestBooks:
    """Rows: 1 open, 2 reserve, 3 spend."""

    def mechanism(self, run, *, share=Fraction(1, 10), delta=KEYS):
        return run.left.key_mechanism(share, delta=delta)

    @pytest.mark.parametrize("unit", [PrivacyUnit(), PERSON, REPLACED], ids=["row", "person", "replaced"])
    def test_a_part_of_delta_is_set_aside_and_spent(self, ledger, unit):
        ledger.open_account("adult", epsilon="1", delta="1e-9", neighbours=unit.neighbours)
        run = reserve(ledger, unit=unit, keys=KEYS)
        record = run.record()
        assert record.guarantee == (1, Fraction("1e-9"))
        assert gdp_delta(record.cap, epsilon=Fraction(1)) <= Fraction("9e-10")
        assert gdp_delta(record.cap * Fraction("1.0001"), epsilon=Fraction(1)) > Fraction("9e-10")
        mechanism = self.mechanism(run)
        run.charge(asked(mechanism, unit=unit))
        booked = Ledger.existing(ledger.path).record(run.id)
        assert booked.spends[0].delta == delta_price(mechanism, unit=unit) <= KEYS
        assert booked.left.keys == KEYS - booked.spends[0].delta
        assert booked.left.cap == record.cap - booked.spends[0].price
        with pytest.raises(OverBudget, match="set aside is left"):
            run.charge(asked(mechanism, unit=unit))
        assert len(run.record().spends) == 1
        assert RunRecord.from_json(booked.to_json()) == booked
        booked.check()

    def test_noise_takes_the_part_that_it_names_and_no_more_than_there_is(self, ledger):
        run = reserve(ledger, keys=Fraction("1e-9"))
        mechanism = EpsilonDeltaGaussian(Fraction(10**6), Fraction("6e-10"))
        run.charge(asked(mechanism, verb="measure"))
        with pytest.raises(OverBudget, match="4e-10 of the 1e-9 set aside is left") as refused:
            run.charge(asked(mechanism, verb="measure"))
        assert "for keys" not in str(refused.value)
        assert run.record().used_delta_reserve == Fraction("6e-10")

    def test_keys_without_a_part_of_delta_are_refused(self, ledger):
        run = reserve(ledger)
        with pytest.raises(OverBudget, match="0 set aside"):
            run.charge(asked(PartitionSelection(DiscreteGaussian(Fraction(10**6)), 10**4)))

    @pytest.mark.parametrize("unit", [PrivacyUnit(), PERSON, REPLACED], ids=["row", "person", "replaced"])
    def test_with_all_of_delta_set_aside_the_rest_is_pure(self, ledger, unit):
        ledger.open_account("adult", epsilon="1", delta="1e-9", neighbours=unit.neighbours)
        run = reserve(ledger, unit=unit, keys=Fraction("1e-9"))
        assert (run.record().budget.currency, run.record().budget.cap) == (Currency.PURE, 1)
        mechanism = self.mechanism(run, share=Fraction(1), delta=Fraction("1e-9"))
        assert mechanism.noise == DiscreteLaplace(Fraction(unit.marginal_l1))
        run.charge(asked(mechanism, unit=unit))
        booked = Ledger.existing(ledger.path).record(run.id)
        assert booked.guarantee == (1, Fraction("1e-9"))
        assert booked.used == 1
        assert Fraction("0.3e-9") < booked.used_delta_reserve <= booked.keys
        assert RunRecord.from_json(booked.to_json()) == booked
        booked.check()
        with pytest.raises(UsageError, match="pure"):
            run.charge(asked(PartitionSelection(DiscreteGaussian(Fraction(10**6)), 10**4), unit=unit))

    @pytest.mark.parametrize("keys", ["2e-9", "-1e-10"])
    def test_no_more_than_delta_is_set_aside(self, ledger, keys):
        with pytest.raises(UsageError, match="set aside"):
            reserve(ledger, keys=Fraction(keys))
        with pytest.raises(UsageError, match="set aside"):
            reserve(ledger, delta="0", keys=KEYS)
        assert ledger.accounts() == ()

    def test_a_run_without_keys_is_written_as_ever(self, ledger):
        """Logs of earlier versions have neither field, and read back as they are."""
        run = reserve(ledger)
        run.charge(asked(run.record().budget.measure_noise(Fraction(1, 10), marginals=1), verb="measure"))
        assert not any("keys" in row.body or "delta" in row.body for row in rows(ledger.path)[2:])
        assert '"keys"' not in rows(ledger.path)[1].body
        assert "keys" not in run.record().to_json()
        assert Ledger.existing(ledger.path).record(run.id).keys == 0

    def refused(self, ledger, match):
        with pytest.raises(LedgerError, match=match):
            Ledger.existing(ledger.path)

    def test_forged_rows_are_refused(self, ledger):
        run = reserve(ledger, keys=KEYS)
        mechanism = self.mechanism(run)
        run.charge(asked(mechanism))
        told = SpendRecord.from_json(run.record().spends[0].to_json())
        lower = replace(mechanism, threshold=mechanism.threshold - 1).to_json()
        for row, changes, match in (
            (3, {"delta": str(told.delta / 2)}, "part of delta"),
            (3, {"delta": "0"}, "part of delta"),
            (3, {"law": lower}, "part of delta"),
            (
                3,
                {"law": replace(mechanism, noise=DiscreteGaussian(mechanism.variance / 2)).to_json()},
                "below its price",
            ),
            (3, {"delta": str(2 * KEYS)}, "set aside"),
            (3, {"note": "free"}, "'note', which this version does not know"),
            (2, {"keys": str(told.delta / 2)}, "set aside"),
            (2, {"keys": "1e-10"}, "cannot be read"),
            (2, {"keys": "1/1000000000"}, "above what"),
            (2, {"keys": "2/1000000000"}, "set aside"),
            (2, {"keys": str(9 * KEYS)}, "above what"),
            (2, {"extra": "0"}, "'extra', which this version does not know"),
        ):
            before = rows(ledger.path)
            forge(ledger.path, row=row, **changes)
            self.refused(ledger, match)
            restore(ledger.path, before)
        assert Ledger.existing(ledger.path).verify() == 3

    def test_a_second_spend_beyond_the_part_is_refused_when_read(self, ledger):
        run = reserve(ledger, keys=KEYS)
        run.charge(asked(self.mechanism(run)))
        body = run.record().spends[0].to_json()
        append_raw(ledger.path, Event(kind=EventKind.SPEND, dataset="adult", run=run.id, body=body))
        self.refused(ledger, "set aside is left")


def restore(path, log):
    import sqlite3
    from contextlib import closing

    from populace.privacy.ledger import ledger_file

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("delete from events")
        for row in log:
            ledger_file.append(connection, row)


@pytest.mark.parametrize(
    ("part", "threshold", "taken"),
    [("1/20", 146, 0.3), ("1/10", 144, 0.6), ("1/4", 142, 1.7), ("1/2", 141, 4.0)],
)
def test_the_figures_of_the_decision_note_hold(part, threshold, taken):
    """docs/decisions/learnt-domains.md: rows that a value needs, and per cent of the cap, at ε = 1 and δ = 1e-9."""
    delta, part = Fraction("1e-9"), Fraction(part)
    whole, left = (Budget.of(Fraction(1), delta * share, unit=PrivacyUnit()) for share in (1, 1 - part))
    assert left.key_mechanism(Fraction(6, 100), delta=delta * part).threshold == threshold
    assert round(100 * float(1 - left.cap / whole.cap), 1) == taken
