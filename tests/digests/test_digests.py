"""Repeatable runs give the bytes that are recorded: what moves, renames or tidies code changes none of them.

Where one changes on purpose, CHANGES.md says which and why, and `python -m tests.digests.record NAME` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .canonical import digest_folder
from .cases import CASES
from .internals import METHODS
from .record import differences, machine, recorded, recorded_on, run_case

# Every other method on one table, and every third of the estimates, are among the fast tests.
_LATER = {name for name in CASES if name.endswith("on trips")}
_LATER |= {name for place, name in enumerate(n for n in CASES if n.endswith("on people")) if place % 2}
_LATER |= {name for place, name in enumerate(n for n in CASES if n.startswith("estimate")) if place % 3}
NAMES = [
    pytest.param(name, marks=pytest.mark.slow if case.slow or name in _LATER else ())
    for name, case in CASES.items()
]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_gives_what_is_recorded(name: str) -> None:
    if machine() != recorded_on():
        pytest.skip(f"recorded with {recorded_on()}, and this is {machine()}")
    changed = differences(run_case(name), recorded()[name])
    assert not changed, "\n".join([f"differs from digests.json in case {name!r}:", *changed])


def test_every_method_and_every_case_is_recorded() -> None:
    assert set(recorded()) == set(CASES)
    for method in (name for name, value in METHODS.items() if not value.counts_units):
        assert {f"method {method} on people", f"method {method} on trips"} <= set(CASES)


def test_a_digest_can_fail(tmp_path: Path) -> None:
    """One character of one key, one value of one file: each shows, by its name. What no seed repeats does not."""
    told = {"run": "0" * 32, "rows": 300, "text": "of 300 rows", "versions": {"numpy": "1"}}
    (tmp_path / "statement.json").write_text(json.dumps(told))
    (tmp_path / "synthetic.csv").write_text("a,b\n1,2\n")
    known = digest_folder(tmp_path)
    (tmp_path / "statement.json").write_text(json.dumps(told | {"run": "1" * 32, "versions": {"numpy": "2"}}))
    assert differences(digest_folder(tmp_path), known) == []
    (tmp_path / "statement.json").write_text(json.dumps(told | {"rows": 301}))
    (tmp_path / "synthetic.csv").write_text("a,b\n1,3\n")
    assert differences(digest_folder(tmp_path), known) == ["statement.json: rows", "synthetic.csv"]
