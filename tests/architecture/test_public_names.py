"""The public names are pinned: adding or removing one is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys

import populace

PINNED = [
    "Checks",
    "Claims",
    "Design",
    "Estimates",
    "Evaluation",
    "Ledger",
    "Measurements",
    "Model",
    "OverBudget",
    "PopulaceError",
    "PushDown",
    "Queries",
    "Query",
    "Release",
    "Schema",
    "Workload",
    "check",
    "compare_findings",
    "estimate",
    "evaluate",
    "fit",
    "generate",
    "generate_on_spark",
    "intervals",
    "measure",
    "plan",
    "pool_releases",
    "release_from",
    "simulate",
    "small_areas",
    "synthesize",
    "verify",
]


def test_public_names_are_pinned_and_sorted() -> None:
    assert populace.__all__ == PINNED == sorted(PINNED)
    assert dir(populace) == PINNED


def test_every_public_name_loads_and_knows_its_name() -> None:
    for name in PINNED:
        assert getattr(populace, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(populace, "none_such")


def test_import_loads_nothing_else() -> None:
    code = "import sys; import populace; print([m for m in sys.modules if m.startswith('populace.') or m == 'numpy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
