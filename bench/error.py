"""Error, time and memory of released rows: `populace synth` from file to file, scored by the shared ruler.

    python bench/error.py --data adult --method mst --epsilon 1 10 --delta 1e-9 --runs 5

Every run is a fresh process with its own ledger. The error is the mean total variation over all pairs and over
100 fixed triples between the real rows and the released ones (tools/score.py beside the shared data). CPU seconds
and peak memory are those of the child process, report included.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
COMMAND = [sys.executable, "-c", "from populace.cli.main import run; run()"]


def once(folder: Path, *, method: str, epsilon: str, delta: str) -> dict[str, float]:
    """Run one release in a child process and score it."""
    data, domain = folder / f"{folder.name}.parquet", folder / "domain.json"
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "release"
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        arguments = ["--epsilon", epsilon, "--delta", delta, "--method", method]
        files = [
            str(data),
            "--schema",
            str(domain),
            "--out",
            str(out),
            "--ledger",
            str(Path(place) / "ledger.db"),
        ]
        subprocess.run([*COMMAND, "synth", *files, *arguments], check=True, capture_output=True)
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        score = [sys.executable, str(SHARED / "tools/score.py"), str(data), str(out / "synthetic.parquet")]
        told = json.loads(
            subprocess.run([*score, "--domain", str(domain)], check=True, capture_output=True).stdout
        )
    return {
        "pairs": told["tv2"],
        "triples": told["tv3"],
        "wall_s": wall,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mb": after.ru_maxrss / 1024,
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["adult"])
    ask.add_argument("--method", nargs="+", default=["mst"])
    ask.add_argument("--epsilon", nargs="+", default=["1", "10"])
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--runs", type=int, default=5)
    told = ask.parse_args()
    print(
        f"{'data':8} {'method':12} {'eps':>5}  {'pairs (sd)':>16}  {'triples (sd)':>16}  wall s   cpu s  peak MB"
    )
    for data in told.data:
        for method in told.method:
            for epsilon in told.epsilon:
                runs = [
                    once(SHARED / "data" / data, method=method, epsilon=epsilon, delta=told.delta)
                    for _ in range(told.runs)
                ]
                mean = {key: statistics.mean(run[key] for run in runs) for key in runs[0]}
                spread = {
                    key: statistics.stdev([r[key] for r in runs]) if told.runs > 1 else 0.0 for key in runs[0]
                }
                print(
                    f"{data:8} {method:12} {epsilon:>5}  {mean['pairs']:.5f} ({spread['pairs']:.5f})  "
                    f"{mean['triples']:.5f} ({spread['triples']:.5f})  {mean['wall_s']:6.1f}  {mean['cpu_s']:6.1f}"
                    f"  {mean['peak_mb']:7.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
