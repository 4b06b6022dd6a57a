"""Nothing in the package is without a use, and the list of what only looks so is short."""

from __future__ import annotations

import pytest

from .dead_code import WHITELIST, dead_code

MAX_WHITELIST = 10


@pytest.mark.slow
def test_a_function_that_nothing_calls_is_seen() -> None:
    found = dead_code(planted="def of_no_use_to_anybody():\n    return 1\n")
    assert [line for line in found if "of_no_use_to_anybody" in line]


def test_the_whitelist_is_short_and_explained() -> None:
    lines = [line for line in WHITELIST.read_text("utf-8").splitlines()[1:] if line]
    assert len(lines) <= MAX_WHITELIST
    assert all(len(line.partition("# ")[2]) > 10 for line in lines)
