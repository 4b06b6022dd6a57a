"""Verification of measurements: each, and each learnt domain, was paid for; intervals follow from the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.core.errors import UsageError
from populace.core.number_format import count_of
from populace.core.untrusted_files import altered_error, read_parquet
from populace.inference.gls.count_intervals import intervals
from populace.measurements.exact_counts import is_same_question, level_marginal
from populace.measurements.measured_cells import cell_types
from populace.measurements.measurements import Measurements
from populace.methods.registry import find_method
from populace.privacy.accounting.mechanisms import (
    WHOLE_ROWS,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialCount,
    PartitionSelection,
)
from populace.privacy.ledger.exact_totals import ExactTotals
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.release.verify.checks import check_budget
from populace.schema.columns.column import Origin
from populace.schema.columns.unknown_columns import as_declared
from populace.schema.schema import Schema

# Intervals are written to a thousandth of a row; machines differ in the last digits that they compute.
_TOLERANCE = 0.002
_INTERVAL_COLUMNS = ("estimate", "low", "high")


def check_measurements_paid(measurements: Measurements) -> str:
    """Every measured marginal has a booked answer with just its noise; those without noise are booked totals."""
    booked: Counter[Fraction] = Counter()
    for charged in measurements.record.spends:
        spend = charged.spend
        if spend.verb in ("measure", "discover") and isinstance(
            spend.mechanism, DiscreteGaussian | DiscreteLaplace | ExponentialCount
        ):
            booked[spend.mechanism.variance] += spend.answers
    noisy = [item for item in measurements.items if item.variance]
    check_plan(measurements)
    check_exact_totals(measurements)
    measured = Counter([*(i.variance for i in noisy), *(c.variance for c in measurements.rule_checks)])
    if measured - booked:
        raise altered_error("a measurement has noise that was not booked")
    released = measurements.released_rows
    mechanisms = [
        each.spend.mechanism
        for each in measurements.record.spends
        if (each.spend.verb, each.spend.what) == ("discover", WHOLE_ROWS)
    ]
    if (released is not None) is not bool(mechanisms):
        raise altered_error("rows were released that were not paid for, or paid for and not released")
    least = max(
        (mechanism.threshold for mechanism in mechanisms if isinstance(mechanism, PartitionSelection)),
        default=0,
    )
    if released is not None and released.counts.min(initial=least + 1) <= least:
        raise altered_error("a row was released that is not above the threshold")
    rows = "" if released is None else f", {len(released.counts)} different rows"
    return f"{measurements.describe()}{rows}: all booked with their noise"


def check_plan(measurements: Measurements) -> None:
    """Refuse a run that is accounted as a plan fixed in advance by a method that chooses its questions as it goes."""
    record = measurements.record
    if record.plan is not Adaptivity.FIXED:
        return
    try:
        fixed = find_method(record.method, schema=measurements.schema).fixed_plan
    except UsageError:
        fixed = False
    if not fixed:
        raise altered_error(
            f"the run is booked as a plan fixed in advance, which the method {record.method!r} is not"
        )


def check_exact_totals(measurements: Measurements) -> None:
    """Refuse exact counts that were not booked, or on which the neighbours of the run need not agree.

    The relation is the schema's: the record names the units whose totals are exact by a digest of them.
    """
    schema, record = measurements.schema, measurements.record
    if ExactTotals.of(schema) != record.exact or schema.unit != record.unit:
        raise altered_error("the record is for other exact totals, or other neighbours, than the schema")
    booked = {totals.level: level_marginal(schema, totals.level) for totals in record.invariants}
    exact = [item.marginal for item in measurements.items if not item.variance]
    for marginal in exact:
        if not any(is_same_question(marginal, each) for each in booked.values()):
            raise altered_error("exact counts are published that were not booked")
    for level, marginal in booked.items():
        if not any(is_same_question(marginal, each) for each in exact):
            raise altered_error(f"the exact totals by {level} were booked and are not there")


def check_earlier(measurements: Measurements) -> str:
    """Every earlier run was one of the same account, kept its own budget, and paid for its own tables, once."""
    own, *others = measurements.runs
    for each in others:
        if (each.record.dataset, each.record.unit) != (own.record.dataset, own.record.unit):
            raise altered_error("an earlier release was paid for by another account, or protects others")
        if each.record.rehearsal:
            raise altered_error("an earlier release is a rehearsal, so nothing in it is private")
        check_budget(each.record)
        check_measurements_paid(each)
    if len({each.record.run for each in measurements.runs}) <= len(others):
        raise altered_error("a run is there twice: its tables count twice")
    return f"{count_of(len(others), 'earlier release')} of the account, all paid for"


def check_domains_paid(schema: Schema, *, records: Sequence[RunRecord]) -> str:
    """Every domain that is called learnt was paid for, and every one that was paid for is called learnt."""
    released = {
        name
        for name, column in schema.columns.items()
        if column.origin is Origin.LEARNT or as_declared(column) != column
    }
    spends = [charged.spend for record in records for charged in record.spends]
    asked = {spend.what for spend in spends if spend.verb == "discover"}
    paid = {name for name in schema.columns if asked & {f"values of {name!r}", f"bins of {name!r}"}}
    if released != paid:
        raise altered_error(
            f"the domain of {min(released ^ paid)!r} does not come from where the codebook says"
        )
    return f"{len(released)} learnt domains, all paid for" if released else "none was learnt"


def check_intervals(folder: Path, *, measurements: Measurements) -> str:
    """Compute the intervals of a folder again; refuse others, or none, and say how many counts have one."""
    expected = intervals(measurements).columns()
    written = read_intervals(folder, measurements=measurements)
    for name, tables in expected.items():
        again = np.concatenate([table.ravel() for table in tables])
        rounded = np.array_equal(written[name], written[name].round(3))
        if not rounded or not np.allclose(written[name], again, rtol=1e-7, atol=_TOLERANCE):
            raise altered_error(f"“{name}” of measurements.parquet does not follow from the counts")
    return f"the intervals of {len(next(iter(written.values())))} counts follow from all counts together"


def read_intervals(folder: Path, *, measurements: Measurements) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns beside the counts of a folder, as they are."""
    path = folder / "measurements.parquet"
    types = cell_types(path, labelled=measurements.labelled)
    fixed = {name: kind for name, kind in types.items() if name in ("marginal", "cell", "count")}
    saved = read_parquet(path, types=fixed | dict.fromkeys(_INTERVAL_COLUMNS, pa.float64()))
    return {name: saved[name].to_numpy() for name in _INTERVAL_COLUMNS}
