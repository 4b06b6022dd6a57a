"""The results of a study as a tidy table, and the finished runs on disk: each appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from populace.core.errors import UsageError
from populace.release.folder.destination import check_outside_release

RESULTS_FILE, PARTS_FOLDER = "results.parquet", "parts"
DIGEST_KEY, INTERNAL_KEY = b"populace study", b"INTERNAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """One number of one run. `sampling_only` is what the same method gives on the same sample without noise."""

    run: str
    method: str
    epsilon: float
    seed: int
    query: str
    group: str
    truth: float | None
    estimate: float | None
    low: float | None
    high: float | None
    sampling_only: float | None
    cpu_seconds: float
    peak_mb: float


RESULT_SCHEMA = pa.schema(
    [("run", pa.string()), ("method", pa.string()), ("epsilon", pa.float64()), ("seed", pa.int64())]
    + [("query", pa.string()), ("group", pa.string())]
    + [
        (name, pa.float64())
        for name in ("truth", "estimate", "low", "high", "sampling_only", "cpu_seconds", "peak_mb")
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFolder:
    """The folder of a study: finished runs in parts, joined into one file at the end."""

    folder: Path
    digest: str

    @property
    def parts(self) -> Path:
        """Where finished runs are kept until all are done."""
        return self.folder / PARTS_FOLDER

    def make_folder(self) -> None:
        """Make the folder, and refuse one that holds another study or anything else."""
        check_outside_release(self.folder)
        results = self.folder / RESULTS_FILE
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"{self.folder} is not a folder.", hint="name a new folder") from None
        marker = self.parts / "study"
        known = marker.read_text() if marker.is_file() else self._digest_of(results)
        if known is None and any(path.name != PARTS_FOLDER for path in self.folder.iterdir()):
            raise UsageError(f"the folder {self.folder} is not empty.", hint="name a new folder")
        if known is not None and known != self.digest:
            raise UsageError(
                f"the folder {self.folder} holds runs of another study, or of this one before it was changed.",
                hint="name a new folder; with the same study, runs that are done are not repeated",
            )
        write_whole(marker, self.digest.encode())

    def _digest_of(self, results: Path) -> str | None:
        if not results.is_file():
            return None
        about: Mapping[bytes, bytes] = pa.parquet.read_schema(results).metadata or {}
        return about.get(DIGEST_KEY, b"").decode()

    def part(self, method: int, seed: int) -> Path:
        """Return the file of the runs of one method on one sample."""
        return self.parts / f"{method:03d}-{seed:06d}.parquet"

    def write_part(self, method: int, seed: int, rows: Sequence[StudyRow]) -> None:
        """Keep the runs of one method on one sample."""
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(to_table(rows), sink)
        write_whole(self.part(method, seed), sink.getvalue().to_pybytes())

    def done(self, methods: Sequence[str]) -> set[tuple[int, int]]:
        """Return which methods have run on which samples, by number and seed."""
        found = {
            (int(path.stem[:3]), int(path.stem[4:])) for path in self.parts.glob("[0-9]*-[0-9]*.parquet")
        }
        results = self.folder / RESULTS_FILE
        if results.is_file():
            kept = pa.parquet.read_table(results, columns=["method", "seed"]).group_by(["method", "seed"])
            for row in kept.aggregate([]).to_pylist():
                found.add((methods.index(row["method"]), row["seed"]))
        return found

    def join(self, *, internal: str) -> pa.Table:
        """Return all runs in order, and keep them as one file in place of their parts."""
        results = self.folder / RESULTS_FILE
        tables = [pa.parquet.read_table(results)] if results.is_file() else []
        parts = sorted(self.parts.glob("[0-9]*-[0-9]*.parquet"))
        tables += [pa.parquet.read_table(path) for path in parts]
        whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
        # A kill between the file and the removal of its parts leaves a run in both.
        keys = ["method", "seed", "epsilon", "query", "group"]
        first = (
            whole.append_column("row", pa.array(range(whole.num_rows)))
            .group_by(keys)
            .aggregate([("row", "min")])
        )
        whole = whole.take(first["row_min"]).sort_by([(key, "ascending") for key in keys])
        about = {DIGEST_KEY: self.digest.encode()} | ({INTERNAL_KEY: internal.encode()} if internal else {})
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(whole.replace_schema_metadata(about), sink)
        write_whole(results, sink.getvalue().to_pybytes())
        for path in parts:
            path.unlink()
        return whole


def to_table(rows: Iterable[StudyRow]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=RESULT_SCHEMA)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name, to disk, and only then give it its own."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
