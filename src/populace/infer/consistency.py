"""Tables that are non-negative and nearly agree with each other, close to the least-squares estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from populace.infer.effects import estimate
from populace.infer.observations import Observation, Table
from populace.infer.projection import norm_sub
from populace.marginals import Clique, Domain

_ROUNDS = 8
# No cell is taken to be emptier than this share of an average cell: potentials stay finite.
_FLOOR = 1e-3


def consistent_tables(
    observations: Sequence[Observation], *, cliques: Sequence[Clique], domain: Domain, total: float
) -> list[Table]:
    """Return positive probability tables of some cliques that nearly agree on what they share.

    Alternates non-negativity, table by table, with least squares over all tables, and raises empty cells to a floor.
    A clique that the observations do not determine gets the uniform table.
    """
    current = list(observations)
    for _ in range(_ROUNDS):
        effects = estimate(current, domain=domain, total=total)
        current = [
            replace(o, values=norm_sub(effects.marginal(o.clique), total=total)) if o.clique else o
            for o in current
        ]
    effects = estimate(current, domain=domain, total=total)
    tables = []
    for clique in cliques:
        cells = domain.cells(clique)
        table = effects.marginal(clique) if effects.covers(clique) else np.ones(domain.shape(clique))
        raised = np.maximum(table, _FLOOR * total / cells)
        tables.append(raised / raised.sum())
    return tables
