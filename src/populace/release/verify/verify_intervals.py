"""Whether the intervals beside saved counts are those that follow from the counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from populace.core.untrusted_files import altered_error, read_parquet
from populace.inference.gls.count_intervals import intervals
from populace.measurements.measurements import Measurements

# They are written to a thousandth of a row; machines differ in the last digits that they compute.
_TOLERANCE = 0.002
_INTERVAL_COLUMNS = ("estimate", "low", "high")


def check_intervals(folder: Path, *, measurements: Measurements) -> str:
    """Compute the intervals of a folder again; refuse others, or none, and say how many counts have one."""
    expected = intervals(measurements).columns()
    written = read_intervals(folder)
    for name, tables in expected.items():
        again = np.concatenate([table.ravel() for table in tables])
        rounded = np.array_equal(written[name], written[name].round(3))
        if not rounded or not np.allclose(written[name], again, rtol=1e-7, atol=_TOLERANCE):
            raise altered_error(f"“{name}” of measurements.parquet does not follow from the counts")
    return f"the intervals of {len(next(iter(written.values())))} counts follow from all counts together"


def read_intervals(folder: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns beside the counts of a folder, as they are."""
    import pyarrow as pa

    types = {"marginal": pa.int32(), "cell": pa.int64(), "count": pa.int64()}
    saved = read_parquet(
        folder / "measurements.parquet", types=types | dict.fromkeys(_INTERVAL_COLUMNS, pa.float64())
    )
    return {name: saved[name].to_numpy() for name in _INTERVAL_COLUMNS}
