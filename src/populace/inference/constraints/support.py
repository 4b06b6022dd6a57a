"""Which combinations of codes a row can have when all rules hold together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from populace.core.errors import ResourceError, UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Clique, Domain
from populace.inference.constraints.redundant_rules import drop_redundant_rules
from populace.inference.gls.observations import refines
from populace.inference.graph.junction_tree import junction_tree
from populace.inference.graph.propagation import Propagation
from populace.inference.model_space import ModelSpace
from populace.schema.conditions.rules import Allowed, Rules

Lookup = npt.NDArray[np.int64]


class Support:
    """The classes of codes that can meet, by counting all rows that break no rule on a junction tree of classes.

    A combination may be impossible although no single rule forbids it: a rule on a and b and a rule on b and c
    together can exclude pairs of a and c.
    """

    def __init__(self, rules: Rules) -> None:
        rules = drop_redundant_rules(rules)
        self._domain = Domain({name: grouping.size for name, grouping in rules.classes.items()})
        tree = junction_tree([rule.clique for rule in rules.rules], domain=self._domain)
        check_model_size(tree.cells(self._domain))
        plan = Propagation(tree, domain=self._domain)
        supports = plan.supports((rule.clique, rule.allowed) for rule in rules.rules)
        if supports is None:
            raise UsageError(
                "no row can keep all rules of the schema.", hint="remove rules until some row is allowed"
            )
        self._joints = plan.joints(supports)

    def __contains__(self, column: str) -> bool:
        return column in self._domain

    def table(self, clique: Iterable[str]) -> Allowed:
        """Say for every combination of classes of some columns that are in rules whether a row can have it."""
        return np.asarray(self._joints.table(tuple(clique)) > 0)

    def cells(self, clique: Clique, *, classes: Mapping[str, Lookup], domain: Domain) -> Allowed:
        """Say the same of the cells of a table over a clique, given the class of every code of its columns."""
        constrained = [name for name in clique if name in self]
        if not constrained:
            return np.broadcast_to(np.True_, domain.shape(clique))
        shape = tuple(domain[name] if name in self else 1 for name in clique)
        table = self.table(constrained)[np.ix_(*(classes[name] for name in constrained))]
        return np.broadcast_to(table.reshape(shape), domain.shape(clique))


def class_lookups(space: ModelSpace) -> dict[str, Lookup]:
    """Return for every column in rules the class of each of its groups, or of its codes where it is not grouped."""
    found: dict[str, Lookup] = {}
    groupings = space.groupings
    for name, grouping in space.rules.classes.items():
        if len(grouping.groups) != space.domain[name]:
            raise UsageError(
                f"the rules know {len(grouping.groups)} codes of column {name!r}; the domain has {space.domain[name]}.",
                hint="take rules and domain from one schema",
            )
        if name not in groupings:
            found[name] = grouping.lookup
            continue
        found[name] = np.array([grouping.lookup[codes[0]] for codes in groupings[name].members])
        if not refines(groupings[name], grouping):
            raise UsageError(
                f"codes of column {name!r} that a rule tells apart share a group.",
                hint="group codes only within their class: compress(…, classes=rules.classes)",
            )
    return found


def check_model_size(cells: int) -> None:
    """Refuse tables that would not fit into memory."""
    if cells > LIMITS.max_model_cells:
        raise ResourceError(
            f"the rules and measured tables need a model of {cells} cells; the most is {LIMITS.max_model_cells}.",
            hint="state rules over fewer columns, or measure smaller tables",
        )
