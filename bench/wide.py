"""CPU time and peak memory of whole runs on wide tables: 100 to 2,000 columns of 4 codes, and columns of 100,000 codes.

    python bench/wide.py                  every method that takes so many columns
    python bench/wide.py 500 mst auto     some columns and methods
    python bench/wide.py codes            four columns, of which one or two have 100,000 codes

Each run is a process of its own, `populace synth` from a CSV file to a release folder with its report. Each column
copies the one before it in two rows of five, so that there is dependence to find. `auto` is refused above 512 columns,
before anything is spent: its line says so. Aims: `independent` and `mst` on 2,000 columns below 4 GiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from error import here

ROWS, CODES = 5000, 4
COLUMNS = (100, 500, 1000, 2000)
METHODS = ("independent", "mst", "auto")
MOST_MIB = 4096
LARGE = 100_000


def main() -> None:
    print(f"{here()}; load {os.getloadavg()[0]:.1f} at the start")
    words = sys.argv[1:]
    columns = [int(word) for word in words if word.isdecimal()] or ([] if "codes" in words else COLUMNS)
    methods = [word for word in words if word != "codes" and not word.isdecimal()] or METHODS
    reached = True
    with tempfile.TemporaryDirectory() as folder:
        for count in columns:
            data, schema = write(Path(folder), count)
            for method in methods:
                code, seconds, memory = run(Path(folder), data, schema, method)
                told = (
                    f"{seconds:7.1f} CPU s {memory:6d} MiB"
                    if code == 0
                    else f"exit {code} after {seconds:.1f} CPU s"
                )
                print(f"{count:5d} columns  {method:12s} {told}", flush=True)
                reached &= memory < MOST_MIB and (code == 0 or method == "auto")
        for count in (1, 2) if not words or "codes" in words else ():
            data, schema = write(Path(folder), 4, large=count)
            for method in methods:
                code, seconds, memory = run(Path(folder), data, schema, method)
                told = f"exit {code} after {seconds:.1f} CPU s {memory:6d} MiB"
                print(f"{count} of 4 columns of {LARGE:,} codes  {method:12s} {told}", flush=True)
                # Right, or refused before anything is spent.
                reached &= memory < MOST_MIB and code in (0, 2, 4)
    print(f"below {MOST_MIB} MiB: {'reached' if reached else 'NOT REACHED'}")


def write(folder: Path, count: int, *, large: int = 0) -> tuple[Path, Path]:
    """Write a table of so many columns and its domain; the first of them may be large ones."""
    rng = np.random.default_rng(count)
    sizes = [LARGE] * large + [CODES] * (count - large)
    codes = (
        np.stack([rng.integers(0, size, ROWS) for size in sizes], axis=1)
        if large
        else rng.integers(0, CODES, (ROWS, count))
    )
    for place in range(1, count):
        copied = rng.random(ROWS) < 0.4
        codes[copied, place] = codes[copied, place - 1] % sizes[place]
    names = [f"q{number}" for number in range(count)]
    stem = f"wide{count}-{large}"
    data, schema = folder / f"{stem}.csv", folder / f"{stem}.json"
    pyarrow.csv.write_csv(pa.table({name: codes[:, place] for place, name in enumerate(names)}), data)
    schema.write_text(json.dumps(dict(zip(names, sizes, strict=True))))
    return data, schema


def run(folder: Path, data: Path, schema: Path, method: str) -> tuple[int, float, int]:
    """Return the exit code of a run, the CPU seconds of all its threads, and its peak memory in MiB."""
    out = folder / f"{data.stem}-{method}"
    words = ["synth", str(data), "--schema", str(schema), "--epsilon", "1", "--delta", "1e-9", "--seed", "1"]
    words += ["--method", method, "--out", str(out), "--ledger", f"{out}.db"]
    process = subprocess.Popen(
        [sys.executable, "-m", "populace", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # Waited for alone: the peak is that of this process, not of the largest so far.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


if __name__ == "__main__":
    main()
