"""The back end that a test runs on, and the end of every server that was started for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.backends import BACKENDS, Load, open_backend, stop_servers


@pytest.fixture(params=BACKENDS)
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Load]:
    """A function that puts a table where the back end keeps its rows."""
    with open_backend(request.param, tmp_path) as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def _stop_servers() -> Iterator[None]:
    yield
    stop_servers()
