"""The manifest of a release: a digest of every file, the chain of parents, versions, and how to draw the rows again.

It is written last, so a folder with a manifest is complete. It says nothing about the private input: no digest, size,
path or time.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from populace.core.errors import ReleaseError
from populace.core.pretty_json import pretty_json
from populace.core.untrusted_files import (
    altered_error,
    open_regular,
    read_json,
    refuse_parse_errors,
    require_int,
    require_text,
    same_json,
)
from populace.core.version import VERSION
from populace.inference.model import FILES as MODEL_FILES
from populace.measurements.measurements import FILES as MEASUREMENT_FILES
from populace.methods.workload import WORKLOAD_NAMES as WORKLOADS
from populace.release.row_selection import RowSelection
from populace.release.statement.statement import RELEASE_FORMAT, Statement
from populace.release.synthetic_rows import DRAWING_RULES, digest_arithmetic
from populace.schema.imports.embedded.stat_formats import load_pyreadstat

MANIFEST_FILE = "manifest.json"

TABLE_SUFFIXES = (".csv", ".parquet", ".sav", ".dta", ".xpt")
TABLE_FILES = tuple(f"synthetic{suffix}" for suffix in TABLE_SUFFIXES)
STAT_SUFFIXES, STAT_WRITER = TABLE_SUFFIXES[2:], "pyreadstat"
REQUIRED_FILES = ("statement.json", "statement.md", *MEASUREMENT_FILES, *MODEL_FILES, "codebook.json")
OPTIONAL_FILES = (*TABLE_FILES, "report.html")
# A release of a geography holds tables of all its levels.
HIERARCHY_FILES = ("tables.parquet", "noisy_measurements.parquet")
# A release of estimates holds no rows and no model.
ESTIMATE_FILES = ("estimates.csv", "estimates.json")
REQUIRED_ESTIMATE_FILES = ("statement.json", "statement.md", *ESTIMATE_FILES, "codebook.json")
# A folder of checked claims holds neither.
CHECK_FILE = "checks.json"
REQUIRED_CHECK_FILES = ("statement.json", "statement.md", CHECK_FILE, "codebook.json")

_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")
_TABLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,40}")
_ARITHMETIC = re.compile(r"[0-9a-f]{16}")

Digests = Mapping[str, str]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `manifest.json` holds. Only rows are drawn with a seed; estimates have none."""

    number: int = RELEASE_FORMAT
    """The number of the format: of the rules by which the numbers and the words of the folder are made."""
    stamp: str | None
    dataset: str
    command: str
    sampling_seed: int | None = None
    rows_asked: int | None = None
    selection: RowSelection | None = None
    implicates: int = 1
    linked: tuple[str, ...] = ()
    """The names of linked tables, each in files of its own; none where there is one table."""
    drawing: int | None = None
    """The version of the rules by which rows are drawn; None in the first format, and where there are no rows."""
    arithmetic: str | None = None
    versions: Mapping[str, str]
    parents: Mapping[str, Digests]
    files: Digests

    @property
    def estimated(self) -> bool:
        """Whether the folder holds estimates, not rows."""
        return "estimates.json" in self.files

    @property
    def checked(self) -> bool:
        """Whether the folder holds checked claims, not rows."""
        return CHECK_FILE in self.files

    @property
    def rowless(self) -> bool:
        """Whether the folder holds answers alone: estimates, or checked claims."""
        return self.estimated or self.checked

    @property
    def seed(self) -> int:
        """The seed of the rows; a folder of rows without one was altered."""
        if self.sampling_seed is None:
            raise altered_error("the manifest has no seed of the rows")
        return self.sampling_seed

    @property
    def hierarchical(self) -> bool:
        """Whether the folder holds tables of the levels of a geography beside its rows."""
        return any(name in self.files for name in HIERARCHY_FILES)

    @property
    def table_files(self) -> list[tuple[str, ...]]:
        """The files of the synthetic rows, for each implicate; none where no table is listed."""
        for suffix in TABLE_SUFFIXES:
            first = name_table_files(suffix, linked=self.linked)
            if first[0] in self.files:
                further = [list_table_files(name, implicates=self.implicates) for name in first]
                return list(zip(*further, strict=True))
        return []

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain JSON values."""
        drawn = {"drawing": self.drawing, "arithmetic": self.arithmetic}
        return {
            "format": format_name(self.number),
            "stamp": self.stamp,
            "dataset": self.dataset,
            "command": self.command,
            "sampling_seed": self.sampling_seed,
            "rows_asked": self.rows_asked,
            "where": None if self.selection is None else self.selection.where,
            "share": None if self.selection is None else self.selection.share,
            "implicates": self.implicates,
            **({"linked": list(self.linked)} if self.linked else {}),
            **(drawn if self.number > 1 else {}),
            "versions": dict(self.versions),
            "parents": {name: dict(digests) for name, digests in self.parents.items()},
            "files": dict(self.files),
        }

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the manifest of a release folder, of this format or of an older one."""
        if not os.path.lexists(folder / MANIFEST_FILE):
            raise _no_manifest(folder)
        saved = read_json(folder / MANIFEST_FILE)
        with refuse_parse_errors(f"{MANIFEST_FILE} in {folder}"):
            form = saved["format"]
            if form not in [format_name(number) for number in range(1, RELEASE_FORMAT + 1)]:
                raise ReleaseError(
                    f"{MANIFEST_FILE} in {folder} has format {str(form)[:60]!r}; this version reads {format_name()!r} "
                    "and older ones.",
                    hint="use the version of populace that wrote it",
                )
            found = cls._parse(saved, number=int(form.rpartition(" ")[2]))
            # The earliest releases of the first format had fewer keys.
            earliest = {"where": None, "share": None, "implicates": 1} if found.number == 1 else {}
            if not same_json({**earliest, **saved}, found.to_json()):
                raise ValueError("more, or less, than a manifest holds")
            return found

    @classmethod
    def _parse(cls, saved: Mapping[str, Any], *, number: int) -> Self:
        where, share = saved.get("where"), saved.get("share")
        if where is not None and (not isinstance(share, float) or not 0 <= share <= 1):
            raise ValueError("not a share")
        suffix = next((Path(name).suffix for name in saved["files"] if name.endswith(STAT_SUFFIXES)), "")
        drawn = {"drawing": None, "arithmetic": None} if number == 1 else saved
        return cls(
            number=number,
            stamp=_parse_unless_none(require_text, saved["stamp"]),
            dataset=require_text(saved["dataset"]),
            command=require_text(saved["command"]),
            sampling_seed=_parse_unless_none(require_int, saved["sampling_seed"]),
            rows_asked=_parse_unless_none(require_int, saved["rows_asked"]),
            selection=None if where is None else RowSelection(where=require_text(where), share=share or 0.0),
            # Older releases hold all rows of the model, once.
            implicates=require_int(saved.get("implicates", 1)),
            linked=tuple(_parse_shape(_TABLE_NAME, name) for name in saved.get("linked", ())),
            drawing=_parse_unless_none(require_int, drawn["drawing"]),
            arithmetic=_parse_unless_none(partial(_parse_shape, _ARITHMETIC), drawn["arithmetic"]),
            versions={of: _parse_shape(_VERSION, saved["versions"][of]) for of in list_versions(suffix)},
            parents={name: dict(digests) for name, digests in saved["parents"].items()},
            files={name: require_text(digest) for name, digest in saved["files"].items()},
        )


