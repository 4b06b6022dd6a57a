"""Error, time and memory of released rows, file to file, scored by the shared ruler.

    python bench/error.py                                          every claim, the default
    python bench/error.py --data adult --method auto --epsilon 1 10 --delta 1e-9 --runs 5

Every run is a fresh process with its own ledger that reads the data file and writes the synthetic one, without the
report. The error is the mean total variation over all pairs and over 100 fixed triples between the real rows and the
released ones (tools/score.py beside the shared data). CPU seconds and peak memory are those of the child process, on
one thread.
`--jobs 2` runs two at a time: times by the clock then say little. `--keep FILE` remembers finished runs, and
`--beside FILE` takes lines that are not asked for from an earlier table: (`--data stroke --beside results/error.txt`).

Claims: on Adult, `auto` stays below the bars in BARS; on every table and at every epsilon it is not worse than the best
of `independent`, `mst` and `aim` by more than 3 % and two standard errors.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

Key = tuple[str, str, str, str]
Runs = list[dict[str, float]]

SHARED = Path(__file__).resolve().parents[2] / "shared"
FILES = {"nist2020-acs": "temporal_match2.parquet"}
METHODS = ("auto", "independent", "mst", "aim")
# Mean total variation on Adult at delta 1e-9: pairs, triples.
BARS = {
    "0.1": (0.096, 0.18),
    "0.3": (0.061, 0.125),
    "1": (0.034, 0.085),
    "3": (0.0225, 0.060),
    "10": (0.017, 0.045),
}
COMMAND = [sys.executable, "-c", "from populace.cli.main import run; run()"]


def once(
    data: Path,
    *,
    schema: Path,
    method: str,
    epsilon: str,
    delta: str,
    workload: Path | None = None,
    keep: Path | None = None,
    columns: Path | None = None,
) -> dict[str, float]:
    """Run one release in a child process and score it; `keep` is where the released rows are to stay.

    The ruler reads typed columns as they are where `columns`, or a domain as schema, names them.
    """
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "release"
        words = ["synth", str(data), "--schema", str(schema), "--epsilon", epsilon, "--delta", delta]
        words += [] if workload is None else ["--workload", str(workload)]
        words += ["--method", method, "--ledger", f"{place}/ledger.db", "--out", str(out), "--no-report"]
        begun, quiet = time.perf_counter(), subprocess.DEVNULL
        child = subprocess.Popen(
            [*COMMAND, *words],
            stdout=quiet,
            stderr=quiet,
            env=environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        if status:
            raise SystemExit(f"synth failed on {data.stem} with {method} at epsilon {epsilon}")
        (rows,) = out.glob("synthetic.*")
        told = score(data, rows, domain=columns or (schema if schema.suffix == ".json" else None))
        if keep is not None:
            shutil.copy(rows, keep)
    return {
        "pairs": told["tv2"],
        "triples": told["tv3"],
        "wall_s": wall,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


def environment() -> dict[str, str]:
    """Return the environment for a child; it may keep compiled modules, as those of an installed package are kept."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def score(real: Path, synthetic: Path, *, domain: Path | None = None) -> dict[str, float]:
    """Return what the shared ruler says of two files; without a domain it reads them as texts."""
    with tempfile.TemporaryDirectory() as place:
        files = [real, synthetic]
        if domain is None:
            files = [as_text(file, Path(place) / f"{number}.csv") for number, file in enumerate(files)]
        words = [sys.executable, str(SHARED / "tools/score.py"), *map(str, files)]
        words += [] if domain is None else ["--domain", str(domain)]
        told: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return told


def as_text(file: Path, copy: Path) -> Path:
    """Return a CSV file as it is, and a Parquet file as a copy in CSV."""
    if file.suffix == ".csv":
        return file
    import pandas as pd

    pd.read_parquet(file).to_csv(copy, index=False)
    return copy


