"""From the measurements of a run to its model, by whichever method they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Domain
from populace.core.progress import Progress
from populace.inference.fit.fit_model import fit_model
from populace.inference.model import Model
from populace.measurements.measurements import Measurement, Measurements, ReleasedRows
from populace.measurements.public_marginals import PublicMarginals
from populace.schema.conditions.rules import NO_RULES, Rules, Totals

# The methods whose estimate is moved by multiplicative weights.
MULTIPLICATIVE_WEIGHTS = ("mwem", "pmw")
# The methods whose model is a copy of what they told, or one that they define.
OWN_MODEL = ("copula", "gem", "stability", "histogram", "histogram-exponential", "field-groups")
INFERENCES = ("tree", "gum")
# What only some methods are fitted with, and is loaded when they are.
_MODULES = {
    "copula": ("populace.methods.literature.copula.copula_model", "scipy.special"),
    "dpsyn": ("populace.methods.dpsyn.dpsyn_model",),
    "field-groups": ("populace.methods.histogram.histogram_model",),
    "gem": ("populace.methods.literature.gem.gem_model",),
    "histogram": ("populace.methods.histogram.histogram_model",),
    "histogram-exponential": ("populace.methods.histogram.histogram_model",),
    "mwem": ("populace.methods.literature.multiplicative_weights",),
    "pmw": ("populace.methods.literature.multiplicative_weights",),
    "stability": ("populace.methods.stability.released_rows_model",),
}


def fit(measurements: Measurements, *, inference: str = "tree", progress: Progress | None = None) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp.

    By `inference` "tree", tables that tell most stand in a junction tree, and rows are fitted to all of them. By "gum",
    the gradual update method, rows start from single columns and are moved until they fit all tables.
    """
    check_inference(inference, method=measurements.record.method)
    schema, gradual = measurements.schema, inference == "gum"
    if measurements.record.method == "dpsyn":
        from populace.methods.dpsyn.dpsyn_model import dpsyn_model

        model = dpsyn_model(
            measurements.items, schema=schema, public=measurements.public, gradual=gradual, progress=progress
        )
    else:
        model = fit_answers(
            measurements.items,
            told=measurements.told,
            method=measurements.record.method,
            domain=schema.domain,
            rules=schema.rules,
            totals=schema.totals,
            public=measurements.public,
            gradual=gradual,
            progress=progress,
        )
    return replace(
        model,
        measurements=measurements,
        measurements_digest=measurements.digest,
        rehearsal=measurements.record.rehearsal,
    )


def fit_answers(
    items: Sequence[Measurement],
    *,
    told: ReleasedRows | None = None,
    method: str,
    domain: Domain,
    rules: Rules = NO_RULES,
    totals: Sequence[Totals] = (),
    public: PublicMarginals | None = None,
    gradual: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Return the model of measurements, as the method that made them wants them read.

    Methods that copy bins have their own, and multiplicative weights theirs where they are held cell by cell; all
    others are assembled from whatever tables they measured. What a method needs is loaded when it is used: most runs
    are of the others.
    """
    if method == "stability":
        from populace.methods.stability.released_rows_model import released_rows_model

        if told is None:
            raise ReleaseError(
                "there are no rows to draw from.", hint="use the measurements as they were saved"
            )
        return released_rows_model(told, domain=domain)
    if method in MULTIPLICATIVE_WEIGHTS and not gradual:
        from populace.methods.literature.multiplicative_weights import is_dense, multiplicative_weights_model

        if is_dense(domain, rules=rules, totals=totals):
            return multiplicative_weights_model(items, domain=domain)
    if method in ("histogram", "histogram-exponential"):
        from populace.methods.histogram.histogram_model import histogram_model

        return histogram_model(items, domain=domain, rules=rules)
    if method == "gem":
        from populace.methods.literature.gem.gem_model import gem_model

        return gem_model(items, domain=domain, rules=rules, totals=totals)
    if method == "field-groups":
        from populace.methods.histogram.histogram_model import field_groups_model

        return field_groups_model(items, domain=domain, rules=rules, totals=totals)
    if method == "copula":
        from populace.methods.literature.copula.copula_model import copula_model

        return copula_model(items, domain=domain, rules=rules, totals=totals, progress=progress)
    return fit_model(
        items, domain=domain, rules=rules, totals=totals, public=public, gradual=gradual, progress=progress
    )


def preload_inference(method: str, *, rules: Rules) -> None:
    """Load what the model of a method is fitted with, before anything is paid for: an import can fail as a disk can."""
    for name in _MODULES.get(method, ()):
        import_module(name)
    if rules != NO_RULES and method != "independent":
        # Tables over several columns are brought into agreement with rules by sparse least squares.
        import_module("scipy.sparse.linalg")


def check_inference(inference: str, *, method: str, where: str | None = None) -> None:
    """Refuse a way from measurements to rows that is not known, or that a method or a condition cannot go."""
    if inference not in INFERENCES:
        raise UsageError(
            f"there is no inference {inference!r}.", hint=f"choose one of {', '.join(INFERENCES)}"
        )
    if inference == "gum" and method in OWN_MODEL:
        raise UsageError(
            f"the method {method!r} has a model of its own, which rows are drawn from.",
            hint="leave --inference out",
        )
    if inference == "gum" and where is not None:
        raise UsageError(
            "rows that are moved until they fit all tables cannot be drawn given a condition.",
            hint="leave --inference out, or choose among the rows of the whole table",
        )
