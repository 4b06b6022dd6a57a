"""The manifest of a release: a digest of every file, the chain of parents, versions, and how to draw the rows again.

It is written last, so a folder with a manifest is complete. It says nothing about the private input: no digest, size,
path or time.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from populace.errors import ReleaseError
from populace.infer.model import FILES as MODEL_FILES
from populace.measurements import FILES as MEASUREMENT_FILES
from populace.pretty import pretty
from populace.records import dataclass
from populace.release.drawing import Selection
from populace.release.statement import Statement
from populace.strategy.workload import NAMES as WORKLOADS
from populace.version import VERSION

FORMAT = "populace release 1"
NAME = "manifest.json"

TABLE_FILES = ("synthetic.csv", "synthetic.parquet")
ALWAYS = ("statement.json", "statement.md", *MEASUREMENT_FILES, *MODEL_FILES, "codebook.json")
SOMETIMES = (*TABLE_FILES, "report.html")
# A release of estimates holds no rows and no model.
ESTIMATE_FILES = ("estimates.csv", "estimates.json")
ALWAYS_ESTIMATED = ("statement.json", "statement.md", *ESTIMATE_FILES, "codebook.json")

Digests = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `manifest.json` holds. Only rows are drawn with a seed; estimates have none."""

    stamp: str | None
    dataset: str
    command: str
    sampling_seed: int | None
    rows_asked: int | None
    selection: Selection | None
    implicates: int
    versions: Mapping[str, str]
    parents: Mapping[str, Digests]
    files: Digests

    @property
    def estimated(self) -> bool:
        """Whether the folder holds estimates, not rows."""
        return "estimates.json" in self.files

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain JSON values."""
        return {
            "format": FORMAT,
            "stamp": self.stamp,
            "dataset": self.dataset,
            "command": self.command,
            "sampling_seed": self.sampling_seed,
            "rows_asked": self.rows_asked,
            "where": None if self.selection is None else self.selection.where,
            "share": None if self.selection is None else self.selection.share,
            "implicates": self.implicates,
            "versions": dict(self.versions),
            "parents": {name: dict(digests) for name, digests in self.parents.items()},
            "files": dict(self.files),
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest of a release folder."""
        path = folder / NAME
        if not path.is_file():
            raise _no_manifest(folder)
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            form = told["format"]
            if form == FORMAT:
                return cls(
                    stamp=told["stamp"],
                    dataset=str(told["dataset"]),
                    command=str(told["command"]),
                    sampling_seed=None if told["sampling_seed"] is None else int(told["sampling_seed"]),
                    rows_asked=None if told["rows_asked"] is None else int(told["rows_asked"]),
                    # Older releases hold all rows of the model, once.
                    selection=None
                    if told.get("where") is None
                    else Selection(where=str(told["where"]), share=float(told["share"])),
                    implicates=int(told.get("implicates", 1)),
                    versions=dict(told["versions"]),
                    parents={name: dict(digests) for name, digests in told["parents"].items()},
                    files={str(name): str(digest) for name, digest in told["files"].items()},
                )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
            raise ReleaseError(
                f"{NAME} in {folder} cannot be read as a manifest.",
                hint="ask the publisher for an unaltered copy",
            ) from failure
        raise ReleaseError(
            f"{NAME} in {folder} has format {form!r}; this version reads {FORMAT!r}.",
            hint="use the version of populace that wrote it",
        )


def _no_manifest(folder: Path) -> ReleaseError:
    """Say what a folder without a manifest is: one of an earlier stage, or none of ours."""
    stages = (
        (MODEL_FILES, "a model", "run `populace generate` on it, and give the folder that it writes"),
        (
            MEASUREMENT_FILES,
            "measurements",
            "run `populace fit` and `populace generate`, and give the folder that the last one writes",
        ),
    )
    for files, what, hint in stages if not any((folder / name).exists() for name in TABLE_FILES) else ():
        if all((folder / name).is_file() for name in files):
            return ReleaseError(f"{folder} holds {what}, not yet a release.", hint=hint)
    if not folder.is_dir():
        return ReleaseError(
            f"there is no folder {folder}.",
            hint="give the folder that `populace synth` or `populace estimate` wrote",
        )
    return ReleaseError(
        f"{folder} holds no {NAME}: it is not a release folder, or its writing was interrupted.",
        hint="give the folder that `populace synth` or `populace estimate` wrote",
    )


