"""The files that the commands find."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from populace.privacy.ledger.ledger import Ledger
from tests.helpers import small_survey

from .commands import COMMANDS, DATASET, EMPTY_FOLDER, NEW_LEDGER


def prepare(folder: Path, *, commands: Iterable[str] = tuple(COMMANDS)) -> None:
    """Write the files that each command finds, each into a folder of its name."""
    table = small_survey.rows(80)
    table = table.append_column("who", pa.array([f"p{number}" for number in range(table.num_rows)]))
    for command in commands:
        place = folder / command
        small_survey.files(place)
        (place / "split.toml").write_text(
            small_survey.SCHEMA.replace('unit = "person"', 'unit = "person"\nid = "who"'), encoding="utf-8"
        )
        pyarrow.csv.write_csv(table, place / "people.csv")
        if command in EMPTY_FOLDER:
            (place / "out").mkdir()
        if command not in NEW_LEDGER:
            Ledger.open(place / "ledger.db").open_account(DATASET, epsilon=1000, delta="0.5")
