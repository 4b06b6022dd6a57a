"""Try many random round trips and tell their failures apart: python tests/properties/try_round_trips.py RUNS [SEED]"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.properties.round_trips import Job, jobs, round_trip


def try_many(runs: int, *, start: int) -> Counter[str]:
    """Return how the runs ended; the first of each kind of failure is shown on stderr."""
    ends: Counter[str] = Counter()

    @seed(start)
    @settings(
        max_examples=runs,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(jobs())
    def attempt(job: Job) -> None:
        with tempfile.TemporaryDirectory() as home:
            began = time.monotonic()
            try:
                end = round_trip(job, Path(home))
            except Exception as failure:
                place = traceback.extract_tb(failure.__traceback__)[-1]
                end = f"FAILED {type(failure).__name__} {Path(place.filename).name}:{place.lineno} {str(failure)[:120]}"
                if end not in ends:
                    print(end, job, sep="\n", file=sys.stderr)
                    print(job.schema.to_toml(), file=sys.stderr)
            if time.monotonic() - began > 10:
                print(f"{time.monotonic() - began:.0f} s", job, sep="\n", file=sys.stderr)
            ends[end] += 1
            ends["runs"] += 1
            if ends["runs"] % 100 == 0:
                print(f"{ends['runs']} runs", file=sys.stderr, flush=True)
            ends[f"({job.method}: {end.split(':')[0].split()[0]})"] += 1

    attempt()
    return ends


if __name__ == "__main__":
    for end, times in sorted(
        try_many(int(sys.argv[1]), start=int((sys.argv[2:] or ["1"])[0])).items(), key=lambda each: -each[1]
    ):
        print(f"{times:6d}  {end}")
