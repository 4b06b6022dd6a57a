"""The list of what an auditor reads is true: its files exist, and it names every question of the barrier."""

from __future__ import annotations

import inspect
import re

from populace.private.barrier import Barrier
from tests.architecture.house_rules import ROOT, SOURCE

PAGE = ROOT / "docs" / "concepts" / "one-way-street.md"


def questions() -> set[str]:
    """Return the public methods of the barrier: properties are public facts, not questions."""
    return {name for name, _ in inspect.getmembers(Barrier, inspect.isfunction) if not name.startswith("_")}


def listed(text: str) -> tuple[set[str], set[str]]:
    """Return the questions in the first table of the page and the files in its last."""
    asked, files = text.split("## What an auditor reads")
    return set(re.findall(r"^\| `(\w+)` \|", asked, re.M)), set(re.findall(r"`([\w/]+\.py)`", files))


def faults(text: str) -> list[str]:
    asked, files = listed(text)
    missing = [path for path in sorted(files) if not (SOURCE / path).is_file()]
    return [*missing, *sorted(asked ^ questions())]


def test_every_question_of_the_barrier_is_listed_and_every_file_exists():
    text = PAGE.read_text("utf-8")
    assert faults(text) == []
    assert "private/barrier.py" in listed(text)[1]


def test_a_missing_question_and_a_missing_file_are_seen():
    text = PAGE.read_text("utf-8")
    assert faults(text.replace("| `bound_size` |", "| `size` |")) == ["bound_size", "size"]
    assert faults(text.replace("private/redact.py", "private/failures.py")) == ["private/failures.py"]
