"""Invariants 1, 3 and 6 as import contracts: they hold, and each fails when a violation is planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.house_rules import ROOT

LINTER = Path(sys.executable).with_name("lint-imports")

# A file, the line added to it, and the contracts that must object.
PLANTS = {
    "strategy imports private": (
        "methods/mst.py",
        "import populace.private.private_table",
        "post-processing",
    ),
    "infer imports private": (
        "inference/fit/estimator.py",
        "from populace.private import private_table",
        "post-processing",
    ),
    "generate imports private, late": (
        "sampling/draw_rows.py",
        "def peek():\n    from populace.private.private_table import PrivateTable\n    return PrivateTable",
        "post-processing",
    ),
    "release imports private": (
        "release/bundle.py",
        "import populace.private.read.rows_to_codes",
        "post-processing",
    ),
    "report imports private through pipeline": (
        "release/report/render.py",
        "import populace.api.synthesize",
        "post-processing",
    ),
    "a strategy draws noise": ("methods/mst.py", "import populace.privacy.noise.samplers", "samplers"),
    "the table meets noise": (
        "private/private_table.py",
        "import populace.privacy.noise.noise_source",
        "noise",
    ),
    "an engine knows noise": (
        "private/engines/memory_engine.py",
        "import populace.privacy.accounting.mechanisms",
        "engines",
    ),
    "a report evaluates real rows": (
        "release/report/render.py",
        "import populace.evaluation.score_files",
        "internal",
    ),
    "the schema imports upwards": ("schema/unit.py", "import populace.measurements.measurements", "layers"),
    "a module without a place": ("shortcut.py", "", "layers"),
}


def broken_contracts(root: Path, *contracts: str) -> str | None:
    """Return what the linter says about a source tree, or None when it has no objection."""
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    done = subprocess.run(
        [LINTER, "--no-cache", "--config", root / "pyproject.toml", *chosen],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Contracts:" not in done.stdout:
        raise RuntimeError(done.stdout + done.stderr)
    return None if done.returncode == 0 else done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_below_the_barrier_nobody_imports_private() -> None:
    said = broken_contracts(ROOT)
    assert said is None, said


# The first of each contract; the others by `make test-slow`.
FIRST = {contract: plant for plant, (_, _, contract) in reversed(PLANTS.items())}.values()


@pytest.mark.parametrize(
    "plant", [plant if plant in FIRST else pytest.param(plant, marks=pytest.mark.slow) for plant in PLANTS]
)
def test_contract_sees_a_planted_import(plant: str, copy: Path) -> None:
    path, line, contract = PLANTS[plant]
    module = copy / "src" / "populace" / path
    before = module.read_text("utf-8") if module.exists() else None
    module.write_text(f"{before or ''}\n{line}\n", encoding="utf-8")
    try:
        said = broken_contracts(copy, contract)
    finally:
        module.write_text(before, encoding="utf-8") if before is not None else module.unlink()
    assert said is not None
    assert "BROKEN" in said
