"""How often intervals of the unbiased estimates of a hierarchy hold the truth: every level, and areas off the spine.

    python bench/hierarchy_coverage.py [RUNS]

Whole runs of `topdown` on a made-up population of four levels, 87 blocks and 8 cells, with its own budget and noise:
each is reserved, charged and answered by the barrier, and exact totals leave it as booked events. Intervals are
estimates and margins of error as a release has them. Areas are 200 random sets of blocks that are no units. Counts that
are known exactly are left out. Variances that are halved or doubled stand below, as a check of the check.

Claim: with Gaussian and with Laplace noise (δ = 0), in 200 runs, cells of every level and of all areas together are
covered 95 % ± 1.5 of the time, without and with exact totals and structural zeros, and no single level or area is
further away than chance allows for so many: 1e-3 for all of a case. Totals of the whole table are one number in each
run, and are judged by chance alone. Nothing here is private.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version

from tests.helpers.hierarchy_runs import RunCase, cover

BAND = 0.015
# Groups of fewer intervals than this are judged by chance alone.
MIN_CELLS = 8
CASES = [
    *(RunCase(epsilon=epsilon) for epsilon in ("1", "16.464")),
    *(RunCase(epsilon=epsilon, invariants=("all", "county")) for epsilon in ("1", "16.464")),
    *(RunCase(epsilon=epsilon, zero=True) for epsilon in ("1", "16.464")),
    *(RunCase(epsilon=epsilon, zero=True, invariants=("county",)) for epsilon in ("1", "16.464")),
    *(RunCase(epsilon=epsilon, delta="0") for epsilon in ("1", "16.464")),
    *(
        RunCase(epsilon=epsilon, delta="0", invariants=("all", "county"), zero=zero)
        for epsilon, zero in (("1", False), ("8", True))
    ),
]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {version('numpy')}; {runs} runs each"
    )
    missed = 0
    for case in CASES:
        begun = time.process_time()
        found = cover(case, runs=runs)
        print(f"\n{case}: {(time.process_time() - begun) / runs * 1000:.0f} ms a run")
        for name, share in found.pooled().items():
            count = found.cells.get(name, int(found.area_cells.sum()))
            star = count >= MIN_CELLS and abs(share - 0.95) > BAND
            missed += star
            line = f"{name:14} {100 * share:6.2f} %  ({count * runs:,} intervals)"
            print(f"  {line}{'   *' if star else ''}")
        strange = found.strange()
        missed += len(strange)
        low, high = found.by_area.mean(axis=0).min(), found.by_area.mean(axis=0).max()
        print(f"  single areas from {100 * low:.1f} to {100 * high:.1f} %")
        print(f"  further away than chance allows: {', '.join(strange) or 'none'}", flush=True)
    for factor in (0.5, 2.0):
        found = cover(CASES[0], runs=runs, factor=factor)
        shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in found.pooled().items())
        print(f"\nvariance times {factor}: {shares}; {len(found.strange())} groups too far away")
        missed += not found.strange()
    print(f"\n{missed or 'no'} bars missed")


if __name__ == "__main__":
    main()
