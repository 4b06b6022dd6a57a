"""What makes tests quick: files in memory, and hardly any search for garbage."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.sampled_grids import choose_cases

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30

# A ledger flushes every entry to its disk.
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# What commands keep for later ones.
os.environ.setdefault("XDG_CACHE_HOME", str(Path(__file__).parents[1] / ".pytest_cache" / "populace"))

# The ledger of whoever runs the tests is neither read nor charged.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="populace-state-")

# A shell lets jobs in the background ignore interrupts, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()

# A busy machine is no fault.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a grid that is marked `sampled(count)`, leave so many cases with the fast tests; the others are slow."""
    grids = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        later = any(item.get_closest_marker(name) for name in ("slow", "full"))
        if mark and not later and hasattr(item, "callspec"):
            grids[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), cases in grids.items():
        kept = choose_cases([case.callspec.indices for case in cases], count=count)
        for place, case in enumerate(cases):
            if place not in kept:
                case.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Leave all modules and tests out of later searches, which are as rare as in a command."""
    gc.enable()
    gc.set_threshold(100_000, 50, 100)
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter find at its end what was left out: a library that counts its objects would miss them."""
    gc.unfreeze()
