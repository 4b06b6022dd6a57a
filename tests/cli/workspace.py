"""A workspace for the command line: a folder with a private file, a schema and a funded ledger."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from populace.cli.main import main
from populace.privacy.ledger.ledger import Ledger
from populace.schema.unit import Neighbours

SCHEMA = """
[table]
dataset = "people"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.age]
kind = "integer"
min = 0
max = 9
"""
CANARY = "canary4711"  # a value of a private row


@dataclass(frozen=True)
class Workspace:
    """Files to work with, and the ledger that must not change when a command is refused."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        (self.folder / name).write_bytes(raw)
        return self.path(name)

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def entries(self) -> int:
        """How many entries the ledger holds."""
        return Ledger.existing(self.ledger).verify()

    def spending(self, *, delta: str = "1e-6") -> list[str]:
        """What every verb that spends is told, as words."""
        words = ["--schema", self.path("schema.toml"), "--epsilon", "1", "--delta", delta]
        return [*words, "--ledger", str(self.ledger)]

    def synth(self, data: str = "people.csv", **changes: str | None) -> int:
        """Run `populace synth` with sound options, some of them changed; None leaves one out."""
        options: dict[str, str | None] = {
            "schema": self.path("schema.toml"),
            "epsilon": "1",
            "delta": "1e-6",
            "method": "independent",
            "ledger": str(self.ledger),
            "out": self.path("release"),
        }
        words = [w for k, v in {**options, **changes}.items() if v is not None for w in (f"--{k}", v)]
        return main(["synth", self.path(data), *words])


@pytest.fixture(scope="session")
def funded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A ledger with an account of epsilon 3 and delta 1e-5, as the bytes of its file."""
    path = tmp_path_factory.mktemp("funded") / "ledger.db"
    Ledger.open(path).open_account(
        "people", epsilon=Fraction(3), delta=Fraction("1e-5"), neighbours=Neighbours.ADD_REMOVE
    )
    return path.read_bytes()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, funded: bytes) -> Workspace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Workspace(tmp_path)
    made.write("schema.toml", SCHEMA)
    made.write("people.csv", "sex,age\n" + "f,3\nm,4\n" * 50 + f"{CANARY},5\n")
    made.write("ledger.db", funded)
    return made
