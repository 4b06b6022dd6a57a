"""The commands that meet faults: which files they find, and what they are told."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from populace.privacy.ledger import Ledger

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import surveys

DATASET = "small-survey"
EPSILON = {"synth": 1, "measure": 1, "estimate": 4}

_FILES = ("--schema", "schema.toml", "--ledger", "ledger.db", "--out", "out")
_SPENDING = (*_FILES, "--epsilon", "1", "--delta", "1e-6", "--method", "mst")
_SURVEY = ("--design", "design.toml", "--queries", "queries.toml")
_ACCOUNT = ("--dataset", DATASET, "--ledger", "ledger.db", "--epsilon", "2", "--delta", "1e-6")

COMMANDS: dict[str, tuple[str, ...]] = {
    "synth": ("synth", "people.csv", *_SPENDING),
    "synth, new ledger": ("synth", "people.csv", *_SPENDING),
    "measure": ("measure", "people.csv", *_SPENDING),
    "estimate": ("estimate", "people.csv", *_FILES, *_SURVEY, "--epsilon", "4", "--delta", "1e-6"),
    "split": (
        *("split", "people.csv", "--schema", "split.toml", "--shares", "1/2,1/2"),
        *("--key", "people.key", "--out", "out"),
    ),
    "ledger init": ("ledger", "init", *_ACCOUNT),
    "ledger grant": ("ledger", "grant", *_ACCOUNT),
}
NEW_LEDGER = ("synth, new ledger", "ledger init")


def prepare(folder: Path) -> None:
    """Write the files that each command finds, each into a folder of its name."""
    table = surveys.rows(80)
    table = table.append_column("who", pa.array([f"p{number}" for number in range(table.num_rows)]))
    for command in COMMANDS:
        place = folder / command
        surveys.files(place)
        (place / "split.toml").write_text(
            surveys.SCHEMA.replace('unit = "person"', 'unit = "person"\nid = "who"'), encoding="utf-8"
        )
        pyarrow.csv.write_csv(table, place / "people.csv")
        if command not in NEW_LEDGER:
            Ledger.open(place / "ledger.db").open_account(DATASET, epsilon=1000, delta="0.5")