def table_names(table: str, *, implicates: int) -> list[str]:
    """Return the names of the files of all implicates, given that of the first.

    >>> table_names("synthetic.csv", implicates=3)
    ['synthetic.csv', 'synthetic-2.csv', 'synthetic-3.csv']
    """
    first = Path(table)
    return [table, *(f"{first.stem}-{number}{first.suffix}" for number in range(2, implicates + 1))]


def describe(
    folder: Path,
    *,
    statement: Statement,
    seed: int,
    rows_asked: int | None,
    selection: Selection | None = None,
    implicates: int = 1,
) -> Manifest:
    """Return the manifest of a folder that holds everything but its manifest."""
    files = {path.name: digest(path) for path in sorted(folder.iterdir())}
    table = next(name for name in TABLE_FILES if name in files)
    return Manifest(
        stamp=statement["stamp"],
        dataset=statement["dataset"],
        command=command(statement, seed=seed, rows_asked=rows_asked, table_format=Path(table).suffix[1:]),
        sampling_seed=seed,
        rows_asked=rows_asked,
        selection=selection,
        implicates=implicates,
        versions=versions(),
        parents=parents(statement, files=files),
        files=files,
    )


def describe_estimates(folder: Path, *, statement: Statement) -> Manifest:
    """Return the manifest of a folder of estimates that holds everything but its manifest."""
    files = {path.name: digest(path) for path in sorted(folder.iterdir())}
    return Manifest(
        stamp=statement["stamp"],
        dataset=statement["dataset"],
        command=estimate_command(statement),
        sampling_seed=None,
        rows_asked=None,
        selection=None,
        implicates=1,
        versions=versions(),
        parents=estimate_parents(statement),
        files=files,
    )


def estimate_parents(statement: Statement) -> dict[str, Digests]:
    """Return which digests estimates come from: schema → ledger entry → estimates."""
    schema, entry = statement["schema_digest"], statement["ledger_entry"]
    return {"ledger_entry": {"schema": schema}, "estimates": {"schema": schema, "ledger_entry": entry}}


def estimate_command(statement: Statement) -> str:
    """Return the command that would make such estimates, with words in place of paths."""
    return shlex.join(
        [
            *("populace", "estimate", "DATA", "--schema", "FILE", "--design", "FILE", "--queries", "FILE"),
            *("--epsilon", statement["epsilon_exact"], "--delta", statement["delta_exact"], "--out", "DIR"),
        ]
    )


def parents(statement: Statement, *, files: Digests) -> dict[str, Digests]:
    """Return which digests each artefact comes from: schema → ledger entry → measurements → model → release."""
    known = {"public": statement["public"]["digest"]} if "public" in statement else {}
    return {
        "ledger_entry": {"schema": statement["schema_digest"]},
        "measurements": {
            "schema": statement["schema_digest"],
            "ledger_entry": statement["ledger_entry"],
            **known,
        },
        "model": {name: files[name] for name in MEASUREMENT_FILES},
        "release": {name: files[name] for name in MODEL_FILES},
    }


def command(statement: Statement, *, seed: int, rows_asked: int | None, table_format: str) -> str:
    """Return the command that would make such a release, with words in place of paths."""
    rows = [] if rows_asked is None else ["--rows", str(rows_asked)]
    wanted = statement.get("workload")
    workload = [] if wanted is None else ["--workload", wanted if wanted in WORKLOADS else "FILE"]
    words = [
        *("populace", "synth", "DATA", "--schema", "FILE", "--method", statement["method"], *workload),
        *(["--public", "PUBLIC"] if "public" in statement else []),
        *("--epsilon", statement["epsilon_exact"], "--delta", statement["delta_exact"]),
        *rows,
        *(["--where", statement["where"]["condition"]] if "where" in statement else []),
        *(["--implicates", str(statement["implicates"]["tables"])] if "implicates" in statement else []),
        *("--seed", str(seed), "--format", table_format, "--out", "DIR"),
    ]
    return shlex.join(words)


def versions() -> dict[str, str]:
    """Return the versions of what made a release; they say how to repeat it, not on what it was made."""
    return {
        "python": platform.python_version(),
        "populace": VERSION,
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
    }


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dump(value: Any) -> str:
    """Return JSON as every file of a release has it: one spelling for equal values."""
    return pretty(value) + "\n"
