"""Publish confidential survey and census microdata with a proven differential-privacy guarantee.

The names below are loaded when they are first used, so that `import populace` is cheap.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from populace.errors import OverBudget as OverBudget
    from populace.errors import PopulaceError as PopulaceError
    from populace.estimates import estimate as estimate
    from populace.forecast.plan import plan as plan
    from populace.infer.fit import fit as fit
    from populace.infer.intervals import intervals as intervals
    from populace.infer.model import Model as Model
    from populace.measurements import Measurements as Measurements
    from populace.pipeline import measure as measure
    from populace.pipeline import release_from as release_from
    from populace.pipeline import synthesize as synthesize
    from populace.privacy.ledger import Ledger as Ledger
    from populace.release.bundle import Release as Release
    from populace.release.estimates import Estimates as Estimates
    from populace.release.verify import verify as verify
    from populace.schema.schema import Schema as Schema
    from populace.strategy.workload import Workload as Workload
    from populace.survey.design import Design as Design
    from populace.survey.queries import Queries as Queries
    from populace.survey.queries import Query as Query

_HOMES = {
    "Design": "survey.design",
    "Estimates": "release.estimates",
    "Ledger": "privacy.ledger",
    "Measurements": "measurements",
    "Model": "infer.model",
    "OverBudget": "errors",
    "PopulaceError": "errors",
    "Queries": "survey.queries",
    "Query": "survey.queries",
    "Release": "release.bundle",
    "Schema": "schema.schema",
    "Workload": "strategy.workload",
    "estimate": "estimates",
    "fit": "infer.fit",
    "intervals": "infer.intervals",
    "measure": "pipeline",
    "plan": "forecast.plan",
    "release_from": "pipeline",
    "synthesize": "pipeline",
    "verify": "release.verify",
}

__all__ = [
    "Design",
    "Estimates",
    "Ledger",
    "Measurements",
    "Model",
    "OverBudget",
    "PopulaceError",
    "Queries",
    "Query",
    "Release",
    "Schema",
    "Workload",
    "estimate",
    "fit",
    "intervals",
    "measure",
    "plan",
    "release_from",
    "synthesize",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'populace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"populace.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
