"""Long lists of cases: some are tried in every run, others by `make test-slow`, and all by `make test-full`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sample_cases(cases: Iterable[Any], *, to: int) -> list[Any]:
    """Return all cases, of which so many, evenly spread, are quick."""
    cases = list(cases)
    quick = {round(place * (len(cases) - 1) / max(1, to - 1)) for place in range(to)}
    return [
        case
        if number in quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


def by_effort(*, slow: Any, full: Any) -> list[Any]:
    """Return how much is tried by `make test-slow`, and how much by `make test-full`."""
    return [pytest.param(slow, marks=pytest.mark.slow), pytest.param(full, marks=pytest.mark.full)]
