"""The table of combinations in the docs is what the code does."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "combinations.md"


@pytest.mark.slow
def test_the_table_of_combinations_is_up_to_date() -> None:
    """docs/reference/combinations.md is generated; `make docs` brings it up to date."""
    assert PAGE.read_text("utf-8") == runpy.run_path(str(PAGE.with_suffix(".py")))["page"]()
