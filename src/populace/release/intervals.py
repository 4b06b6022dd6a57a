"""Whether the intervals beside saved counts are those that follow from the counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from populace.infer.intervals import intervals
from populace.measurements import Measurements
from populace.release.checks import wrong
from populace.untrusted import read_parquet

# They are written to a thousandth of a row; machines differ in the last digits that they compute.
_CLOSE = 0.002


def check_intervals(folder: Path, *, measurements: Measurements) -> str:
    """Compute the intervals of a folder again; refuse others, or none, and say how many counts have one."""
    import pyarrow as pa

    expected = intervals(measurements).columns()
    types = {"marginal": pa.int32(), "cell": pa.int64(), "count": pa.int64()}
    saved = read_parquet(
        folder / "measurements.parquet", types=types | {name: pa.float64() for name in expected}
    )
    written = {name: saved[name].to_numpy() for name in expected}
    for name, tables in expected.items():
        again = np.concatenate([table.ravel() for table in tables])
        if not np.allclose(written[name], again, rtol=1e-7, atol=_CLOSE):
            raise wrong(f"“{name}” of measurements.parquet does not follow from the counts")
    return f"the intervals of {saved.num_rows} counts follow from all counts together"
