"""A second release made with the first beside one release of both budgets: the error of pairs.

    python bench/with_earlier.py                       ten runs each, the default

Adult at delta 1e-9. The first release has epsilon 1, the second another epsilon 1: alone, and `--with` the first. One
release of both budgets has the epsilon of Σμ², the sum of the Gaussian prices of both. Errors are mean total variations
over all pairs of columns between the real rows and the released ones, as the shared ruler has them. Noise is the
operating system's, since a rehearsal is never used by another release: figures differ from run to run.

Claim: the second release errs by at most 5 % more than the one of both budgets.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from error import SHARED, here

import populace as pp
from populace.privacy.accounting.privacy_loss import cap, epsilon_for

MAX_RATIO = 1.05
DELTA = Fraction("1e-9")


def pair_error(real: pa.Table, made: pa.Table, *, sizes: dict[str, int]) -> float:
    """Return the mean total variation over all pairs of columns."""
    found = []
    for first, second in combinations(sizes, 2):
        cells = [table[first].to_numpy() * sizes[second] + table[second].to_numpy() for table in (real, made)]
        shares = [np.bincount(each, minlength=sizes[first] * sizes[second]) / len(each) for each in cells]
        found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return statistics.mean(found)


def errors(
    real: pa.Table, *, schema: pp.Schema, epsilon: Fraction, method: str, place: Path
) -> dict[str, float]:
    """Return the errors of one release of each kind."""
    currency, price = cap(epsilon, DELTA)
    both = epsilon_for(2 * price, currency=currency, delta=DELTA)
    ledger, sizes = place / "ledger.db", dict(schema.domain)
    pp.Ledger.open(ledger).open_account("adult", epsilon=3 * epsilon + both, delta=4 * DELTA)
    asked = {"schema": schema, "delta": DELTA, "dataset": "adult", "ledger": ledger, "method": method}
    first = pp.synthesize(real, epsilon=epsilon, **asked)
    first.save(place / "first", report=False)
    found = {
        "first": first,
        "second alone": pp.synthesize(real, epsilon=epsilon, **asked),
        "second with the first": pp.synthesize(real, epsilon=epsilon, earlier=[place / "first"], **asked),
        "one of both budgets": pp.synthesize(real, epsilon=both, **asked),
    }
    return {name: pair_error(real, each.table, sizes=sizes) for name, each in found.items()}


def main() -> None:
    """Print the errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--each", action="store_true", help="print every run")
    options = parser.parse_args()
    schema = pp.Schema.load(SHARED / "data" / "adult" / "domain.json")
    real = pq.read_table(SHARED / "data" / "adult" / "adult.parquet")
    began, runs = time.process_time(), []
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as place:
            epsilon = Fraction(options.epsilon)
            runs.append(
                errors(real, schema=schema, epsilon=epsilon, method=options.method, place=Path(place))
            )
            if options.each:
                print({name: round(error, 4) for name, error in runs[-1].items()}, flush=True)
    print(here())
    print(f"Adult, {options.method}, epsilon {options.epsilon} each, delta 1e-9, {options.runs} runs")
    means = {name: statistics.mean(run[name] for run in runs) for name in runs[0]}
    for name, mean in means.items():
        spread = statistics.stdev([run[name] for run in runs]) if len(runs) > 1 else 0.0
        print(f"  {name:24} pair error {mean:.4f}  (sd {spread:.4f})")
    ratio = means["second with the first"] / means["one of both budgets"]
    print(
        f"ratio {ratio:.3f}, at most {MAX_RATIO} claimed{'' if ratio <= MAX_RATIO else ' *'}; "
        f"{time.process_time() - began:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
