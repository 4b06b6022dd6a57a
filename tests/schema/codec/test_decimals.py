"""Numbers drawn inside a bin stay in it, fill it, and have no more digits than the bin deserves."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from populace.schema.codec.decoder import decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.columns.numeric_columns import DecimalColumn


def drawn(
    edges: list[str], *, times: int = 400, seed: int = 1
) -> tuple[DecimalColumn, np.ndarray, np.ndarray]:
    """Return a column, every one of its codes `times` times, and the values drawn for them."""
    column = DecimalColumn(name="x", edges=tuple(Fraction(edge) for edge in edges))
    codes = np.repeat(np.arange(len(edges) - 1), times)
    return column, codes, np.asarray(decode_codes(column, codes, rng=np.random.default_rng(seed)))


def places(value: float) -> int:
    """Return the number of decimals in the shortest text of a number."""
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return max(0, -int(exponent))


@given(st.lists(st.decimals(-1000, 1000, places=3), min_size=2, max_size=8, unique=True), st.integers(0, 99))
def test_values_stay_in_their_bins_with_few_decimals(edges: list[Decimal], seed: int) -> None:
    texts = [str(edge) for edge in sorted(edges)]
    column, codes, values = drawn(texts, times=20, seed=seed)
    assert (
        encode_values(column, decode_codes(column, codes, rng=np.random.default_rng(seed))) == codes
    ).all()
    for code, value in zip(codes, values, strict=True):
        width = column.edges[code + 1] - column.edges[code]
        own = max(places(float(edge)) for edge in column.edges[code : code + 2])
        # Fewer would leave under a thousand values in the bin; one more would be ten thousand or more.
        assert places(value) <= max(own, next(n for n in range(9) if width * 10**n >= 1000))


def test_the_digits_by_hand() -> None:
    _, _, values = drawn(["0", "1", "2.5", "20", "5000"])
    assert [max(places(value) for value in block) for block in values.reshape(4, -1)] == [3, 3, 2, 0]


@pytest.mark.parametrize("edges", [["0.29", "0.3", "0.58"], ["-5", "0", "5"], ["1e6", "3e6"], ["0", "1e-9"]])
def test_a_bin_is_filled_evenly(edges: list[str]) -> None:
    """Mean and ends of 4000 uniform draws; seed 1, bands of five standard errors."""
    column, codes, values = drawn(edges, times=4000)
    for code, (low, high) in enumerate(pairwise(column.edges)):
        shares = (values[codes == code] - float(low)) / float(high - low)
        assert abs(shares.mean() - 0.5) < 5 * (1 / 12 / 4000) ** 0.5
        assert 0 <= shares.min() < 0.01
        assert 0.99 < shares.max() < 1


@pytest.mark.parametrize(
    "edges", [["0", "1e300"], ["-1.5e308", "1.5e308"], ["0", "1e-300", "1"], ["1e15", "2e15"]]
)
def test_numbers_beyond_short_decimals_are_drawn_all_the_same(edges: list[str]) -> None:
    column, codes, values = drawn(edges)
    assert np.isfinite(values).all()
    assert (encode_values(column, decode_codes(column, codes, rng=np.random.default_rng(1))) == codes).all()
    assert len(np.unique(values)) > 300
