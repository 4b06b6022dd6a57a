"""From the measurements of a run to its model, by whichever method they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from populace.errors import ReleaseError
from populace.infer.assemble import assemble
from populace.infer.histogram import groups_model, histogram_model
from populace.infer.model import Model
from populace.infer.told import told_model
from populace.infer.weights import dense, weights_model
from populace.marginals import Domain
from populace.measurements import Measurement, Measurements, Told
from populace.progress import Progress
from populace.public import Borrowed
from populace.schema.rules import NO_RULES, Rules, Totals

# The methods whose estimate is moved by multiplicative weights.
WEIGHING = ("mwem", "pmw")


def fit_run(measurements: Measurements, *, progress: Progress | None = None) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp."""
    schema = measurements.schema
    model = fit_items(
        measurements.items,
        told=measurements.told,
        method=measurements.record.method,
        domain=schema.domain,
        rules=schema.rules,
        totals=schema.totals,
        public=measurements.public,
        progress=progress,
    )
    return replace(model, measurements=measurements.digest, rehearsal=measurements.record.rehearsal)


def fit_items(
    items: Sequence[Measurement],
    *,
    told: Told | None = None,
    method: str,
    domain: Domain,
    rules: Rules = NO_RULES,
    totals: Sequence[Totals] = (),
    public: Borrowed | None = None,
    progress: Progress | None = None,
) -> Model:
    """Return the model of measurements, as the method that made them wants them read.

    Methods that copy bins have their own, and multiplicative weights theirs where they are held cell by cell; all
    others are assembled from whatever tables they measured.
    """
    if method == "stability":
        if told is None:
            raise ReleaseError(
                "there are no rows to draw from.", hint="use the measurements as they were saved"
            )
        return told_model(told, domain=domain)
    if method in WEIGHING and dense(domain, rules=rules, totals=totals):
        return weights_model(items, domain=domain)
    if method in ("histogram", "histogram-exponential"):
        return histogram_model(items, domain=domain, rules=rules)
    if method == "field-groups":
        return groups_model(items, domain=domain, rules=rules, totals=totals)
    return assemble(items, domain=domain, rules=rules, totals=totals, public=public, progress=progress)
