"""`measure_histogram`: one table of counts over all columns, with pure noise in every bin."""

from __future__ import annotations

from fractions import Fraction

from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.core.progress import Progress
from populace.measurements.measurements import Measurement
from populace.methods.discovery.domain_discovery import MAX_DISCOVERY_SHARE
from populace.methods.oracle import Oracle
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema

# Every bin is counted, drawn for, saved and shown with its interval.
MAX_BINS = 2**22


def measure_histogram(
    oracle: Oracle,
    *,
    workload: Workload,  # noqa: ARG001 (it measures all columns together, whatever is wanted)
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Count every combination of all columns, with integer Laplace noise in each bin.

    The model clamps bins at 0, and a release holds each combination as often as its bin then says.
    It ignores the workload.
    Cost: the whole ε in one question, no δ.
    Source: Dwork, McSherry, Nissim and Smith 2006; the geometric form Ghosh, Roughgarden and Sundararajan 2009.
    """
    progress("measuring the histogram", 0.0)
    noise = oracle.budget.measure_noise(Fraction(1), marginals=1)
    return oracle.measure([Marginal(tuple(oracle.domain))], noise=noise)


def measure_histogram_exponential(
    oracle: Oracle,
    *,
    workload: Workload,  # noqa: ARG001 (it measures all columns together, whatever is wanted)
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Count every combination of all columns by the exponential mechanism, each bin within 0 and `max_rows`.

    It ignores the workload.
    Cost: the whole ε in one question, no δ; noise of twice the scale that `measure_histogram` needs.
    Source: McSherry and Talwar 2007.
    """
    progress("measuring the histogram", 0.0)
    noise = oracle.budget.measure_bounded(Fraction(1), marginals=1, most=_require_max_rows(oracle.max_rows))
    return oracle.measure([Marginal(tuple(oracle.domain))], noise=noise)


def check_histogram(
    schema: Schema,
    *,
    epsilon: Fraction,  # noqa: ARG001 (its bins do not depend on it)
    delta: Fraction,  # noqa: ARG001
) -> None:
    """Refuse, from public facts alone, a histogram that would be too large or whose bins are not known yet."""
    _check_bins(schema, method="histogram")


def _check_bins(schema: Schema, *, method: str) -> None:
    check_domains_declared(schema, method=method)
    check_no_totals(schema, method=method)
    bins = schema.domain.cells(schema.domain)
    if bins > MAX_BINS:
        raise UsageError(
            f"a histogram over {len(schema.domain)} columns has {bins:.4g} bins; the most is {MAX_BINS}.",
            hint="leave out or coarsen columns, or use --method auto; --method stability counts only rows that occur",
        )


def check_histogram_exponential(schema: Schema, *, epsilon: Fraction, delta: Fraction) -> None:  # noqa: ARG001
    """Refuse, from public facts alone, also counts without a bound, and one so low that noise would hide them all."""
    _check_bins(schema, method="histogram-exponential")
    left = 1 - MAX_DISCOVERY_SHARE if schema.columns_to_learn else Fraction(1)
    budget = Budget.of(epsilon, Fraction(0), unit=schema.unit)
    budget.measure_bounded(left, marginals=1, most=_require_max_rows(schema.max_rows))


def check_domains_declared(schema: Schema, *, method: str) -> None:
    """Refuse columns whose domain has to be learnt, by a method whose tables must be known before it spends."""
    if schema.unknown:
        raise UsageError(
            f"the method {method!r} needs every domain, and that of column {schema.unknown[0]!r} is to be learnt.",
            hint="declare its values, a width or edges, or use --method auto",
        )


def check_no_totals(schema: Schema, *, method: str) -> None:
    """Refuse public totals, by a method whose rows cannot be held to them."""
    if schema.totals:
        raise UsageError(
            f"the method {method!r} cannot meet the public totals of the schema.",
            hint="take [[totals]] out, or use --method auto",
        )


def _require_max_rows(rows: int | None) -> int:
    if rows is None:
        raise UsageError(
            "the method 'histogram-exponential' needs a public bound on the number of rows.",
            hint="add max_rows = N under [table] of the schema, or use --method histogram",
        )
    return rows
