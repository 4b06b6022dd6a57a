"""How many exact noise values a second, beside OpenDP in the same run.

    python bench/samplers.py            the table
    python bench/samplers.py --json     the same for machines

Claim: at least 50 times OpenDP's rate up to a standard deviation of 100. Each rate is the median of several
repeats, with the slowest and the fastest; both libraries take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np
import opendp.prelude as dp

from populace.privacy.noise.block_rejection import build_blocks
from populace.privacy.noise.distributions import gaussian_distribution, laplace_distribution
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.samplers import (
    MAX_TABLED_SCALE,
    MAX_TABLED_VARIANCE,
    draw_discrete_gaussian,
    draw_discrete_laplace,
    draw_exponential_choice,
)
from populace.privacy.noise.table_inversion import build_inversion_table

SCALES = (1, 10, 100, 1_000, 20_000, 1_000_000)
REPEATS = 7
OURS, THEIRS = 1_000_000, 4_000


def rate(draw: Callable[[], object], *, draws: int) -> float:
    start = time.perf_counter()
    draw()
    return draws / (time.perf_counter() - start)


def opendp_sampler(kind: str, scale: int) -> Callable[[], object]:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=float(scale))
    else:
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    zeros = [0] * THEIRS
    return lambda: measurement(zeros)


def our_sampler(kind: str, scale: int) -> Callable[[], object]:
    entropy = SystemEntropy()
    if kind == "gaussian":
        return lambda: draw_discrete_gaussian(Fraction(scale**2), size=OURS, entropy=entropy)
    return lambda: draw_discrete_laplace(Fraction(scale), size=OURS, entropy=entropy)


def preparation(kind: str, scale: int) -> float:
    """Seconds to make the table, which is kept for the next draws at the same scale."""
    distribution = (
        gaussian_distribution(Fraction(scale**2))
        if kind == "gaussian"
        else laplace_distribution(Fraction(scale))
    )
    tabled = scale**2 <= MAX_TABLED_VARIANCE if kind == "gaussian" else scale <= MAX_TABLED_SCALE
    start = time.perf_counter()
    if tabled:
        build_inversion_table(distribution)
    else:
        build_blocks.__wrapped__(distribution)
    return time.perf_counter() - start


def compare(kind: str, scale: int) -> dict[str, Any]:
    ours, theirs = our_sampler(kind, scale), opendp_sampler(kind, scale)
    table_seconds = preparation(kind, scale)
    ours()
    theirs()
    pairs = [(rate(ours, draws=OURS), rate(theirs, draws=THEIRS)) for _ in range(REPEATS)]
    mine, other = (sorted(column) for column in zip(*pairs, strict=True))
    return {
        "noise": kind,
        "scale": scale,
        "table_ms": 1e3 * table_seconds,
        "populace_per_s": [mine[0], statistics.median(mine), mine[-1]],
        "opendp_per_s": [other[0], statistics.median(other), other[-1]],
        "ratio": statistics.median(a / b for a, b in pairs),
        "worst_ratio": min(a / b for a, b in pairs),
    }


def choices() -> list[dict[str, Any]]:
    """Milliseconds for one exponential choice among 6,000 candidates."""
    entropy = SystemEntropy()
    rng = np.random.default_rng(1)
    results: list[dict[str, Any]] = []
    for spread, text in ((100, "1/3"), (10**6, "1/7"), (10**6, "1/100000"), (10**15, "1/1000000000000000")):
        scores = rng.integers(0, spread, 6_000)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            draw_exponential_choice(scores, rate=Fraction(text), entropy=entropy)
            times.append(1e3 * (time.perf_counter() - start))
        results.append(
            {"spread": spread, "rate": text, "ms": [min(times), statistics.median(times), max(times)]}
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    chosen = choices()
    noise = [compare(kind, scale) for kind in ("gaussian", "laplace") for scale in SCALES]
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {
            name: version(name) for name in ("populace", "opendp", "numpy", "python-flint", "cryptography")
        },
        "noise": noise,
        "choices": chosen,
    }
    if as_json:
        json.dump(result, sys.stdout, indent=1)
        return
    print(f"{result['date']}  {result['machine']}  {result['versions']}")
    print(f"million draws a second: slowest / median / fastest of {REPEATS}")
    print(f"{'noise':9} {'scale':>8} {'table':>9} {'populace':>24} {'OpenDP':>24} {'ratio':>7} {'worst':>7}")
    for row in noise:
        mine, other = (
            " / ".join(f"{r / 1e6:.3g}" for r in row[key]) for key in ("populace_per_s", "opendp_per_s")
        )
        print(
            f"{row['noise']:9} {row['scale']:>8} {row['table_ms']:>6.1f} ms {mine:>24} {other:>24}"
            f" {row['ratio']:>6.0f}× {row['worst_ratio']:>6.0f}×"
        )
    print("one choice among 6,000 candidates, ms: fastest / median / slowest of 20")
    for row in chosen:
        print(
            f"scores over {row['spread']:<17} rate {row['rate']:<19}",
            " / ".join(f"{ms:.1f}" for ms in row["ms"]),
        )
    slow = [row for row in noise if row["scale"] <= 100 and row["ratio"] < 50]
    print("claim: 50 times OpenDP up to scale 100:", "not held" if slow else "held")
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
