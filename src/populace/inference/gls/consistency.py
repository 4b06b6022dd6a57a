"""Non-negative tables that agree with each other and are nearest to what was observed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.inference.factor import Table
from populace.inference.gls.consistency_projection import ConsistencyProjection
from populace.inference.gls.observations import Observation

_CHECK_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistentTables:
    """One table per observed clique, and a number below which no distribution's loss can be.

    `pulls` are the tables less what holds their empty cells at 0: how far these would fall below it.
    """

    tables: dict[Clique, Table]
    pulls: dict[Clique, Table]
    bound: float


def fit_consistent_tables(
    observations: Sequence[Observation],
    *,
    domain: Domain,
    total: float,
    tolerance: float = 1e-8,
    rounds: int = 500,
) -> ConsistentTables:
    """Minimise ½ Σ (x − y)² / variance over tables x ≥ 0 that agree where they overlap and have one total.

    Without the signs the answer is closed-form (`ConsistencyProjection`). The multipliers of x ≥ 0 are found
    by accelerated
    projected ascent of the dual: with s the multipliers times the variances, x = project(y + s) and s moves to
    max(0, s − x), which is Dykstra's (1983) alternation of least squares and cutting at 0, with Nesterov's momentum
    and restarts. Every dual value is a lower bound. On a tree without added edges agreeing tables always belong to
    a distribution and the bound is reached; otherwise it may be lower than any distribution's loss.
    Ends when ten rounds raise the bound by less than tolerance × bound; cells still below 0 are cut there.
    """
    kept = [o for o in observations if o.clique]
    ends = np.cumsum([0, *(o.values.size for o in kept)]).tolist()
    values = np.concatenate([np.zeros(0), *(o.values.ravel() for o in kept)])
    variance = np.concatenate([np.ones(0), *(o.variance.ravel() for o in kept)])
    agreement = ConsistencyProjection(kept, domain=domain, total=total)

    def views(flat: Table) -> list[Table]:
        return [flat[ends[i] : ends[i + 1]].reshape(o.values.shape) for i, o in enumerate(kept)]

    # The total's own observation has nothing to give: the total is fixed.
    constant = sum(
        0.5 * (total - float(o.values)) ** 2 / float(o.variance) for o in observations if not o.clique
    )
    lifted, ahead, momentum, bound = np.zeros(values.size), np.zeros(values.size), 1.0, -math.inf
    nearest = values.copy()
    for done in range(rounds):
        nearest = values + ahead
        agreement.project(nearest)
        if done % _CHECK_EVERY == 0:
            missed = nearest - values
            found = constant + float(((0.5 * missed * missed - ahead * nearest) / variance).sum())
            if found - bound <= tolerance * max(1.0, found):
                bound = max(bound, found)
                break
            bound = found
        risen = np.maximum(ahead - nearest, 0.0)
        if float((nearest * (risen - lifted) / variance).sum()) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = risen + ((momentum - 1) / following) * (risen - lifted)
        # Where the extrapolation went below 0 it is no multiplier and would spoil the bound.
        np.maximum(ahead, 0.0, out=ahead)
        lifted, momentum = risen, following
    cut = np.maximum(nearest, 0.0)
    return ConsistentTables(
        tables={o.clique: table for o, table in zip(kept, views(cut), strict=True)},
        pulls={o.clique: table for o, table in zip(kept, views(cut - lifted), strict=True)},
        bound=bound,
    )
