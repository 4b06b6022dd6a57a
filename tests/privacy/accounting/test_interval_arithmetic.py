"""Ball arithmetic: bounds that really bound, and rounding to the safe side."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest
from flint import arb, ctx

from populace.privacy.accounting import interval_arithmetic
from populace.privacy.accounting.interval_arithmetic import (
    ball,
    bounds,
    find_greatest,
    precision,
    round_down,
    round_up,
)


@pytest.mark.parametrize("exponent", [-82, -90, -140])
def test_bounds_enclose_the_whole_ball_and_not_its_centre(exponent):
    low, high = bounds(lambda: arb(1, arb(2) ** exponent))
    radius = Fraction(2) ** exponent
    assert low <= 1 - radius
    assert high >= 1 + radius
    assert high - low < 3 * radius


def test_bounds_ask_for_more_precision_when_digits_cancel():
    tiny = Fraction(1, 10**200)
    low, high = bounds(lambda: (1 + ball(tiny)) - 1)
    assert low <= tiny <= high
    assert high - low < tiny / 2**70


def test_what_no_precision_settles_is_an_error_and_not_a_number():
    with pytest.raises(ArithmeticError):
        bounds(lambda: arb(0, 1))


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10**30 + 1, 7), Fraction(1, 10**40), Fraction(5)])
@pytest.mark.parametrize("bits", [1, 8, 64])
def test_rounding_goes_to_the_safe_side_by_less_than_one_step(value, bits):
    low, high = round_down(value, bits=bits), round_up(value, bits=bits)
    assert low <= value <= high
    assert high - low <= value * Fraction(2) ** (1 - bits)
    assert round_up(high, bits=bits) == high
    assert round_down(low, bits=bits) == low


@pytest.mark.parametrize("start", [Fraction(1, 10**6), Fraction(1), Fraction(10**6)])
def test_bisection_finds_the_greatest_from_anywhere(start):
    found = find_greatest(lambda x: x**3 <= 10, start=start, bits=30)
    assert found**3 <= 10 < (found * (1 + Fraction(1, 2**29))) ** 3


def test_precision_is_restored_and_taken_in_turns():
    before = ctx.prec
    wrong = []

    def work(bits):
        for _ in range(200):
            with precision(bits):
                if ctx.prec != bits:
                    wrong.append(ctx.prec)

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert ctx.prec == before


def test_a_forked_child_has_a_lock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held = interval_arithmetic._precision_lock
    monkeypatch.setattr(interval_arithmetic, "_precision_lock", held)
    interval_arithmetic._renew_lock()
    assert interval_arithmetic._precision_lock is not held
