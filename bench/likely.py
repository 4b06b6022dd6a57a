"""What the likely errors of a report are worth: beside the true ones, on public tables, for every measured table.

    python bench/likely.py           columns, pairs and triples of four tables at three ε, three runs each

A report guesses how far released shares are from the real ones by a rehearsal from the release. Here the real rows are
known, so the guess stands beside the truth, and beside the bound that the report gives too. Tables that the report
calls lost in noise or far off have no guess and are left out. The claim: on average over a run's columns, pairs or
triples, where there are five or more, the guess is within a factor 1.5 of the truth.
"""

from __future__ import annotations

import statistics
import tempfile

import numpy as np
import pyarrow.parquet as pq
from error import files, here

import populace as pp
from populace.core.marginals import tabulate
from populace.release.report.bootstrap_error import bootstrap_errors
from populace.release.report.comparison import compare_all
from populace.release.table_files import encode_table

DATA, EPSILONS, RUNS = ("adult", "nltcs", "loans", "nist2020-acs"), ("0.1", "1", "10"), 3
FACTOR, LEAST = 1.5, 5


def errors(data: str, epsilon: str) -> list[tuple[int, float, float, float]]:
    """Return for every measured table that is not hidden its columns, and its true, likely and largest error."""
    rows, domain = files(data)
    with tempfile.TemporaryDirectory() as place:
        release = pp.synthesize(
            rows, schema=domain, epsilon=epsilon, delta="1e-9", ledger=f"{place}/ledger.db"
        )
    measurements, codes = release.measurements, release.compared_codes
    real = encode_table(pq.read_table(rows), schema=measurements.schema)
    total = max(1.0, float(release.intervals.of().estimate))
    likely = bootstrap_errors(measurements, codes=codes, total=total, gradual=release.model.gradual)
    seen = compare_all(measurements, codes=codes, total=total, likely=likely)
    found = []
    for item, synthetic, comparison in seen:
        if comparison.likely is not None:
            truth = tabulate(item.marginal, codes=real, domain=measurements.schema.domain)
            apart = 0.5 * float(np.abs(truth / truth.sum() - synthetic / synthetic.sum()).sum())
            found.append((len(item.marginal.clique), apart, comparison.likely, comparison.truth_within))
    return found


def main() -> None:
    print(f"{here()}, auto, delta 1e-9, {RUNS} runs each; means over the tables that are not lost or far off")
    print("data          eps  columns of a table  tables    true  likely  ratio (each run)    at most")
    held = []
    for data in DATA:
        for epsilon in EPSILONS:
            runs = [errors(data, epsilon) for _ in range(RUNS)]
            for size in (1, 2, 3):
                some = [[each[1:] for each in run if each[0] == size] for run in runs]
                some = [each for each in some if each]
                if not some:
                    continue
                means = np.array([np.mean(each, axis=0) for each in some])
                ratios = [f"{likely / true:.2f}" for true, likely, _ in means.tolist()]
                true, likely, most = means.mean(axis=0).tolist()
                print(
                    f"{data:13} {epsilon:>3} {size:>19} {statistics.fmean(map(len, some)):>7.0f} {true:>7.4f} "
                    f"{likely:>7.4f}  {likely / true:.2f} ({' '.join(ratios)}) {most:>9.4f}",
                    flush=True,
                )
                if statistics.fmean(map(len, some)) >= LEAST:
                    held.append(1 / FACTOR <= likely / true <= FACTOR)
    told = f"within a factor {FACTOR} in {sum(held)} of {len(held)} lines of {LEAST} tables or more"
    print(f"{told}: {'holds' if all(held) else 'DOES NOT HOLD'}")


if __name__ == "__main__":
    main()
