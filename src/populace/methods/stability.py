"""`stability`: whole rows that are frequent, released one by one; for domains that are far too large to count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Clique, Domain, Grouping, Marginal
from populace.core.progress import Progress
from populace.inference.factor import Table
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import unused_name
from populace.measurements.measurements import Measurement, ReleasedRows
from populace.methods.histogram import MIN_TOTAL
from populace.methods.independent import TOTAL_SHARE
from populace.methods.method import DeltaUse, FitInput, Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.workload import Workload
from populace.schema.schema import Schema

# All tables of rows by codes together, 8 bytes a cell and a few copies.
MAX_ROW_CELLS = 2**26


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


def released_rows_model(released: ReleasedRows, *, domain: Domain) -> Model:
    """Return the model whose rows are those that were released.

    A hidden variable numbers the rows, and every column follows from it: one table of rows by codes for each column,
    in which the codes that no row has are one group. Where these tables would be too large, the most frequent rows
    are kept. If no row was released, the model expects none, and a release has none.
    """
    cells = sum(len(np.unique(column)) + 1 for column in released.codes.T)
    most, kept = max(1, MAX_ROW_CELLS // max(cells, 1)), np.arange(len(released.counts))
    if len(kept) > most:
        kept = np.sort(np.argsort(-released.counts, kind="stable")[:most])
    if not len(kept):
        # Each column is one group, however large.
        return Model(
            domain=domain,
            groupings={name: Grouping(name, (0,) * size) for name, size in domain.items()},
            potentials={},
            total=MIN_TOTAL,
            within={name: np.full(size, 1 / size) for name, size in domain.items()},
        )
    counts, hidden = released.counts[kept], unused_name("row", domain)
    potentials: dict[Clique, Table] = {(hidden,): np.log(counts)}
    groupings: dict[str, Grouping] = {}
    within: dict[str, Table] = {}
    for name, codes in zip(released.columns, released.codes[kept].T, strict=True):
        used, place = np.unique(codes, return_inverse=True)
        size = domain[name]
        if len(used) < size - 1:
            groups = np.full(size, len(used))
            groups[used] = np.arange(len(used))
            groupings[name] = Grouping(name, tuple(groups.tolist()))
            within[name] = 1 / np.bincount(groups)[groups]
            size = len(used) + 1
            codes = place.reshape(-1)
        table = np.full((size, len(counts)), FORBIDDEN)
        table[codes, np.arange(len(counts))] = 0.0
        potentials[(name, hidden)] = table
    return Model(
        domain=domain,
        groupings=groupings,
        potentials=potentials,
        total=float(counts.sum()),
        within=within,
        hidden={hidden: len(counts)},
    )


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
