"""Publish confidential survey and census microdata with a proven differential-privacy guarantee.

The names below are loaded when they are first used, so that `import populace` is cheap.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from populace.api.check import check as check
    from populace.api.earlier_releases import pool_releases as pool_releases
    from populace.api.estimate import estimate as estimate
    from populace.api.generate import generate as generate
    from populace.api.generate import release_from as release_from
    from populace.api.measure import measure as measure
    from populace.api.spark_rows import generate_on_spark as generate_on_spark
    from populace.api.synthesize import synthesize as synthesize
    from populace.core.errors import OverBudget as OverBudget
    from populace.core.errors import PopulaceError as PopulaceError
    from populace.core.table_address import PushDown as PushDown
    from populace.evaluation.claims.findings import compare_findings as compare_findings
    from populace.evaluation.evaluation_result import Evaluation as Evaluation
    from populace.evaluation.score_files import evaluate as evaluate
    from populace.inference.gls.count_intervals import intervals as intervals
    from populace.inference.model import Model as Model
    from populace.measurements.measurements import Measurements as Measurements
    from populace.methods.fit_measurements import fit as fit
    from populace.methods.workload import Workload as Workload
    from populace.planning.plan import plan as plan
    from populace.privacy.ledger.ledger import Ledger as Ledger
    from populace.release.bundle import Release as Release
    from populace.release.checks_bundle import Checks as Checks
    from populace.release.estimates_bundle import Estimates as Estimates
    from populace.release.verify.verify import verify as verify
    from populace.schema.schema import Schema as Schema
    from populace.studies.simulate import simulate as simulate
    from populace.survey.claims.claims import Claims as Claims
    from populace.survey.design.design import Design as Design
    from populace.survey.queries.queries import Queries as Queries
    from populace.survey.queries.queries import Query as Query
    from populace.survey.small_areas import small_areas as small_areas

_HOMES = {
    "Checks": "release.checks_bundle",
    "Claims": "survey.claims.claims",
    "Design": "survey.design.design",
    "Estimates": "release.estimates_bundle",
    "Evaluation": "evaluation.evaluation_result",
    "Ledger": "privacy.ledger.ledger",
    "Measurements": "measurements.measurements",
    "Model": "inference.model",
    "OverBudget": "core.errors",
    "PopulaceError": "core.errors",
    "PushDown": "core.table_address",
    "Queries": "survey.queries.queries",
    "Query": "survey.queries.queries",
    "Release": "release.bundle",
    "Schema": "schema.schema",
    "Workload": "methods.workload",
    "check": "api.check",
    "compare_findings": "evaluation.claims.findings",
    "estimate": "api.estimate",
    "evaluate": "evaluation.score_files",
    "fit": "methods.fit_measurements",
    "generate": "api.generate",
    "generate_on_spark": "api.spark_rows",
    "intervals": "inference.gls.count_intervals",
    "measure": "api.measure",
    "plan": "planning.plan",
    "pool_releases": "api.earlier_releases",
    "release_from": "api.generate",
    "simulate": "studies.simulate",
    "small_areas": "survey.small_areas",
    "synthesize": "api.synthesize",
    "verify": "release.verify.verify",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'populace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"populace.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
