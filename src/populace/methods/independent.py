"""`independent`: the number of rows and every 1-way marginal, nothing about how columns go together."""

from __future__ import annotations

from fractions import Fraction

from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.measurements.measurements import Measurement
from populace.methods.method import Method, WorkloadUse
from populace.methods.oracle import Oracle
from populace.methods.selection.measure_batch import measure_all_columns, measure_evenly
from populace.methods.workload import Workload

TOTAL_SHARE = Fraction(1, 50)


def measure_independent(oracle: Oracle, _workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Spend everything on the number of rows and the 1-way marginals.

    The right choice when the table is so small, or ε so low, that noise would drown every pair.
    It ignores the workload.
    Cost: the whole budget, in a plan fixed in advance.
    """
    progress("measuring columns", 0.0)
    return measure_columns(oracle, share=Fraction(1))


def measure_columns(oracle: Oracle, *, share: Fraction) -> tuple[Measurement, ...]:
    """Measure the number of rows and all 1-ways with a share of the budget; the number comes first."""
    total = measure_evenly(oracle, [Marginal(())], share=share * TOTAL_SHARE)
    return total + measure_all_columns(oracle, share=share * (1 - TOTAL_SHARE))


INDEPENDENT = Method(
    name="independent",
    title="Independent columns",
    reference="populace; docs/methods/independent.md",
    measure=measure_independent,
    workload=WorkloadUse.NONE,
    single_columns=True,
)
