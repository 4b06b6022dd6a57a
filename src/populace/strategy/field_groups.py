"""`field-groups`: columns that belong together are counted together, and nothing is learnt about which do."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from populace.errors import UsageError
from populace.marginals import Clique, Domain, Marginal
from populace.measurements import Measurement
from populace.progress import Progress
from populace.schema.schema import Schema
from populace.strategy.histogram import MOST_BINS, check_declared
from populace.strategy.oracle import Oracle
from populace.strategy.workload import Workload

# Neighbouring columns are put together up to so many bins where nobody says what belongs together.
NEIGHBOUR_BINS = 1000
# A table of so many columns has 2^10 effects, which a fit under rules goes through.
MOST_RULED = 10


def field_groups(
    oracle: Oracle,
    *,
    workload: Workload,  # noqa: ARG001 (the groups say what is wanted)
    progress: Progress,
) -> tuple[Measurement, ...]:
    """Count every group of columns, with integer Laplace noise of scale groups/ε in each bin.

    The model cuts bins that noise alone could fill, and a row draws one bin of each group. It ignores the workload.
    Cost: the whole ε in equal parts, no δ.
    Source: an entry to the NIST differential privacy synthetic data challenge of 2018, with field groups from public
    knowledge.
    """
    progress("measuring groups of columns", 0.0)
    groups = groups_of(oracle.domain, declared=oracle.groups)
    noise = oracle.budget.measure_noise(Fraction(1), marginals=len(groups))
    return oracle.measure([Marginal(group) for group in groups], noise=noise)


def groups_of(domain: Domain, *, declared: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return the groups that the schema declares, with every other column alone; or neighbours, if it declares none.

    >>> groups_of(Domain({"a": 10, "b": 50, "c": 3, "d": 2000}), declared=[])
    (('a', 'b'), ('c',), ('d',))
    >>> groups_of(Domain({"a": 10, "b": 50, "c": 3}), declared=[("c", "a")])
    (('a', 'c'), ('b',))
    """
    if declared:
        grouped = {name for group in declared for name in group}
        groups = [tuple(name for name in domain if name in group) for group in declared]
        return (*groups, *((name,) for name in domain if name not in grouped))
    found: list[Clique] = []
    for name in domain:
        if found and domain.cells((*found[-1], name)) <= NEIGHBOUR_BINS:
            found[-1] = (*found[-1], name)
        else:
            found.append((name,))
    return tuple(found)


def check_field_groups(
    schema: Schema,
    *,
    epsilon: Fraction,  # noqa: ARG001 (its groups do not depend on it)
    delta: Fraction,  # noqa: ARG001
) -> None:
    """Refuse, from public facts alone, groups that would be too large or whose bins are not known yet."""
    check_declared(schema, method="field-groups")
    domain = schema.domain
    groups = groups_of(domain, declared=schema.groups)
    if (schema.rules.rules or schema.totals) and max(map(len, groups)) > MOST_RULED:
        raise UsageError(
            f"a group of {max(map(len, groups))} columns cannot be fitted under rules; the most is {MOST_RULED}.",
            hint="declare smaller groups under [table] of the schema",
        )
    bins = sum(map(domain.cells, groups))
    if bins > MOST_BINS:
        widest = max(groups, key=domain.cells)
        raise UsageError(
            f"the groups have {bins:.4g} bins together; the most is {MOST_BINS}. "
            f"{' × '.join(widest)} has {domain.cells(widest):.4g} of them.",
            hint="put fewer columns into a group, or coarsen them",
        )
