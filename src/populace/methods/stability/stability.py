"""`stability`: whole rows that are frequent, released one by one; for domains that are far too large to count."""

from __future__ import annotations

from fractions import Fraction

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.inference.model import Model
from populace.measurements.measurements import Measurement, ReleasedRows
from populace.methods.independent import TOTAL_SHARE
from populace.methods.method import DeltaUse, FitInput, Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.stability.released_rows_model import released_rows_model
from populace.methods.workload import Workload
from populace.schema.schema import Schema


def measure_stability(
    oracle: Oracle, _workload: Workload, progress: Progress
) -> tuple[Measurement | ReleasedRows, ...]:
    """Measure the number of rows, then release the rows whose count with Laplace noise exceeds a threshold.

    A release holds each released row as often as its noisy count says, and no other. Work grows with the rows of
    the table, not with the size of its domain. It ignores the workload.
    Cost: the whole ε, a little of it for the number of rows, and the whole δ: it bounds the probability that a row
    which one unit alone has is released.
    Source: Korolova, Kenthapadi, Mishra and Ntoulas 2009; Bun, Nissim and Stemmer 2016.
    """
    progress("measuring the number of rows", 0.0)
    total = oracle.measure([Marginal(())], noise=oracle.budget.measure_noise(TOTAL_SHARE, marginals=1))
    progress("releasing rows", 0.2)
    mechanism = oracle.budget.key_mechanism(1 - TOTAL_SHARE, delta=oracle.budget.keys)
    return (*total, ReleasedRows.of(oracle.discover_rows(mechanism=mechanism), columns=oracle.domain))


def check_stability(_schema: Schema, _epsilon: Fraction, delta: Fraction) -> None:
    """Refuse to release rows without a δ."""
    if not delta:
        raise UsageError(
            "the method 'stability' cannot tell rows with delta 0.", hint="give a delta above 0, such as 1e-9"
        )


def fit_stability(given: FitInput) -> Model:
    """Return the model of the rows that were released."""
    if given.released_rows is None:
        raise ReleaseError("there are no rows to draw from.", hint="use the measurements as they were saved")
    return released_rows_model(given.released_rows, domain=given.schema.domain)


STABILITY = Method(
    name="stability",
    title="Stability-based histogram of whole rows",
    reference="Korolova, Kenthapadi, Mishra and Ntoulas 2009; Bun, Nissim and Stemmer 2016",
    measure=measure_stability,
    fit=fit_stability,
    check=check_stability,
    delta=DeltaUse.SET_ASIDE,
    workload=WorkloadUse.NONE,
    meets_totals=False,
    own_model=True,
    unplannable="releases whole rows that are frequent, and no schema says how often rows repeat",
)
