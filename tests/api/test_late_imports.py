"""No verb that spends loads a module after its reservation: what cannot be loaded fails while nothing is spent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.csv
import pytest

from populace.simulation.population import POPULATION_SCHEMA
from populace.simulation.sample_survey import simulate_survey
from tests.helpers import small_survey

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys
from populace.cli.main import main

from populace.privacy.ledger.ledger import Ledger

reserve, loaded = Ledger.reserve, set()

def noted(self, *args, **options):
    run = reserve(self, *args, **options)
    loaded.update(sys.modules)
    return run

Ledger.reserve = noted
code = main(sys.argv[1:])
print(json.dumps([code, sorted(set(sys.modules) - loaded)]))
"""


def late(folder: Path, *words: str) -> list[str]:
    """Run a verb in a process of its own, and return the modules that it loaded after its reservation."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words, "--ledger", "l.db", "--out", "out"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    code, found = json.loads(ended.stdout.splitlines()[-1])
    assert code == 0, ended.stderr
    # Arrow looks for this one when it meets dates, and does without it.
    return [name for name in found if name.partition(".")[0] != "dateutil"]


@pytest.mark.parametrize(
    "words", [("synth",), ("synth", "--no-report", "--method", "copula"), ("measure",)], ids=" ".join
)
def test_nothing_is_loaded_after_the_reservation(words: tuple[str, ...], tmp_path: Path) -> None:
    table, _ = simulate_survey()
    pyarrow.csv.write_csv(table.slice(0, 500), tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(POPULATION_SCHEMA)
    verb, *more = words
    spending = ["--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6"]
    assert late(tmp_path, verb, "people.csv", *spending, *more) == []


def test_estimates_load_nothing_after_the_reservation(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(small_survey.rows(), tmp_path / "people.csv")
    paths = small_survey.files(
        tmp_path / "files",
        schema=small_survey.SCHEMA,
        design=small_survey.DESIGN,
        queries=small_survey.QUERIES,
    )
    options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    assert late(tmp_path, "estimate", "people.csv", *options, "--epsilon", "4", "--delta", "1e-6") == []
