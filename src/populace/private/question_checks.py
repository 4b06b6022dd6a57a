"""What the barrier refuses from public facts alone: nothing is charged and nothing read for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Candidates, Counts, Domain, Marginal
from populace.privacy.accounting.fixed_point import fixed_point_steps


def check_marginals(marginals: Sequence[Marginal], *, domain: Domain) -> None:
    """Refuse marginals that cannot be counted."""
    if not marginals:
        raise UsageError("the question names no marginal.", hint="ask for at least one")
    for marginal in marginals:
        unknown = [name for name in marginal.clique if name not in domain]
        if unknown:
            raise UsageError(
                f"the schema has no column {unknown[0]!r}.", hint="ask for columns of the schema"
            )
        for grouping in marginal.groupings:
            if len(grouping.groups) != domain[grouping.column]:
                raise UsageError(
                    f"a grouping of {grouping.column!r} covers {len(grouping.groups)} codes; "
                    f"the column has {domain[grouping.column]}.",
                    hint="give every code of the column exactly one group",
                )
        cells = math.prod(marginal.shape(domain))
        if cells > LIMITS.max_counted_cells:
            raise UsageError(
                f"marginal {marginal} has {cells} cells; the most is {LIMITS.max_counted_cells}.",
                hint="coarsen or drop one of its columns",
            )


def check_candidates(candidates: Candidates, *, domain: Domain, among: Sequence[int] | None = None) -> None:
    """Refuse candidates that cannot be compared with their estimates, and a choice among none of them."""
    if among is not None and not (among and all(0 <= number < len(candidates.marginals) for number in among)):
        raise UsageError("there is nothing to choose from.", hint="name at least one of the candidates")
    check_marginals(candidates.marginals, domain=domain)
    for marginal, estimate in zip(candidates.marginals, candidates.estimates, strict=True):
        if estimate.shape != marginal.shape(domain):
            raise UsageError(
                f"the estimate of {marginal} has shape {estimate.shape}.",
                hint=f"give it the marginal's own shape, {marginal.shape(domain)}",
            )


def check_groups(groups: Counts, *, column: str, size: int) -> None:
    """Refuse groups of a column's codes that are not one for each."""
    if groups.shape != (size,) or groups.dtype != np.int64:
        raise UsageError(
            f"the groups of column {column!r} are not one for each of its {size} codes.",
            hint="give a one-dimensional array of int64, one number for every code",
        )
    if groups.min() < 0 or groups.max() >= groups.size:
        raise UsageError(
            f"the groups of column {column!r} run from {groups.min()} to {groups.max()}.",
            hint="number them from 0, at most as many as there are codes",
        )


def describe(asked: Sequence[object], many: str = "marginals") -> str:
    """Return what is asked as the books have it: the name of a column is never taken for a sum."""
    if len(asked) > 1:
        return f"{len(asked)} {many}"
    text = str(asked[0])
    return f"counts of {text}" if many == "marginals" and fixed_point_steps("measure", text) > 1 else text
