"""Write peer_scores.json: two small tables of codes, and what SDNist and SDMetrics say of them.

.venv/bin/python tests/golden/peer_scores.py        needs make bench-env
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_suffix(".json")
SIZES = {"area": 3, "age": 6, "sex": 2, "job": 4}


def draw(rows: int, seed: int) -> dict[str, list[int]]:
    rng = np.random.default_rng(seed)
    area, age = rng.integers(0, 3, rows), rng.integers(0, 6, rows)
    sex = rng.integers(0, 2, rows)
    job = (age // 2 + sex + (rng.random(rows) < 0.3) * rng.integers(0, 4, rows)) % 4
    return {name: part.tolist() for name, part in zip(SIZES, (area, age, sex, job), strict=True)}


def main() -> None:
    tables = {"real": draw(120, 1), "synthetic": draw(90, 2)}
    found = {"sizes": SIZES, **tables}
    with tempfile.TemporaryDirectory() as place:
        paths = []
        for name, columns in tables.items():
            paths.append(str(Path(place) / f"{name}.csv"))
            with Path(paths[-1]).open("w", newline="") as file:
                csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
        for peer in ("sdnist", "sdmetrics"):
            python = ROOT / ".bench" / peer / "bin" / "python"
            script = ROOT / "bench" / "peers" / f"{peer}_scores.py"
            done = subprocess.run([python, script, *paths], capture_output=True, text=True, check=True)
            scores = json.loads(done.stdout.splitlines()[-1])
            found[peer] = {key: value for key, value in scores.items() if key != "seconds"}
    KEPT.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
