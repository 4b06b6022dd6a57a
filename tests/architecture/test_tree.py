"""Rules about the tree: each holds, and each fails on a copy with a planted violation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from . import house_rules, tree_rules
from .house_rules import Texts

SOURCE = house_rules.source()
REPEATED = "\n".join(f"repeated_{number} = {number}" for number in range(10))

Rule = Callable[[Texts], list[str]]

# rule, and what is planted: the text that is added to each file
RULES: list[tuple[Rule, dict[str, str]]] = [
    (
        tree_rules.method_names_elsewhere,
        {"cli/notes.py": "def is_copula(method):\n    return method == 'copula'"},
    ),
    (tree_rules.method_names_elsewhere, {"planning/plan.py": "SLOW_METHODS = ('gem',)"}),
    (tree_rules.method_names_elsewhere, {"release/bundle.py": "WORDS = {'mst': 'a tree'}"}),
    (
        tree_rules.method_names_elsewhere,
        {
            "release/bundle.py": "def word(method):\n    match method:\n        case 'aim':\n            return 1"
        },
    ),
    (
        tree_rules.import_cycles,
        {
            "schema/unit.py": "from populace.planning import plan",
            "planning/plan.py": "import populace.schema.unit",
        },
    ),
    (tree_rules.crowded_folders, {f"survey/design/part_{number}.py": "" for number in range(15)}),
    (tree_rules.repeated_names, {"planning/ledger.py": ""}),
    (tree_rules.retired_words, {"planning/plan.py": "def plan_wishes():\n    return 1"}),
    (tree_rules.retired_words, {"planning/plan.py": "class HushedErrors:\n    pass"}),
    (tree_rules.retired_words, {"planning/plan.py": "MOST_PLANS = 3"}),
    (tree_rules.retired_words, {"planning/plan_tape.py": ""}),
    (
        tree_rules.repeated_lines,
        dict.fromkeys(
            ("planning/one.py", "schema/other.py"), "\n".join(f"total_{n} = {n}" for n in range(10))
        ),
    ),
    (tree_rules.bare_participles, {"planning/plan.py": "def joined(plans):\n    return plans"}),
]


@cache
def broken(rule: Rule) -> list[str]:
    return rule(SOURCE)


def planted(files: dict[str, str]) -> dict[str, str]:
    texts = dict(SOURCE)
    for path, code in files.items():
        texts = house_rules.planted(texts, path, code)
    return texts


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _ in RULES), ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    assert broken(rule) == []


@pytest.mark.parametrize(("rule", "files"), RULES, ids=lambda part: getattr(part, "__name__", ""))
def test_rule_sees_a_violation(rule: Rule, files: dict[str, str]) -> None:
    found = rule(planted(files))
    assert len(found) == len(broken(rule)) + 1, found


def test_imports_for_types_and_late_ones_make_no_cycle() -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from populace.planning import plan"
    late = "def plan_later():\n    from populace.planning import plan\n    return plan"
    for code in (types, late):
        assert tree_rules.import_cycles(planted({"schema/unit.py": code})) == []


def test_words_of_identifiers() -> None:
    assert tree_rules.words_of("_max_HTTPRows_perUnit") == ["max", "http", "rows", "per", "unit"]


# Tests of several rooms together, by what they are.
KINDS = {
    "architecture",
    "audit",
    "cli",
    "digests",
    "engines",
    "faults",
    "golden",
    "helpers",
    "properties",
    "real",
    "slow",
}
KINDS |= {"statistical"}


def test_tests_mirror_the_source() -> None:
    """Every folder of tests is a room of the package, and a test that is named for a module lies in its room."""
    rooms = {path.rpartition("/")[0] for path in SOURCE}
    homes = {
        path.rpartition("/")[2]: path.rpartition("/")[0] for path in SOURCE if not path.startswith("cli/")
    }
    misplaced = []
    for path in sorted((house_rules.ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(house_rules.ROOT / "tests")
        room = str(place.parent).replace("native", "_native")
        home = homes.get(place.name.removeprefix("test_"), room)
        if place.parts[0] not in KINDS and (room not in rooms or home != room):
            misplaced.append(str(place))
    assert misplaced == []
