"""The space that a model lives in: columns and codes, rules, public totals, and groups of codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain, Grouping
from populace.schema.conditions.rules import NO_RULES, Rules, Totals
from populace.schema.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSpace:
    """The rows that a model can give: codes of a domain that break no rule and meet public totals.

    `groupings` say how the model sees columns whose codes share groups.

    >>> space = ModelSpace(domain=Domain({"a": 3, "b": 2})).group([Grouping("a", (0, 1, 1))])
    >>> dict(space.grouped_domain), space.rows
    ({'a': 2, 'b': 2}, None)
    """

    domain: Domain
    rules: Rules = NO_RULES
    totals: tuple[Totals, ...] = ()
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    layers: tuple[tuple[frozenset[str], ...], ...] = ()
    """Sets of columns that belong together, those that do most first: a model holds tables inside one before others."""
    alike: Mapping[Clique, Clique] = field(default_factory=dict)
    """Pairs of columns that are taken to have the same odds ratios, each with the name of its kind."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """How many codes of each ordered column, the first ones, stand in their natural order."""

    successive: Mapping[Clique, Clique] = field(default_factory=dict)
    """Pairs in an order, with the name of their kind: one of a kind is taken to have the odds ratios of those before it
    unless its own counts say otherwise."""
    ordered: Mapping[str, int] = field(default_factory=dict)
    """How many codes of a column, the first ones, stand in an order. Coarse counts are interpolated along it."""

    @classmethod
    def of(cls, schema: Schema) -> ModelSpace:
        """Return the space of a schema's table, without groups."""
        levels = {name: column.levels for name, column in schema.variables.items() if column.ordered}
        return cls(domain=schema.domain, rules=schema.rules, totals=schema.totals, levels=levels)

    def group(self, groupings: Iterable[Grouping]) -> ModelSpace:
        """Return the same space seen in some groups."""
        return replace(self, groupings={grouping.column: grouping for grouping in groupings})

    @cached_property
    def grouped_domain(self) -> Domain:
        """The columns, grouped where they are."""
        return self.domain.group(self.groupings.values())

    @cached_property
    def group_orders(self) -> dict[str, npt.NDArray[np.int64]]:
        """The groups of each ordered column that hold values, in the order of these values.

        A group that is not one stretch of values has no place in the order.

        >>> space = ModelSpace(domain=Domain({"a": 5}), levels={"a": 4}).group([Grouping("a", (1, 1, 0, 2, 2))])
        >>> space.group_orders["a"].tolist()
        [1, 0, 2]
        """
        found = {}
        for name, levels in self.levels.items():
            if name not in self.domain:
                # Recoded together with other columns.
                continue
            groups = self.groupings[name].lookup if name in self.groupings else np.arange(self.domain[name])
            inside = groups[:levels]
            starts = np.flatnonzero(np.diff(inside, prepend=-1))
            stretches = np.bincount(inside[starts], minlength=int(groups.max()) + 1)
            found[name] = inside[starts][stretches[inside[starts]] == 1].astype(np.int64)
        return found

    def layer(self, clique: Iterable[str]) -> int:
        """Return the number of the first layer that has all columns of a table in one set.

        >>> layers = ((frozenset("ab"),), (frozenset("bc"),))
        >>> space = ModelSpace(domain=Domain({"a": 2, "b": 2, "c": 2}), layers=layers)
        >>> space.layer("ab"), space.layer("bc"), space.layer("ac")
        (0, 1, 2)
        """
        columns = set(clique)
        inside = (n for n, sets in enumerate(self.layers) if any(columns <= each for each in sets))
        return next(inside, len(self.layers))

    @property
    def rows(self) -> float | None:
        """The number of rows, where it is public."""
        return float(self.totals[0].counts.sum()) if self.totals else None


def unused_name(name: str, domain: Domain) -> str:
    """Return a name for a hidden variable that no column has.

    >>> unused_name("row", Domain({"row": 2, "age": 9}))
    'row′'
    """
    while name in domain:
        name += "′"
    return name
