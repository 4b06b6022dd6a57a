"""The commands that meet faults, and which of their calls can fail and how. It loads nothing."""

from __future__ import annotations

# Calls of the system, in the order of shim.c, and what becomes of the one that a fault strikes.
KINDS = ("write", "fsync", "rename", "mkdir", "link", "create")
MODES = {"once": 0, "from then on": 1, "killed": 2, "terminated": 3}

DATASET = "small-survey"
EPSILON = {"synth": 1, "measure": 1, "estimate": 4}

_FILES = ("--schema", "schema.toml", "--ledger", "ledger.db", "--out", "out")
_SPENDING = (*_FILES, "--epsilon", "1", "--delta", "1e-6", "--method", "mst")
_SURVEY = ("--design", "design.toml", "--queries", "queries.toml")
_ACCOUNT = ("--dataset", DATASET, "--ledger", "ledger.db", "--epsilon", "2", "--delta", "1e-6")
_SPLIT = (
    *("split", "people.csv", "--schema", "split.toml", "--shares", "1/2,1/2"),
    *("--key", "people.key", "--out", "out"),
)

COMMANDS: dict[str, tuple[str, ...]] = {
    "synth": ("synth", "people.csv", *_SPENDING),
    "synth, new ledger": ("synth", "people.csv", *_SPENDING),
    "measure": ("measure", "people.csv", *_SPENDING),
    "estimate": ("estimate", "people.csv", *_FILES, *_SURVEY, "--epsilon", "4", "--delta", "1e-6"),
    "split": _SPLIT,
    "split, empty folder": _SPLIT,
    "ledger init": ("ledger", "init", *_ACCOUNT),
    "ledger grant": ("ledger", "grant", *_ACCOUNT),
}
NEW_LEDGER = ("synth, new ledger", "ledger init")
EMPTY_FOLDER = ("split, empty folder",)
