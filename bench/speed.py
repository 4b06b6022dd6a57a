"""Seconds from file to file: `auto` beside mbi's MST on Adult, and `auto` on tables of 48 and 110 columns.

    python bench/speed.py            the table, and which aims are reached

Every run is a process of its own that reads a Parquet file and writes one: ours with ledger, measurements, statement
and model but without the report; mbi 2.0.0's the loop of bench/peers/mbi_synth.py in its own environment
(make bench-env), on one thread. Both take turns, so both see the same machine: a run of ours is over in a second, in
which the machine may be busy or not, so a round is the mean of six of them, three before mbi's run and three after it.
What mbi spends on fitting alone (no reading, no choosing, no drawing of rows) is told beside. The first of our runs
warms the caches and is not counted.

Aims at ε = 1, δ = 1e-9 (the last lines say which are reached): on Adult `auto` takes at most a twentieth of mbi's MST
by the clock in every round, and better still of its fitting alone, and less than 4 CPU seconds; loans (48 columns)
takes less than 30 CPU seconds, stroke (110 columns) less than 120.
"""

from __future__ import annotations

import statistics
import sys

from error import files, here, once
from peers import interpreter, run, versions

ROUNDS, AROUND = 5, 3


def main() -> None:
    if not interpreter("mbi").exists():
        sys.exit("mbi has no environment here.\nhint: make bench-env")
    print(f"{here()}; {versions().split('; ')[0]}")

    def ours(data: str) -> dict[str, float]:
        rows, domain = files(data)
        return once(rows, schema=domain, method="auto", epsilon="1", delta="1e-9")

    ours("adult")
    ratios, fits, seconds = [], [], []
    for number in range(ROUNDS):
        found = [ours("adult") for _ in range(AROUND)]
        peer = run("mbi:mst", "adult", epsilon="1", delta="1e-9", cap=1200)
        if "fit_s" not in peer:
            sys.exit(f"mbi's MST has no time: {peer.get('why', 'it does not say how long it fitted')}")
        found += [ours("adult") for _ in range(AROUND)]
        walls = [each["wall_s"] for each in found]
        mean = statistics.fmean(walls)
        ratios.append(peer["wall_s"] / mean)
        fits.append(peer["fit_s"] / mean)
        seconds += [each["cpu_s"] for each in found]
        print(
            f"adult {number}: auto {mean:.2f} s ({min(walls):.2f} to {max(walls):.2f}), "
            f"error {statistics.fmean(each['pairs'] for each in found):.4f}; mbi's MST {peer['wall_s']:.1f} s, "
            f"{peer['fit_s']:.1f} of them fitting, {peer['cpu_s']:.1f} CPU s, error {peer['pairs']:.4f}; "
            f"{ratios[-1]:.1f} times, fitting alone {fits[-1]:.1f}",
            flush=True,
        )
    claims = {
        f"mbi's MST takes {statistics.median(ratios):.1f} times as long, {min(ratios):.1f} at least (aim: 20)": (
            min(ratios) >= 20
        ),
        f"its fitting alone takes {statistics.median(fits):.1f} times as long, {min(fits):.1f} at least (aim: 20)": (
            min(fits) >= 20
        ),
        f"adult in {max(seconds):.1f} CPU seconds (aim: below 4)": max(seconds) < 4,
    }
    for data, most in (("loans", 30), ("stroke", 120)):
        found = ours(data)
        told = f"{data} in {found['cpu_s']:.1f} CPU seconds, {found['wall_s']:.1f} by the clock (aim: below {most})"
        claims[told] = found["cpu_s"] < most
    for claim, holds in claims.items():
        print(f"{claim}: {'reached' if holds else 'NOT REACHED'}")


if __name__ == "__main__":
    main()
