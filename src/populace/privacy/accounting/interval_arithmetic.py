"""Ball arithmetic: real numbers with proven error bounds, and the way back to exact fractions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

PRICE_BITS = 64
_ACCURATE_BITS = 80
_WORKING_BITS = (160, 320, 640, 1280, 2560, 5120, 10240)

# FLINT keeps one working precision for the whole process, so one thread at a time may set it.
_precision_lock = threading.RLock()


def _renew_lock() -> None:
    """Give a forked child its own lock: the parent's may have been held by a thread the child lacks."""
    global _precision_lock
    _precision_lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with this many bits inside the block; errors are tracked at any precision."""
    with _precision_lock, ctx.workprec(bits):
        yield


def ball(value: Fraction | int) -> arb:
    """Return the narrowest ball around an exact number at the working precision."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def bounds(compute: Callable[[], arb]) -> tuple[Fraction, Fraction]:
    """Return fractions below and above what `compute` encloses, at growing precision until they are close.

    >>> low, high = bounds(lambda: ball(2).sqrt())
    >>> low**2 < 2 < high**2, high - low < Fraction(1, 2**75)
    (True, True)
    """
    for bits in _WORKING_BITS:
        with precision(bits):
            found = compute()
            if found.is_finite() and found.rel_accuracy_bits() >= _ACCURATE_BITS:
                return _exact(found.lower()), _exact(found.upper())
    raise ArithmeticError(f"no working precision up to {_WORKING_BITS[-1]} bits was enough")


def ceiling(compute: Callable[[], arb]) -> int:
    """Return the least whole number that is not below what `compute` encloses, at growing precision until it is known.

    What cannot be told from a whole number at the highest precision is one.

    >>> ceiling(lambda: ball(2).sqrt()), ceiling(lambda: ball(4).sqrt() * ball(2).log() / ball(2).log())
    (2, 2)
    """
    for bits in _WORKING_BITS:
        with precision(bits):
            found = compute()
            if bits == _WORKING_BITS[-1]:
                found = (found.mid() + ball(Fraction(1, 2))).floor()
            whole = found.ceil().unique_fmpz() if found.is_finite() else None
        if whole is not None:
            return int(whole)
    raise ArithmeticError(f"no working precision up to {_WORKING_BITS[-1]} bits was enough")


def _exact(point: arb) -> Fraction:
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa << max(exponent, 0), 1 << max(-exponent, 0))


def round_up(value: Fraction, *, bits: int = PRICE_BITS) -> Fraction:
    """Return the least fraction ≥ value with this many significant bits.

    >>> round_up(Fraction(1, 3), bits=4), round_up(Fraction(3, 8), bits=4)
    (Fraction(11, 32), Fraction(3, 8))
    """
    return -_floor(-value, bits=bits)


def round_down(value: Fraction, *, bits: int = PRICE_BITS) -> Fraction:
    """Return the greatest fraction ≤ value with this many significant bits.

    >>> round_down(Fraction(1, 3), bits=4)
    Fraction(5, 16)
    """
    return _floor(value, bits=bits)


def _floor(value: Fraction, *, bits: int) -> Fraction:
    step = _step(value, bits=bits)
    return step * (value // step)


def _step(value: Fraction, *, bits: int) -> Fraction:
    """Return the power of two by which a number of this size is counted in `bits` significant bits."""
    if value == 0:
        return Fraction(1)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    return Fraction(2) ** (exponent + 1 - bits)


def find_greatest(fits: Callable[[Fraction], bool], *, start: Fraction, bits: int = PRICE_BITS) -> Fraction:
    """Return the greatest x > 0 with this many significant bits for which `fits(x)` holds.

    `fits` must hold below some point and fail above it; the search begins near `start`.

    >>> find_greatest(lambda x: x * x <= 2, start=Fraction(100), bits=10)
    Fraction(181, 128)
    """
    low = round_down(start, bits=1)
    while not fits(low):
        low /= 2
    while fits(2 * low):
        low *= 2
    step = low
    for _ in range(bits - 1):
        step /= 2
        if fits(low + step):
            low += step
    return low
