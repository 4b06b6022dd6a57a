"""A synthetic table as a survey file: weights that meet public totals, and replicate weights that hold every error.

All of it follows from a release and from public totals: it costs nothing, and the release's own promise covers it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.release.bundle import Release
from populace.release.streamed_table import read_whole
from populace.schema.hints import quote_names
from populace.survey.calibration.replicate_weights import FITTED_DRAWING_VARIANCE, make_replicate_weights
from populace.survey.design.design import Design

REPLICATE_PREFIX = "rep"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurveyFile:
    """Synthetic rows with a weight and replicate weights, and what their reader must know."""

    table: pa.Table
    scale: float
    """The variance of a statistic is this times the squared distances of its replicates from their mean."""
    effective_rows: float
    """So many rows of equal weight would tell as much (Kish)."""
    beyond: int
    """Rows that totals force further from their base weight than ten times, or a tenth."""


def make_survey_file(
    release: Release, *, design: Design, replicates: int = 80, weight: str = "weight", seed: int | None = None
) -> SurveyFile:
    """Return the synthetic rows with a weight that meets the totals of a design, and replicate weights beside it.

    V = scale·Σ (θ_r − mean of all θ_r)² over the replicates holds sampling error and privacy noise. Rows start from
    the design's weights where it names a column of them, else from equal ones; with psus in the design sampling
    variances are larger by its median design effect. `seed` repeats the drawing of replicates; without it that of the
    release does.
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
        base=_base_weights(table, design=design),
        design_effect=float(design.design_effect.median) if design.clustered else 1.0,
    )
    for name, values in found.columns(weight=weight, prefix=REPLICATE_PREFIX).items():
        table = table.append_column(name, [values])
    return SurveyFile(
        table=table,
        scale=found.scale,
        effective_rows=found.effective_rows,
        beyond=found.count_beyond(),
    )


def _base_weights(table: pa.Table, *, design: Design) -> Floats | None:
    """Return the weights that the design names, as the synthetic rows have them: 0 where none is known."""
    if design.weights is None:
        return None
    texts = table[design.weights].cast(pa.string()).to_pylist()
    numbers = np.array([_parse_weight(text) for text in texts], dtype=np.float64)
    if not numbers.any():
        raise UsageError(
            f"no weight in {design.weights!r} is above 0.", hint="leave `weights` out of the design"
        )
    bounded: Floats = np.minimum(numbers, float(design.weight_bound))
    return bounded


def _parse_weight(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:  # a code for a missing weight
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


def _check_names(names: Sequence[str]) -> None:
    """See that no other column looks like a replicate: software finds them by their names."""
    if taken := [name for name in names if re.fullmatch(f"{REPLICATE_PREFIX}[0-9]+", name)]:
        raise UsageError(
            f"{quote_names(taken)} would be taken for a replicate weight: those are named "
            f"{REPLICATE_PREFIX}1, {REPLICATE_PREFIX}2 and so on.",
            hint="give the weight or the column another name",
        )
