"""Verification of what was paid for: every measurement and every learnt domain has its price in the record."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from populace.core.untrusted_files import altered_error
from populace.measurements.measurements import Measurements, describe_marginals
from populace.privacy.accounting.mechanisms import (
    WHOLE_ROWS,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialCount,
    PartitionSelection,
)
from populace.privacy.ledger.run_record import RunRecord
from populace.schema.columns.column import Origin
from populace.schema.columns.unknown_columns import as_declared
from populace.schema.schema import Schema


def check_measurements_paid(measurements: Measurements) -> str:
    """Every measured marginal has a booked answer with just its noise."""
    booked: Counter[Fraction] = Counter()
    for charged in measurements.record.spends:
        spend = charged.spend
        if spend.verb in ("measure", "discover") and isinstance(
            spend.mechanism, DiscreteGaussian | DiscreteLaplace | ExponentialCount
        ):
            booked[spend.mechanism.variance] += spend.answers
    measured = Counter(item.variance for item in measurements.items)
    if measured - booked:
        raise altered_error("a measurement has noise that was not booked")
    released = measurements.released_rows
    mechanisms = [
        each.spend.mechanism
        for each in measurements.record.spends
        if (each.spend.verb, each.spend.what) == ("discover", WHOLE_ROWS)
    ]
    if (released is not None) is not bool(mechanisms):
        raise altered_error("rows were told that were not paid for, or paid for and not told")
    least = max(
        (mechanism.threshold for mechanism in mechanisms if isinstance(mechanism, PartitionSelection)),
        default=0,
    )
    if released is not None and released.counts.min(initial=least + 1) <= least:
        raise altered_error("a row was told that is not above the threshold")
    rows = "" if released is None else f", {len(released.counts)} different rows"
    return f"{describe_marginals(item.marginal for item in measurements.items)}{rows}: all booked with their noise"


def check_domains_paid(schema: Schema, *, record: RunRecord) -> str:
    """Every domain that is called learnt was paid for, and every one that was paid for is called learnt."""
    released = {
        name
        for name, column in schema.columns.items()
        if column.origin is Origin.LEARNT or as_declared(column) != column
    }
    asked = {charged.spend.what for charged in record.spends if charged.spend.verb == "discover"}
    paid = {name for name in schema.columns if asked & {f"values of {name!r}", f"bins of {name!r}"}}
    if released != paid:
        raise altered_error(
            f"the domain of {min(released ^ paid)!r} does not come from where the codebook says"
        )
    return f"{len(released)} learnt domains, all paid for" if released else "none was learnt"
