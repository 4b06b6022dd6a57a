"""Each extra of the installation alone: its library is there, and those of the others are not."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

LIBRARIES = {
    "duckdb": "duckdb",
    "polars": "polars",
    "postgres": "adbc_driver_postgresql",
    "spark": "pyspark",
}
# Set by `make test-slow` for the environment of each extra.
EXTRA = os.environ.get("POPULACE_EXTRA")


@pytest.mark.skipif(EXTRA is None, reason="this environment has several extras")
def test_the_library_of_one_extra_is_installed_and_no_other() -> None:
    """Or tests of this extra would be skipped unseen, or lean on the library of another."""
    assert [extra for extra, library in LIBRARIES.items() if find_spec(library)] == [EXTRA]
    assert (find_spec("pandas") is not None) == (EXTRA == "spark")
