"""From the measurements of a run to its model, by whichever method they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from populace.errors import ReleaseError, UsageError
from populace.infer.assemble import assemble
from populace.infer.model import Model
from populace.marginals import Domain
from populace.measurements import Measurement, Measurements, Told
from populace.progress import Progress
from populace.public import Borrowed
from populace.schema.rules import NO_RULES, Rules, Totals

# The methods whose estimate is moved by multiplicative weights.
WEIGHING = ("mwem", "pmw")
# The methods whose model is a copy of what they told, or one that they define.
OWN = ("copula", "gem", "stability", "histogram", "histogram-exponential", "field-groups")
INFERENCES = ("tree", "gum")
# What only some methods are fitted with, and is loaded when they are.
_MODULES = {
    "copula": ("populace.infer.copula", "scipy.special"),
    "dpsyn": ("populace.infer.parted",),
    "field-groups": ("populace.infer.histogram",),
    "gem": ("populace.infer.mixture",),
    "histogram": ("populace.infer.histogram",),
    "histogram-exponential": ("populace.infer.histogram",),
    "mwem": ("populace.infer.weights",),
    "pmw": ("populace.infer.weights",),
    "stability": ("populace.infer.told",),
}


def fit_run(
    measurements: Measurements, *, inference: str = "tree", progress: Progress | None = None
) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp.

    By `inference` "tree", tables that tell most stand in a junction tree, and rows are fitted to all of them. By "gum",
    the gradual update method, rows start from single columns and are moved until they fit all tables.
    """
    check_inference(inference, method=measurements.record.method)
    schema, gradual = measurements.schema, inference == "gum"
    if measurements.record.method == "dpsyn":
        from populace.infer.parted import parted_model

        model = parted_model(
            measurements.items, schema=schema, public=measurements.public, gradual=gradual, progress=progress
        )
    else:
        model = fit_items(
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
    gradual: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Return the model of measurements, as the method that made them wants them read.

    Methods that copy bins have their own, and multiplicative weights theirs where they are held cell by cell; all
    others are assembled from whatever tables they measured. What a method needs is loaded when it is used: most runs
    are of the others.
    """
    if method == "stability":
        from populace.infer.told import told_model

        if told is None:
            raise ReleaseError(
                "there are no rows to draw from.", hint="use the measurements as they were saved"
            )
        return told_model(told, domain=domain)
    if method in WEIGHING and not gradual:
        from populace.infer.weights import dense, weights_model

        if dense(domain, rules=rules, totals=totals):
            return weights_model(items, domain=domain)
    if method in ("histogram", "histogram-exponential"):
        from populace.infer.histogram import histogram_model

        return histogram_model(items, domain=domain, rules=rules)
    if method == "gem":
        from populace.infer.mixture import mixture_model

        return mixture_model(items, domain=domain, rules=rules, totals=totals)
    if method == "field-groups":
        from populace.infer.histogram import groups_model

        return groups_model(items, domain=domain, rules=rules, totals=totals)
    if method == "copula":
        from populace.infer.copula import copula_model

        return copula_model(items, domain=domain, rules=rules, totals=totals, progress=progress)
    return assemble(
        items, domain=domain, rules=rules, totals=totals, public=public, gradual=gradual, progress=progress
    )


def load_inference(method: str, *, rules: Rules) -> None:
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
    if inference == "gum" and method in OWN:
        raise UsageError(
            f"the method {method!r} has a model of its own, which rows are drawn from.",
            hint="leave --inference out",
        )
    if inference == "gum" and where is not None:
        raise UsageError(
            "rows that are moved until they fit all tables cannot be drawn given a condition.",
            hint="leave --inference out, or choose among the rows of the whole table",
        )