def format_name(number: int = RELEASE_FORMAT) -> str:
    """Return how a manifest names the format of its folder."""
    return f"populace release {number}"


def _parse_unless_none(parse: Callable[[object], _T], value: object) -> _T | None:
    return None if value is None else parse(value)


def _parse_shape(shape: re.Pattern[str], value: object) -> str:
    """Return a text that has the shape of what is written in its place, so that it can hold nothing else."""
    if shape.fullmatch(require_text(value)) is None:
        raise ValueError("a text of another shape")
    return require_text(value)


def _no_manifest(folder: Path) -> ReleaseError:
    """Say what a folder without a manifest is: one of an earlier stage, or none of ours."""
    wrote = "give the folder that `populace synth` or `populace estimate` wrote"
    if not any((folder / name).exists() for name in TABLE_FILES):
        for files, what, verbs in (
            (MODEL_FILES, "a model", "`populace generate` on it, and give the folder that it writes"),
            (
                MEASUREMENT_FILES,
                "measurements",
                "`populace fit` and `populace generate`, and give the folder that the last one writes",
            ),
        ):
            if all((folder / name).is_file() for name in files):
                return ReleaseError(f"{folder} holds {what}, not yet a release.", hint=f"run {verbs}")
    if not folder.is_dir():
        return ReleaseError(f"there is no folder {folder}.", hint=wrote)
    return ReleaseError(
        f"{folder} holds no {MANIFEST_FILE}: it is not a release folder, or its writing was interrupted.",
        hint=wrote,
    )


