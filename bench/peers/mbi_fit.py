"""Fit mbi's model twice to measurements from a file; run by bench/mst_vs_mbi.py with mbi's own Python.

    python bench/peers/mbi_fit.py IN.npz OUT.npz

The estimator is the one of mbi's MST example: mirror descent from zero, default settings, 10,000 steps. A fit is timed
until its marginals are NumPy arrays. The first includes compilation, the second reuses everything the first compiled.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np

warnings.simplefilter("ignore")

from mbi import Domain, LinearMeasurement, estimation  # noqa: E402

STEPS = 10_000


def main() -> None:
    given = np.load(sys.argv[1])
    told = json.loads(str(given["told"]))
    fine = Domain(list(told["fine"]), list(told["fine"].values()))
    domain = Domain(list(told["grouped"]), list(told["grouped"].values()))
    groups = {name: np.array(lookup) for name, lookup in told["groups"].items()}
    measurements = []
    for i, (clique, deviation) in enumerate(zip(told["cliques"], told["deviations"], strict=True)):
        item = LinearMeasurement(given[f"counts{i}"].ravel().astype(float), tuple(clique), deviation)
        measurements.append(item.compress(groups, fine) if len(clique) == 1 else item)
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        model = estimation.MirrorDescent().estimate(domain, measurements, iters=STEPS)
        tables = [np.asarray(model.project(tuple(c)).datavector(), dtype=float) for c in told["cliques"]]
        seconds.append(time.perf_counter() - begun)
    versions = {name: version(name) for name in ("mbi", "jax", "numpy")}
    np.savez(
        sys.argv[2],
        seconds=np.array(seconds),
        versions=np.array(json.dumps(versions)),
        **{f"table{i}": table for i, table in enumerate(tables)},
    )


if __name__ == "__main__":
    main()
