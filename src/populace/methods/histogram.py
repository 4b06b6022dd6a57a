"""`histogram`: one table of counts over all columns, with pure noise in every bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain, Marginal
from populace.core.progress import Progress
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table
from populace.inference.gls.observations import Observation, observe
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.discovery.discovery_config import DISCOVERY_CONFIG
from populace.methods.method import DeltaUse, Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_evenly
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema

# A model expects some rows; of so few, none is drawn unless they are asked for.
MIN_TOTAL = 0.25


def measure_histogram(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Count every combination of all columns, with integer Laplace noise in each bin.

    The model clamps bins at 0, and a release holds each combination as often as its bin then says.
    It ignores the workload.
    Cost: the whole ε in one question, no δ.
    Source: Dwork, McSherry, Nissim and Smith 2006; the geometric form Ghosh, Roughgarden and Sundararajan 2009.
    """
    progress("measuring the histogram", 0.0)
    return measure_evenly(oracle, [Marginal(tuple(oracle.domain))], share=Fraction(1))


def measure_histogram_exponential(
    oracle: Oracle, _workload: Workload, progress: Progress
) -> tuple[Measurement, ...]:
    """Count every combination of all columns by the exponential mechanism, each bin within 0 and `max_rows`.

    It ignores the workload.
    Cost: the whole ε in one question, no δ; noise of twice the scale that `measure_histogram` needs.
    Source: McSherry and Talwar 2007.
    """
    progress("measuring the histogram", 0.0)
    noise = oracle.budget.measure_bounded(
        Fraction(1), marginals=1, most=_require_max_rows(oracle.schema.max_rows)
    )
    return oracle.measure([Marginal(tuple(oracle.domain))], noise=noise)


def check_histogram(schema: Schema, _epsilon: Fraction, _delta: Fraction) -> None:
    """Refuse, from public facts alone, a histogram that would be too large."""
    bins = schema.domain.cells(schema.domain)
    most = LIMITS.max_histogram_bins
    if bins > most:
        raise UsageError(
            f"a histogram over {len(schema.domain)} columns has {bins:.4g} bins; the most is {most}.",
            hint="leave out or coarsen columns, or use --method auto; --method stability counts only rows that occur",
        )


def check_histogram_exponential(schema: Schema, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse, from public facts alone, also counts without a bound, and one so low that noise would hide them all."""
    check_histogram(schema, epsilon, delta)
    left = 1 - DISCOVERY_CONFIG.max_share if schema.columns_to_learn else Fraction(1)
    budget = Budget.of(epsilon, Fraction(0), unit=schema.unit)
    budget.measure_bounded(left, marginals=1, most=_require_max_rows(schema.max_rows))


def _require_max_rows(rows: int | None) -> int:
    if rows is None:
        raise UsageError(
            "the method 'histogram-exponential' needs a public bound on the number of rows.",
            hint="add max_rows = N under [table] of the schema, or use --method histogram",
        )
    return rows


def histogram_model(items: Sequence[Measurement], *, space: ModelSpace) -> Model:
    """Return the model of one histogram over all columns, with every bin clamped at 0.

    Its rows, drawn in as many as it expects, hold each combination exactly as often as its bin says.
    """
    domain = space.domain
    (seen,) = (each for each in observe_groups(items, domain=domain) if len(each.clique) == len(domain))
    allowed = RulePotentials(space).allowed_cells(seen.clique)
    table = np.where(allowed, np.maximum(np.rint(seen.values), 0.0), 0.0)
    return product_model(
        {seen.clique: table if table.any() else allowed.astype(float)}, domain, total=table.sum()
    )


def observe_groups(items: Sequence[Measurement], *, domain: Domain) -> list[Observation]:
    """Return what was measured of each group; tables by which columns were learnt lie inside one of them."""
    plain = [item for item in items if item.marginal.clique and not item.marginal.groupings]
    found = observe(plain, domain=domain, groupings={})
    return [each for each in found if not any(set(each.clique) < set(other.clique) for other in found)]


def product_model(tables: dict[Clique, Table], domain: Domain, *, total: float) -> Model:
    """Return the model in which tables of disjoint columns are independent; empty cells stay empty."""
    potentials = {}
    for clique, table in tables.items():
        logs = np.full(table.shape, FORBIDDEN)
        np.log(table, out=logs, where=table > 0)
        potentials[clique] = logs
    return Model(
        domain=domain, groupings={}, potentials=potentials, total=max(float(total), MIN_TOTAL), within={}
    )


HISTOGRAM = Method(
    name="histogram",
    title="Laplace histogram",
    reference="Dwork, McSherry, Nissim and Smith 2006",
    measure=measure_histogram,
    fit=lambda given: histogram_model(given.items, space=given.space),
    check=check_histogram,
    delta=DeltaUse.NONE,
    workload=WorkloadUse.NONE,
    learns_domains=False,
    meets_totals=False,
    own_model=True,
)
HISTOGRAM_EXPONENTIAL = replace(
    HISTOGRAM,
    name="histogram-exponential",
    title="Histogram by the exponential mechanism",
    reference="McSherry and Talwar 2007",
    measure=measure_histogram_exponential,
    check=check_histogram_exponential,
)