def name_table_files(suffix: str, *, linked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the files of a synthetic table, or of linked ones.

    >>> name_table_files(".csv"), name_table_files(".csv", linked=("household", "person"))
    (('synthetic.csv',), ('synthetic-household.csv', 'synthetic-person.csv'))
    """
    return tuple(f"synthetic-{name}{suffix}" for name in linked) or (f"synthetic{suffix}",)


def list_table_files(table: str, *, implicates: int) -> list[str]:
    """Return the names of the files of all implicates, given that of the first.

    >>> list_table_files("synthetic.csv", implicates=3)
    ['synthetic.csv', 'synthetic-2.csv', 'synthetic-3.csv']
    """
    first = Path(table)
    return [table, *(f"{first.stem}-{number}{first.suffix}" for number in range(2, implicates + 1))]


def describe_release(
    folder: Path,
    *,
    statement: Statement,
    seed: int,
    rows_asked: int | None,
    selection: RowSelection | None = None,
    implicates: int = 1,
    linked: Sequence[str] = (),
    drawing: int = DRAWING_RULES,
) -> Manifest:
    """Return the manifest of a folder that holds everything but its manifest."""
    files = digest_files(folder)
    suffix = next(each for each in TABLE_SUFFIXES if name_table_files(each, linked=linked)[0] in files)
    return Manifest(
        stamp=statement["stamp"],
        dataset=statement["dataset"],
        command=write_synth_command(
            statement, seed=seed, rows_asked=rows_asked, table_format=suffix[1:], linked=linked
        ),
        sampling_seed=seed,
        rows_asked=rows_asked,
        selection=selection,
        implicates=implicates,
        linked=tuple(linked),
        drawing=drawing,
        arithmetic=digest_arithmetic(),
        versions=list_versions(suffix),
        parents=link_parents(statement, files=files),
        files=files,
    )


def describe_estimates(folder: Path, *, statement: Statement) -> Manifest:
    """Return the manifest of a folder of estimates that holds everything but its manifest."""
    return Manifest(
        stamp=statement["stamp"],
        dataset=statement["dataset"],
        command=write_estimate_command(statement),
        versions=list_versions(),
        parents=link_estimate_parents(statement),
        files=digest_files(folder),
    )


def describe_checks(folder: Path, *, statement: Statement) -> Manifest:
    """Return the manifest of a folder of checked claims that holds everything but its manifest."""
    return Manifest(
        stamp=statement["stamp"],
        dataset=statement["dataset"],
        command=write_check_command(statement),
        versions=list_versions(),
        parents=link_estimate_parents(statement, of="checks"),
        files=digest_files(folder),
    )


def write_check_command(statement: Statement) -> str:
    """Return the command that would check such claims, with words in place of paths."""
    return shlex.join(
        [
            *("populace", "check", "RELEASE", "DATA", "--schema", "FILE", "--claims", "FILE"),
            *("--epsilon", statement["epsilon_exact"], "--delta", statement["delta_exact"], "--out", "DIR"),
        ]
    )


def link_estimate_parents(statement: Statement, *, of: str = "estimates") -> dict[str, Digests]:
    """Return which digests estimates, or checked claims, come from: schema → ledger entry → estimates."""
    schema, entry = statement["schema_digest"], statement["ledger_entry"]
    return {"ledger_entry": {"schema": schema}, of: {"schema": schema, "ledger_entry": entry}}


def write_estimate_command(statement: Statement) -> str:
    """Return the command that would make such estimates, with words in place of paths."""
    return shlex.join(
        [
            *("populace", "estimate", "DATA", "--schema", "FILE", "--design", "FILE", "--queries", "FILE"),
            *("--epsilon", statement["epsilon_exact"], "--delta", statement["delta_exact"], "--out", "DIR"),
        ]
    )


def link_parents(statement: Statement, *, files: Digests) -> dict[str, Digests]:
    """Return which digests each artefact comes from: schema → ledger entry → measurements → model → release."""
    known = {"public": statement["public"]["digest"]} if "public" in statement else {}
    known |= {f"earlier {n}": each["release"] for n, each in enumerate(statement.get("superseded", []), 1)}
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


def write_synth_command(
    statement: Statement,
    *,
    seed: int,
    rows_asked: int | None,
    table_format: str,
    linked: Sequence[str] = (),
) -> str:
    """Return the command that would make such a release, with words in place of paths."""
    data = [f"{name}=DATA" for name in linked] or ["DATA"]
    words = ["populace", "synth", *data, "--schema", "FILE", "--method", statement["method"]]
    if "workload" in statement:
        words += ["--workload", statement["workload"] if statement["workload"] in WORKLOADS else "FILE"]
    if "public" in statement:
        words += ["--public", "PUBLIC"]
    words += ["--with", "RELEASE"] * len(statement.get("superseded", []))
    words += ["--epsilon", statement["epsilon_exact"], "--delta", statement["delta_exact"]]
    words += [] if rows_asked is None else ["--rows", str(rows_asked)]
    if "where" in statement:
        words += ["--where", statement["where"]["condition"]]
    if "implicates" in statement:
        words += ["--implicates", str(statement["implicates"]["tables"])]
    return shlex.join([*words, "--seed", str(seed), "--format", table_format, "--out", "DIR"])


def list_versions(suffix: str = "") -> dict[str, str]:
    """Return the versions of what made a release with tables of a suffix; they say how to repeat it."""
    return {
        "python": platform.python_version(),
        "populace": VERSION,
        "numpy": np.__version__,
        # Arrow itself has none where a module of its own failed to load.
        "pyarrow": pa.__version__ or version("pyarrow"),
        **({STAT_WRITER: load_pyreadstat().__version__} if suffix in STAT_SUFFIXES else {}),
    }


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a folder, by name."""
    return {path.name: digest_file(path) for path in sorted(folder.iterdir())}


def dump_json(value: Any) -> str:
    """Return JSON as every file of a release has it: one spelling for equal values."""
    return pretty_json(value) + "\n"
