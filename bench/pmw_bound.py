"""The error bound of private multiplicative weights beside the error that was reached.

    python bench/pmw_bound.py
    python bench/pmw_bound.py --data nltcs adult --epsilon 0.3 1 3 --delta 1e-9

The bound is the source's, up to a constant, for all cells of all pairs and triples that `pmw` may ask; the error that
was reached is the largest of any of these cells between the real rows and the released ones, as a share of the rows.
The third figure is what noise alone predicts for a marginal that is measured: the mean error of one of its cells. Runs
use the noise of the operating system and ledgers of their own.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from error import files, here

import populace as pp
from populace.methods.literature.pmw import MAX_QUERIES, pmw_bound
from populace.methods.selection.candidates import mean_absolute_noise, workload_candidates
from populace.methods.workload import Workload


def reached(real: pd.DataFrame, made: pd.DataFrame, *, clique: tuple[str, ...], sizes: list[int]) -> float:
    """Return the largest difference of shares of any cell of a marginal."""
    shares = []
    for rows in (real, made):
        cells = np.ravel_multi_index([rows[name].to_numpy() for name in clique], sizes)
        shares.append(np.bincount(cells, minlength=int(np.prod(sizes))) / len(rows))
    return float(np.abs(shares[0] - shares[1]).max())


def once(name: str, *, epsilon: str, delta: str) -> str:
    """Run one release and return its line."""
    path, domain = files(name)
    rows, schema = pd.read_parquet(path), pp.Schema.load(domain)
    with tempfile.TemporaryDirectory() as place:
        release = pp.synthesize(
            path, schema=schema, epsilon=epsilon, delta=delta, method="pmw", ledger=Path(place) / "ledger.db"
        )
    made = release.table.to_pandas().astype(int)
    asked = list(workload_candidates(Workload.default(schema.domain), domain=schema.domain))[:MAX_QUERIES]
    worst = max(reached(rows, made, clique=c, sizes=list(schema.domain.shape(c))) for c in asked)
    bound = pmw_bound(
        rows=len(rows),
        queries=sum(map(schema.domain.cells, asked)),
        universe=schema.domain.cells(schema.domain),
        epsilon=float(epsilon),
        delta=float(delta),
    )
    spends = [booked.spend for booked in release.measurements.record.spends]
    # The number of rows and the columns come first.
    laws = [spend.mechanism for spend in spends if spend.verb == "measure"][2:]
    noise = mean_absolute_noise(laws[0]) / len(rows)
    return f"{name:8} {epsilon:>4} {delta:>6}  {bound:.4f}  {worst:.4f}  {noise:.5f}"


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["nltcs"])
    ask.add_argument("--epsilon", nargs="+", default=["0.3", "1", "3"])
    ask.add_argument("--delta", nargs="+", default=["1e-9"])
    told = ask.parse_args()
    print(here())
    print("data      eps  delta   bound  reached   noise")
    for name in told.data:
        for delta in told.delta:
            for epsilon in told.epsilon:
                print(once(name, epsilon=epsilon, delta=delta), flush=True)


if __name__ == "__main__":
    main()
