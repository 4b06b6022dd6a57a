"""From the measurements of a run to its model, by whichever method they were made."""

from __future__ import annotations

from dataclasses import replace

from populace.core.progress import Progress
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.methods.method import FitInput
from populace.methods.registry import find_method
from populace.methods.request_checks import check_inference


def fit(measurements: Measurements, *, inference: str = "tree", progress: Progress | None = None) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp.

    By `inference` "tree", the tables that say most stand in a junction tree, and rows are fitted to all of them. By
    "gum", the gradual update method, rows start from single columns and are moved until they fit all tables.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> people = pa.table({"smokes": [0, 0, 0, 1] * 500})
    >>> asked = {"schema": pp.Schema.from_sizes({"smokes": 2}), "epsilon": 1, "delta": 0, "dataset": "smokers"}
    >>> sorted(pp.fit(pp.measure(people, **asked)).domain)
    ['smokes']
    """
    method = find_method(measurements.record.method)
    check_inference(inference, method=method)
    model = method.fit(
        FitInput(
            schema=measurements.schema,
            items=measurements.items,
            released_rows=measurements.released_rows,
            public=measurements.public,
            gradual=inference == "gum",
            progress=progress,
        )
    )
    return replace(
        model,
        measurements=measurements,
        measurements_digest=measurements.digest,
        rehearsal=measurements.record.rehearsal,
    )
