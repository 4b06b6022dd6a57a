"""Best counts of marginals from all tables that may speak for them, with exact variances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property

import numpy as np

from populace.core.marginals import Domain, Grouping, Lookup, Marginal
from populace.inference.factor import Table, sum_onto
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.column_estimates import ColumnEstimate, ColumnEvidence
from populace.inference.gls.gls import GLSEstimate, estimate_gls
from populace.inference.gls.observations import Observation, common_groupings, observe, separable_part
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import group_repeats, mean_counts

# A table of k columns has 2^k effects; one of more columns than this speaks for itself, and for the number of rows.
MAX_SEPARABLE_COLUMNS = 8


class GroupingOrigin(Enum):
    """How groupings came about: chosen by noisy counts, or fixed before anything was measured."""

    CHOSEN = "chosen"
    FIXED = "fixed"


class BlueEstimates:
    """Least squares over measurements and over `certain` ones, which are public and all but free of noise.

    Where groups were chosen by the noisy counts of a column, codes are merged because their noise was low, and
    the sum of these counts is too low by more than its variance says. So these counts speak for the codes of their
    column, and tables of groups, which were measured after the choice, for the groups; the two meet only in the number
    of rows. In the same way tables by which bins were learnt give way to tables that were measured on the bins.
    Where groups were fixed in advance, every table speaks for everything. What lies inside a table of very many columns
    is summed up from that table alone.
    """

    def __init__(
        self,
        items: Sequence[Measurement],
        *,
        domain: Domain,
        certain: Sequence[Measurement] = (),
        rows: float | None = None,
        groups: GroupingOrigin = GroupingOrigin.CHOSEN,
    ) -> None:
        self.groupings = common_groupings(items)
        self._asked = tuple(items)
        # Of tables that see a column in fewer groups than others do, what they add up to speaks for those.
        self._items, _ = split_coarse_tables(items, domain=domain, groupings=self.groupings)
        self._wide = tuple(item for item in self._items if _is_wide(item))
        self._domain = domain
        self._certain = tuple(certain)
        self._rows = rows
        self._groups = groups
        self._of_codes: dict[str, GLSEstimate] = {}

    def estimate(self, marginal: Marginal) -> tuple[Table, Table] | None:
        """Return estimates and their variances in the axes of a marginal, or None where they are not determined."""
        clique = marginal.clique
        for item in self._wide if clique and not marginal.groupings else ():
            if set(clique) <= set(item.marginal.clique):
                values = sum_onto(item.counts, item.marginal.clique, clique).astype(np.float64)
                noise = float(item.variance) * (item.counts.size // values.size)
                return values, np.full(values.shape, noise)
        if len(clique) == 1:
            name, own = clique[0], marginal.grouping(clique[0])
            effects = self._joint if own == self.groupings.get(name) else self._codes(name)
            return effects.sums(name, cell_lookup(own, self._domain[name]))
        ordered = tuple(name for name in self._domain if name in clique)
        alike = all(marginal.grouping(name) == self.groupings.get(name) for name in clique)
        if alike and self._joint.covers(ordered):
            axes = [ordered.index(name) for name in clique]
            values, variance = self._joint.marginal(ordered), self._joint.variance(ordered)
            return values.transpose(axes), variance.transpose(axes)
        # The marginal's own tables, where others merge codes that it keeps apart.
        same = self._alike.get(marginal)
        if not same:
            return None
        values, known = mean_counts(same)
        return values, np.full(values.shape, float(known))

    @cached_property
    def _joint(self) -> GLSEstimate:
        """Least squares over the number of rows, tables of several columns, and columns alone in the same groups."""
        several = [i for i in (*self._items, *self._certain) if len(i.marginal.clique) != 1]
        observed = observe(several, domain=self._domain, groupings=self.groupings)
        tables = (item for item in (*self._items, *self._certain) if not _is_wide(item))
        names = {name for item in tables for name in item.marginal.clique}
        return estimate_gls(
            [*(separable_part(o, widest=MAX_SEPARABLE_COLUMNS) for o in observed), *self._sums()],
            domain=self._domain.group(self.groupings.values()),
            total=self._rows,
            own={
                name: ColumnEvidence.of_tables(
                    self._speaking(name, self.groupings.get(name)),
                    size=self._domain[name],
                    grouping=self.groupings.get(name),
                )
                for name in sorted(names)
            },
        )

    def _sums(self) -> Iterator[Observation]:
        """Yield what tables that do not speak for groups still say about the number of rows."""
        for item in self._items if self._groups is GroupingOrigin.CHOSEN else ():
            clique = item.marginal.clique
            if len(clique) == 1 and clique[0] in self.groupings and not item.marginal.groupings:
                noise = item.counts.size * float(item.variance)
                yield Observation((), np.asarray(float(item.counts.sum())), np.asarray(noise))

    def _codes(self, name: str) -> GLSEstimate:
        """Return least squares for the codes of a column whose groups were chosen: its own counts and the rows.

        The estimate of the rows holds the sum of these counts already, and nothing else of them.
        """
        if self._groups is GroupingOrigin.FIXED or name not in self.groupings:
            return self._joint
        if name not in self._of_codes:
            size = self._domain[name]
            own = ColumnEvidence.of_tables(self._speaking(name, None), size=size, grouping=None)
            self._of_codes[name] = replace(
                self._joint,
                domain=Domain({name: size}),
                columns={name: ColumnEstimate.solve(own, weight=0.0, effect=np.zeros(size))},
                interactions={},
            )
        return self._of_codes[name]

    def _speaking(self, name: str, grouping: Grouping | None) -> list[Measurement]:
        """Return the tables of a column alone that may speak for it in some groups, or for its codes."""
        own = [item for item in self._items if item.marginal.clique == (name,)]
        certain = [item for item in self._certain if item.marginal.clique == (name,)]
        if self._groups is GroupingOrigin.FIXED:
            return own + certain
        same = [item for item in own if item.marginal.grouping(name) == grouping]
        # Bins that nothing was measured on know only what the tables say by which they were learnt.
        return (same or (own if grouping is None else [])) + certain

    @cached_property
    def _alike(self) -> dict[Marginal, list[Measurement]]:
        return {same[0].marginal: same for same in group_repeats(self._asked)}


def cell_lookup(grouping: Grouping | None, size: int) -> Lookup:
    """Return for every code the cell that it falls into: its group, or one of its own."""
    return np.arange(size) if grouping is None else grouping.lookup


def _is_wide(item: Measurement) -> bool:
    return len(item.marginal.clique) > MAX_SEPARABLE_COLUMNS and not item.marginal.groupings