def files(name: str) -> tuple[Path, Path]:
    """Return the rows and the domain of one of the shared tables."""
    folder = SHARED / "data" / name
    return folder / FILES.get(name, f"{name}.parquet"), folder / "domain.json"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the table: means over runs, and the standard deviation of errors between them."""

    runs: int
    mean: dict[str, float]
    spread: dict[str, float]
    peak_mb: float

    @classmethod
    def of(cls, runs: Runs) -> Line:
        """Return the line of some runs."""
        spread = {
            name: statistics.stdev(run[name] for run in runs) if len(runs) > 1 else 0.0
            for name in ("pairs", "triples")
        }
        return cls(
            runs=len(runs),
            mean={name: statistics.mean(run[name] for run in runs) for name in runs[0]},
            spread=spread,
            peak_mb=max(run["peak_mb"] for run in runs),
        )

    def told(self, key: Key) -> str:
        """Return it as it is printed."""
        data, method, epsilon, _ = key
        errors = "  ".join(
            f"{self.mean[name]:.5f} ({self.spread[name]:.5f})" for name in ("pairs", "triples")
        )
        return (
            f"{data:12} {method:11} {epsilon:>4} {self.runs:>4}  {errors}  {self.mean['wall_s']:6.1f}  "
            f"{self.mean['cpu_s']:6.1f}  {self.peak_mb:7.0f}"
        )

    def doubt(self, error: str) -> float:
        """Return the standard error of a mean error."""
        return self.spread[error] / self.runs**0.5


def measured(asked: Sequence[Key], *, runs: int, jobs: int, keep: Path | None) -> dict[Key, Line]:
    """Return the line of each (data, method, epsilon, delta); of its runs, those that are remembered come first."""
    found: dict[Key, Runs] = {key: [] for key in asked}
    if keep is not None and keep.exists():
        for kept in map(json.loads, keep.read_text().splitlines()):
            key = tuple(kept["key"])
            if len(found.get(key, [None] * runs)) < runs:
                found[key].append(kept["run"])
    missing = [key for key in asked for _ in range(runs - len(found[key]))]

    def run(key: Key) -> None:
        data, method, epsilon, delta = key
        rows, domain = files(data)
        result = once(rows, schema=domain, method=method, epsilon=epsilon, delta=delta)
        found[key].append(result)
        if keep is not None:
            with keep.open("a") as file:
                file.write(json.dumps({"key": key, "run": result}) + "\n")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, missing))
    return {key: Line.of(done) for key, done in found.items()}


def earlier(table: Path, *, delta: str) -> dict[Key, Line]:
    """Return the lines of a table that was printed before."""
    number = r"\s+\(?([0-9.]+)\)?"
    found = {}
    for text in table.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(rf"(\S+)\s+(\S+)\s+([0-9.]+)\s+([0-9]+){number * 7}", text)
        if match is not None:
            data, method, epsilon, runs = match.groups()[:4]
            pairs, apart, triples, apart3, wall, cpu, peak = map(float, match.groups()[4:])
            found[data, method, epsilon, delta] = Line(
                runs=int(runs),
                mean={"pairs": pairs, "triples": triples, "wall_s": wall, "cpu_s": cpu},
                spread={"pairs": apart, "triples": apart3},
                peak_mb=peak,
            )
    return found


def verdicts(found: dict[Key, Line]) -> Iterator[str]:
    """Say of every claim that was measured whether it holds."""
    for (data, method, epsilon, delta), ours in found.items():
        if method != "auto":
            continue
        for place, error in enumerate(("pairs", "triples")):
            mean = ours.mean[error]
            if data == "adult" and epsilon in BARS:
                bar = BARS[epsilon][place]
                yield f"adult {epsilon:>4} {error:8} {mean:.5f} ≤ {bar}: {'holds' if mean <= bar else 'MISSED'}"
            others = {
                other: found[data, other, epsilon, delta]
                for other in METHODS[1:]
                if (data, other, epsilon, delta) in found
            }
            if not others:
                continue
            best = min(others, key=lambda name: others[name].mean[error])
            least = others[best].mean[error]
            doubt = 2 * math.hypot(ours.doubt(error), others[best].doubt(error))
            yield (
                f"{data} {epsilon:>4} {error:8} {mean:.5f} against {best} {least:.5f}, ratio {mean / least:.3f}: "
                f"{'holds' if mean <= 1.03 * least + doubt else 'MISSED'}"
            )


def here() -> str:
    """Return date, machine and version, for the head of a result."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{datetime.now(UTC).date()}, {machine}, populace {version('populace')}"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument(
        "--data", nargs="+", default=["adult", "nltcs", "loans", "msnbc", "stroke", "nist2020-acs"]
    )
    ask.add_argument("--method", nargs="+", default=list(METHODS))
    ask.add_argument("--epsilon", nargs="+", default=list(BARS))
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--runs", type=int, default=5)
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--keep", type=Path)
    ask.add_argument("--beside", type=Path)
    told = ask.parse_args()
    asked = [
        (data, method, epsilon, told.delta)
        for data in told.data
        for epsilon in told.epsilon
        for method in told.method
    ]
    found = {} if told.beside is None else earlier(told.beside, delta=told.delta)
    before = len(found.keys() - set(asked))
    found |= measured(asked, runs=told.runs, jobs=told.jobs, keep=told.keep)
    print(f"{here()}, delta {told.delta}, {told.jobs} at a time")
    if before:
        print(f"{before} lines are of an earlier day")
    print("data         method       eps runs        pairs (sd)      triples (sd)  wall s   cpu s  peak MB")
    for key, line in found.items():
        print(line.told(key))
    print()
    for verdict in verdicts(found):
        print(verdict)


if __name__ == "__main__":
    main()
