"""Rules that can be read off the source: each holds, and each fails on a copy with a planted violation."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache

import pytest

from tests.architecture.house_rules import Texts

from . import house_rules

SOURCE = house_rules.source()


@cache
def broken(rule: Callable[[Texts], list[str]]) -> list[str]:
    return rule(SOURCE)


# rule, the file a violation is planted in, and the violation
RULES: list[tuple[Callable[[Texts], list[str]], str, str]] = [
    # invariant 1: one door
    (
        house_rules.draws_noise_elsewhere,
        "methods/mst.py",
        "from populace.privacy.noise.samplers import discrete_gaussian",
    ),
    (house_rules.draws_noise_elsewhere, "methods/mst.py", "from populace.privacy.noise import samplers"),
    (
        house_rules.draws_noise_elsewhere,
        "private/private_table.py",
        "def noisy(n, x, l):\n    return n.add(x, mechanism=l)",
    ),
    (
        house_rules.draws_noise_elsewhere,
        "api/synthesize.py",
        "def chosen(n, x, r):\n    return n.pick(x, rate=r)",
    ),
    (
        house_rules.draws_noise_elsewhere,
        "survey/imputation/missing_values.py",
        "from populace.privacy.smooth.smooth_sampler import smooth_answer",
    ),
    (
        house_rules.draws_noise_elsewhere,
        "private/survey/smooth_answers.py",
        "def told(n, q, s, l):\n    return n.smooth(q, s, mechanism=l, lattice=1)",
    ),
    (house_rules.asks_engine_elsewhere, "api/synthesize.py", "def total(table):\n    return table.engine()"),
    (
        house_rules.asks_engine_elsewhere,
        "api/synthesize.py",
        "def rows(table):\n    return table.survey_rows()",
    ),
    (
        house_rules.asks_engine_elsewhere,
        "release/bundle.py",
        "def exact(engine, m):\n    return engine.counts(m)",
    ),
    (
        house_rules.makes_engines_elsewhere,
        "api/synthesize.py",
        "from populace.private.engines.memory_engine import MemoryEngine",
    ),
    # randomness
    (house_rules.float_noise, "sampling/draw_rows.py", "import numpy as np\nnp.random.seed(1)"),
    (house_rules.float_noise, "privacy/noise/entropy.py", "import numpy as np\nr = np.random.default_rng(1)"),
    (house_rules.float_noise, "methods/mst.py", "import random"),
    # proofs
    (house_rules.spends_without_proof, "private/barrier.py", "def leak(run):\n    run.charge(1)"),
    (
        house_rules.spends_without_proof,
        "private/barrier.py",
        'def leak(run):\n    """Proof: docs/proofs/none-such.md."""\n    run.charge(1)',
    ),
    # house style
    (house_rules.long_files, "core/errors.py", "\n" * 400),
    (house_rules.long_files, "private/private_table.py", "\n" * 250),
    (house_rules.asserts, "privacy/accounting/privacy_loss.py", "assert True"),
    (house_rules.pickles, "inference/model.py", "import pickle"),
    (house_rules.pickles, "inference/model.py", "import numpy as np\nnp.load('x', allow_pickle=True)"),
    (house_rules.unfinished, "sampling/draw_rows.py", "# TO" + "DO later"),
    (house_rules.unfinished, "methods/mst_v2.py", ""),
    (house_rules.busy_inits, "privacy/__init__.py", "def work():\n    pass"),
    (house_rules.busy_inits, "__init__.py", "print('hello')"),
    (house_rules.open_keywords, "api/synthesize.py", "def anything(**kwargs):\n    pass"),
    (
        house_rules.private_objects_that_tell,
        "private/private_table.py",
        "class T:\n    def __len__(self): return 1",
    ),
    (house_rules.private_objects_that_tell, "private/private_table.py", "class PrivateTable:\n    pass"),
    (house_rules.registry_addresses, "cli/main.py", "# https://py" + "pi.org/simple"),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _, _ in RULES), ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Callable[[Texts], list[str]]) -> None:
    assert broken(rule) == []


@pytest.mark.parametrize(("rule", "path", "code"), RULES, ids=lambda part: getattr(part, "__name__", ""))
def test_rule_sees_a_violation(rule: Callable[[Texts], list[str]], path: str, code: str) -> None:
    found = rule(house_rules.planted(SOURCE, path, code))
    assert len(found) == len(broken(rule)) + 1, found


def test_no_tracked_file_names_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=house_rules.ROOT, capture_output=True, check=True
    ).stdout
    texts = {
        name: (house_rules.ROOT / name).read_text("utf-8", errors="replace")
        for name in listed.decode().split("\0")
        if name and (house_rules.ROOT / name).is_file()
    }
    assert house_rules.registry_addresses(texts) == []
