"""What the measurements of all rounds so far say together, for whoever chooses and fits by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from populace.core.marginals import Clique, Grouping
from populace.inference.constraints.public_totals import carry_totals
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table, add_potential
from populace.inference.fit.projection import share_by_group
from populace.inference.gls.gls import estimate_gls
from populace.inference.gls.observations import Observation, observe
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.conditions.rules import Allowed


class RoundEstimate(ABC):
    """What is known so far, on the domain in which grouped columns are seen through their grouping.

    `add` measurements, `refit`, and ask for tables: expected counts of any columns, those of a group together.
    Measurements of one clique are merged.
    """

    def __init__(self, space: ModelSpace) -> None:
        self._space = space
        self.groupings, self.domain = space.groupings, space.grouped_domain
        self.potentials = RulePotentials(space)
        self._known = carry_totals(space, allowed=self.potentials.allowed_cells)
        self._items: dict[frozenset[str], list[Measurement]] = {}
        self._observed: dict[Clique, Observation] = {}
        self.total = 1.0

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Take in measurements; they count from the next refit on."""
        touched: dict[frozenset[str], None] = {}
        for item in measurements:
            key = frozenset(item.marginal.clique)
            self._items.setdefault(key, []).append(item)
            touched[key] = None
        again = [item for key in touched for item in self._items[key]]
        for seen in observe(again, domain=self._space.domain, groupings=self.groupings):
            allowed = self.potentials.allowed_cells(seen.clique)
            # A cell in which no row can be holds noise alone.
            self._observed[seen.clique] = (
                seen if allowed.all() else replace(seen, values=seen.values * allowed)
            )

    @property
    def observed(self) -> tuple[Observation, ...]:
        """What is fitted at the next refit: one table for every clique, by number and order of columns."""
        order = {name: i for i, name in enumerate(self.domain)}
        cliques = sorted(self._observed, key=lambda clique: (len(clique), [order[name] for name in clique]))
        return tuple(self._observed[clique] for clique in cliques)

    @abstractmethod
    def refit(self) -> None:
        """Fit what is known to all measurements so far."""

    @abstractmethod
    def table(self, clique: Clique) -> Table:
        """Return the expected counts of any columns, as of the last refit."""

    @abstractmethod
    def fits(self, clique: Clique, *, max_cells: int) -> bool:
        """Say whether it could take in a table without becoming larger than so many cells."""

    def tables(self, cliques: Iterable[Clique]) -> dict[Clique, Table]:
        """Return the expected counts of many cliques."""
        return {clique: self.table(clique) for clique in cliques}

    def _estimate_total(self) -> float:
        """Return the number of rows: the public one, or its least-squares estimate; at least 1."""
        if self._known.rows is None:
            return max(1.0, estimate_gls(self.observed, domain=self.domain).total)
        return max(1.0, float(self._known.rows))

    def _make_model(
        self, potentials: dict[Clique, Table], *, hard: Mapping[Clique, Allowed], hidden: Mapping[str, int]
    ) -> Model:
        """Return a model of potentials and of hard tables, with public totals and shares of codes inside groups."""
        for clique, allowed in hard.items():
            add_potential(potentials, clique, np.where(allowed, 0.0, FORBIDDEN))
        items = [item for same in self._items.values() for item in same]
        return Model(
            domain=self._space.domain,
            hidden=hidden,
            exact=tuple(self._known.tables),
            groupings=self.groupings,
            potentials=potentials,
            total=self.total,
            within={
                name: estimate_group_shares(
                    items, grouping, totals=self.table((name,)), known=self._known.codes.get(name)
                )
                for name, grouping in self.groupings.items()
            },
        )


def estimate_group_shares(
    measurements: Sequence[Measurement], grouping: Grouping, *, totals: Table, known: Table | None = None
) -> Table:
    """Return, for every code of a column, its share of its group's rows; the shares of a group sum to 1.

    Uses every measurement that saw the column's codes themselves, averaged with weights 1 / variance, and takes in
    each group the nearest non-negative counts with the group's total. Without such a measurement shares are equal.
    Counts of all codes that are `known` decide alone.
    """
    column = grouping.column
    values, precisions = [], []
    for measurement in measurements:
        clique = measurement.marginal.clique
        if column in clique and measurement.marginal.grouping(column) is None:
            others = tuple(axis for axis, name in enumerate(clique) if name != column)
            seen = measurement.counts.sum(axis=others)
            precision = len(grouping.groups) / (float(measurement.variance) * measurement.counts.size)
            values.append(precision * seen)
            precisions.append(precision)
    # Sorted sums: the order of the measurements must not matter.
    counts = (
        np.sort(values, axis=0).sum(axis=0) / np.sum(np.sort(precisions))
        if values
        else np.zeros(len(grouping.groups))
    )
    return share_by_group(counts if known is None else known, grouping.members, totals=totals)
