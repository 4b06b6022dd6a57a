"""Exact counts of rows that need no protection, against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal, tabulate

DOMAIN = Domain({"a": 3, "b": 4, "c": 400})
GROUPS = (0, 1, 1, 0)
MANY = tuple(code % 300 for code in range(400))


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.int64])
def test_counts_match_a_plain_count(kind):
    rng = np.random.default_rng(2)
    codes = {"a": rng.integers(0, 3, 200).astype(kind), "b": rng.integers(0, 4, 200).astype(kind)}
    found = tabulate(Marginal(("b", "a"), (Grouping("b", GROUPS),)), codes=codes, domain=DOMAIN)
    plain = np.zeros((2, 3), dtype=np.int64)
    for a, b in zip(codes["a"], codes["b"], strict=True):
        plain[GROUPS[b], a] += 1
    assert found.dtype == np.int64
    assert (found == plain).all()


def test_groups_that_a_byte_cannot_number():
    codes = {"c": np.arange(400, dtype=np.uint16)}
    found = tabulate(Marginal(("c",), (Grouping("c", MANY),)), codes=codes, domain=DOMAIN)
    assert found.tolist() == [2] * 100 + [1] * 200


def test_no_columns_count_the_rows():
    codes = {"a": np.zeros(7, np.uint8), "b": np.zeros(7, np.uint8)}
    found = tabulate(Marginal(()), codes=codes, domain=DOMAIN)
    assert (found.shape, int(found)) == ((), 7)


@pytest.mark.parametrize("code", [3, -1])
def test_codes_outside_their_domain_are_refused(code):
    with pytest.raises(IndexError):
        tabulate(Marginal(("a",)), codes={"a": np.array([0, code])}, domain=DOMAIN)
