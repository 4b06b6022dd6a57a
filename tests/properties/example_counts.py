"""How many examples a property is tried on: a few in every run, many where there is time."""

from __future__ import annotations

import os

from hypothesis import settings

TIMES = int(os.environ.get("POPULACE_EXAMPLES", "1"))


def tried(times: int) -> settings:
    """Return the settings of a property that is tried so often, and thirty times as often by `make test-slow`."""
    return settings(max_examples=times * TIMES, deadline=None)
