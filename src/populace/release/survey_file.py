"""A synthetic table as a survey file: weights that meet public totals, and replicate weights that hold every error.

All of it follows from a release and from public totals: it costs nothing, and the release's own promise covers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.release.bundle import Release
from populace.release.streamed_table import read_whole
from populace.schema.hints import quote_names
from populace.survey.calibration.replicate_weights import FITTED_DRAWING_VARIANCE, make_replicate_weights
from populace.survey.design.design import Design

REPLICATE_PREFIX = "rep"


def make_survey_file(
    release: Release, *, design: Design, replicates: int = 80, weight: str = "weight", seed: int | None = None
) -> pa.Table:
    """Return the synthetic rows with a weight that meets the totals of a design, and replicate weights beside it.

    V = Σ (θ_r − mean of all θ_r)²/(R − 1) over the R replicates holds sampling error and privacy noise. `seed` repeats
    the drawing of replicates; without it that of the release does.
    """
    if not design.totals:
        raise UsageError("the design has no public totals.", hint="write them as [[totals]] in the file")
    if release.selection is not None:
        raise UsageError(
            "the release holds some rows only, and totals are of all people.",
            hint="weight a release that was drawn without a condition",
        )
    if release.measurements.schema.geography is not None:
        raise UsageError(
            "the rows of a geography add up to its published tables, and have no other weights.",
            hint="margins of error are in tables.parquet; `populace area` gives them for any set of units",
        )
    if not 2 <= replicates <= LIMITS.max_replicates:
        raise UsageError(
            f"{replicates} replicates were asked for.",
            hint=f"ask for 2 to {LIMITS.max_replicates}; 80 are usual",
        )
    schema, table = release.measurements.schema, read_whole(release.synthetic)
    if not table.num_rows:
        raise UsageError("the release has no rows to weight.", hint="draw rows: populace generate --rows N")
    _check_names([*table.column_names, weight])
    if weight in table.column_names:
        raise UsageError(f"the table has a column {weight!r} already.", hint="give the weight another name")
    found = make_replicate_weights(
        release.codes,
        schema=schema,
        controls=design.totals,
        measurements=release.measurements.items,
        sample=max(release.model.total, 1.0),
        rng=np.random.default_rng([release.seed if seed is None else seed, replicates]),
        replicates=replicates,
        # Rows are fitted where the model has targets, and drawn from it alone elsewhere.
        drawing=FITTED_DRAWING_VARIANCE if release.model.targets else 1.0,
    )
    for name, values in found.columns(weight=weight, prefix=REPLICATE_PREFIX).items():
        table = table.append_column(name, [values])
    return table


def _check_names(names: Sequence[str]) -> None:
    """See that no other column looks like a replicate: software finds them by their names."""
    if taken := [name for name in names if re.fullmatch(f"{REPLICATE_PREFIX}[0-9]+", name)]:
        raise UsageError(
            f"{quote_names(taken)} would be taken for a replicate weight: those are named "
            f"{REPLICATE_PREFIX}1, {REPLICATE_PREFIX}2 and so on.",
            hint="give the weight or the column another name",
        )
