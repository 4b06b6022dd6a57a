"""Error, time and memory of released rows: `populace synth` from file to file, scored by the shared ruler.

    python bench/error.py                                          every claim, the default
    python bench/error.py --data adult --method mst --epsilon 1 10 --delta 1e-9 --runs 5

Every run is a fresh process with its own ledger. The error is the mean total variation over all pairs and over
100 fixed triples between the real rows and the released ones (tools/score.py beside the shared data). CPU seconds
and peak memory are those of the child process, report included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
COMMAND = [sys.executable, "-c", "from populace.cli.main import run; run()"]


def once(
    data: Path, *, schema: Path, method: str, epsilon: str, delta: str, keep: Path | None = None
) -> dict[str, float]:
    """Run one release in a child process and score it; `keep` is where the released rows are to stay."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "release"
        files = {"schema": schema, "out": out, "ledger": Path(place) / "ledger.db"}
        words = {**files, "epsilon": epsilon, "delta": delta, "method": method}
        options = [word for name, value in words.items() for word in (f"--{name}", str(value))]
        begun, quiet = time.perf_counter(), subprocess.DEVNULL
        child = subprocess.Popen([*COMMAND, "synth", str(data), *options], stdout=quiet, stderr=quiet)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        if status:
            raise SystemExit(f"synth failed on {data.stem} with {method} at epsilon {epsilon}")
        (rows,) = out.glob("synthetic.*")
        told = score(data, rows, domain=schema if schema.suffix == ".json" else None)
        if keep is not None:
            shutil.copy(rows, keep)
    return {
        "pairs": told["tv2"],
        "triples": told["tv3"],
        "wall_s": wall,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


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


def table(data: str, *, methods: list[str], epsilons: list[str], delta: str, runs: int) -> None:
    """Print a line for each method and epsilon on one dataset."""
    for method in methods:
        for epsilon in epsilons:
            found = [
                once(
                    SHARED / "data" / data / f"{data}.parquet",
                    schema=SHARED / "data" / data / "domain.json",
                    method=method,
                    epsilon=epsilon,
                    delta=delta,
                )
                for _ in range(runs)
            ]
            mean = {key: statistics.mean(run[key] for run in found) for key in found[0]}
            spread = {key: statistics.stdev([r[key] for r in found]) if runs > 1 else 0.0 for key in found[0]}
            print(
                f"{data:8} {method:12} {epsilon:>5} {runs:>4}  {mean['pairs']:.5f} ({spread['pairs']:.5f})  "
                f"{mean['triples']:.5f} ({spread['triples']:.5f})  {mean['wall_s']:6.1f}  {mean['cpu_s']:6.1f}"
                f"  {max(run['peak_mb'] for run in found):7.0f}",
                flush=True,
            )


def here() -> str:
    """Return date, machine and version, for the head of a result."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{datetime.now(UTC).date()}, {machine}, populace {version('populace')}"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["adult", "stroke", "msnbc"])
    ask.add_argument("--method", nargs="+", default=["mst", "independent"])
    ask.add_argument("--epsilon", nargs="+", default=["1", "10"])
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--runs", type=int, default=None, help="5 for adult, 3 for the larger ones")
    told = ask.parse_args()
    print(f"{here()}, delta {told.delta}")
    print("data     method         eps runs        pairs (sd)      triples (sd)  wall s   cpu s  peak MB")
    for data in told.data:
        runs = told.runs or (5 if data == "adult" else 3)
        table(data, methods=told.method, epsilons=told.epsilon, delta=told.delta, runs=runs)


if __name__ == "__main__":
    main()
