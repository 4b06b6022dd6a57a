"""Public totals carried onto the domain of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.constraints.totals_feasibility import check_totals_feasible
from populace.inference.factor import Table, sum_onto
from populace.inference.gls.observations import Observation, average_observations, sum_groups
from populace.inference.model_space import ModelSpace
from populace.schema.conditions.rules import Allowed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTotals:
    """What is known for certain: the number of rows, counts over cliques, and counts of codes inside groups."""

    rows: int | None = None
    tables: Mapping[Clique, Table] = field(default_factory=dict)
    codes: Mapping[str, Table] = field(default_factory=dict)

    @property
    def empty(self) -> dict[Clique, Allowed]:
        """For every table with empty cells: which of its cells hold rows."""
        return {clique: table > 0 for clique, table in self.tables.items() if (table == 0).any()}

    def add_to_observations(
        self, observations: Sequence[Observation], *, weight: float
    ) -> tuple[Observation, ...]:
        """Return observations with the known counts among them, weighing so much more than the most precise."""
        found = {o.clique: o for o in observations}
        variance = min((float(o.variance.min()) for o in observations), default=1.0) / weight
        for clique, table in self.tables.items():
            known = Observation(clique, table, np.full(table.shape, variance))
            found[clique] = average_observations([found[clique], known]) if clique in found else known
        return tuple(found.values())


def carry_totals(space: ModelSpace, *, allowed: Callable[[Clique], Allowed]) -> KnownTotals:
    """Carry totals onto the grouped domain; refuse totals that contradict each other or the rules."""
    domain, groupings = space.domain, space.groupings
    rows: int | None = None
    tables: dict[Clique, Table] = {}
    codes: dict[str, Table] = {}
    place = {column: i for i, column in enumerate(domain)}
    for known in space.totals:
        if known.counts.shape != domain.shape(known.clique) or (known.counts < 0).any():
            raise UsageError(
                f"the totals by {known.clique} do not fit the domain.", hint="give one count ≥ 0 per cell"
            )
        found = int(known.counts.sum())
        if rows is not None and rows != found:
            raise UsageError(
                f"one table of totals sums to {rows} rows, another to {found}.", hint="correct one of them"
            )
        rows = found
        clique = tuple(sorted(known.clique, key=place.__getitem__))
        table = sum_onto(known.counts.astype(np.float64), known.clique, clique)
        merged = [name for name in clique if name in groupings]
        if merged and len(clique) > 1:
            raise UsageError(
                f"the totals by {clique} count codes of {merged[0]!r} that measurements group.",
                hint="measure columns with totals code by code",
            )
        for name in merged:
            codes[name] = table
            table = sum_groups(table, groupings[name], axis=0)
        if (table[~allowed(clique)] > 0).any():
            raise UsageError(
                f"the totals by {clique} count rows that a rule forbids.",
                hint="correct the totals or the rule",
            )
        if clique and rows > 0:
            tables[clique] = table
    return KnownTotals(rows=rows, tables=tables, codes=codes)


def check_constraints(space: ModelSpace) -> None:
    """Refuse rules that no row can keep, and totals that no table can have under them.

    Rules that need a model beyond memory even when no pair is measured are refused as well.
    """
    potentials = RulePotentials(space)
    potentials.structure([(name,) for name in space.domain])
    if space.totals:
        carry_totals(space, allowed=potentials.allowed_cells)
        check_totals_feasible(space)
