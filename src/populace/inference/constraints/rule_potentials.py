"""Where rules stand in a model: on measured tables, or on hidden variables that hold only the classes of codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.marginals import Clique, Domain, Lookup
from populace.inference.constraints.support import (
    Support,
    check_model_size,
    class_lookups,
    drop_redundant_rules,
)
from populace.inference.graph.junction_tree import JunctionTree, junction_tree, maximal_tables, table_cells
from populace.inference.model_space import ModelSpace, unused_name
from populace.schema.conditions.rules import Allowed, Rule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstrainedDomain:
    """The variables of a model and its hard tables, which say of every cell whether a row can be in it.

    `domain` holds the columns, grouped where they are, and then the hidden variables, each a function of one column.
    """

    domain: Domain
    hidden: Mapping[str, int]
    hard: Mapping[Clique, Allowed]


class RulePotentials:
    """Finds the structure of least size for given rules and measured cliques.

    A rule whose columns lie in one measured clique is stated there. Other rules are stated over hidden variables:
    one per column, with a value for each class of codes that these rules tell apart, tied to the column by a hard
    table. A column of 100 codes in six classes and with ten partners then meets them with six values. A hidden
    variable is left out again where the junction tree is smaller without it.
    """

    def __init__(self, space: ModelSpace) -> None:
        self.domain = space.grouped_domain
        self._classes = class_lookups(space)
        rules = drop_redundant_rules(space.rules)
        self._rules = [rule for rule in rules.rules if not rule.allowed.all()]
        self._possible = Support(rules)

    @property
    def has_rules(self) -> bool:
        """Whether there is any rule that a row could break."""
        return bool(self._rules)

    def allowed_cells(self, clique: Clique) -> Allowed:
        """Say for every cell of a table over columns whether a row can be in it, all rules taken together."""
        return self._possible.cells(clique, classes=self._classes, domain=self.domain)

    def structure(self, measured: Iterable[Clique]) -> ConstrainedDomain:
        """Return the smallest structure found; one that would not fit into memory is refused."""
        if not self._rules:
            return ConstrainedDomain(domain=self.domain, hidden={}, hard={})
        cliques = list(dict.fromkeys(measured))
        apart = self._apart(cliques)
        hidden = self._hidden(apart)
        least = self._price(cliques, apart, hidden)
        for name in sorted(hidden):
            fewer = {column: lookup for column, lookup in hidden.items() if column != name}
            cells = self._price(cliques, apart, fewer)
            if cells < least:
                least, hidden = cells, fewer
        check_model_size(least)
        domain, names = self._with(hidden)
        place = {name: i for i, name in enumerate(domain)}
        hard: dict[Clique, Allowed] = {
            (column, names[column]): lookup[:, None] == np.arange(_lookup_size(lookup))
            for column, lookup in hidden.items()
        }
        for rule in self._rules:
            inside = rule not in apart
            stated = rule.clique if inside else _rule_clique(rule, names)
            ordered = tuple(sorted(stated, key=place.__getitem__))
            table = self._spread(rule, {} if inside else hidden)
            hard = intersect_hard_tables(
                hard, {ordered: table.transpose([stated.index(name) for name in ordered])}
            )
        return ConstrainedDomain(
            domain=domain, hidden={name: domain[name] for name in names.values()}, hard=hard
        )

    def tree(self, measured: Iterable[Clique]) -> tuple[JunctionTree, Domain]:
        """Return the junction tree in which every column of a rule keeps its hidden variable, and its domain."""
        cliques = list(dict.fromkeys(measured))
        apart = self._apart(cliques)
        domain, names = self._with(self._hidden(apart))
        return junction_tree(_with_rule_cliques(cliques, apart, names), domain=domain), domain

    def tree_cells(self, measured: Sequence[Clique]) -> int:
        """Return the cells of that tree, without building it."""
        apart = self._apart(measured)
        return self._price(measured, apart, self._hidden(apart))

    def _apart(self, measured: Sequence[Clique]) -> list[Rule]:
        """Return the rules that lie inside no measured clique."""
        sets = [set(clique) for clique in measured]
        return [rule for rule in self._rules if not any(set(rule.clique) <= columns for columns in sets)]

    def _hidden(self, rules: Sequence[Rule]) -> dict[str, Lookup]:
        """Return the columns of some rules that these see in fewer classes than codes, with the class of each code."""
        found = {}
        for name in dict.fromkeys(name for rule in rules for name in rule.clique):
            sides = [np.moveaxis(r.allowed, r.clique.index(name), 0) for r in rules if name in r.clique]
            rows = np.hstack([side.reshape(len(side), -1) for side in sides])
            alike = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
            lookup = np.unique(alike[self._classes[name]], return_inverse=True)[1].reshape(-1)
            if _lookup_size(lookup) < self.domain[name]:
                found[name] = lookup
        return found

    def _with(self, hidden: Mapping[str, Lookup]) -> tuple[Domain, dict[str, str]]:
        """Return the domain with hidden variables behind the columns, and the name of each one by its column."""
        names = {column: unused_name(f"class of {column}", self.domain) for column in hidden}
        sizes = {names[column]: _lookup_size(lookup) for column, lookup in hidden.items()}
        return Domain({**self.domain.sizes, **sizes}), names

    def _price(self, measured: Sequence[Clique], apart: Sequence[Rule], hidden: Mapping[str, Lookup]) -> int:
        """Return the cells of the junction tree with some hidden variables."""
        domain, names = self._with(hidden)
        bit = {name: 1 << i for i, name in enumerate(domain)}
        masks = [sum(bit[name] for name in clique) for clique in _with_rule_cliques(measured, apart, names)]
        sizes = domain.shape(domain)
        return table_cells(maximal_tables(masks, sizes=sizes), sizes=sizes)

    def _spread(self, rule: Rule, hidden: Mapping[str, Lookup]) -> Allowed:
        """Return a rule's table over the codes of its columns, or over the values of their hidden variables."""
        # The first code of each hidden value stands for all of them: the rule does not tell them apart.
        firsts = {name: np.unique(lookup, return_index=True)[1] for name, lookup in hidden.items()}
        return rule.allowed[np.ix_(*(self._classes[name][firsts.get(name, ...)] for name in rule.clique))]


def _with_rule_cliques(
    measured: Sequence[Clique], apart: Sequence[Rule], names: Mapping[str, str]
) -> list[Clique]:
    return [*measured, *(_rule_clique(rule, names) for rule in apart), *names.items()]


def _rule_clique(rule: Rule, names: Mapping[str, str]) -> Clique:
    return tuple(names.get(column, column) for column in rule.clique)


def intersect_hard_tables(
    hard: Mapping[Clique, Allowed], more: Mapping[Clique, Allowed]
) -> dict[Clique, Allowed]:
    """Return hard tables that hold together with others; two of one clique become one."""
    return {**hard, **{c: hard[c] & allowed if c in hard else allowed for c, allowed in more.items()}}


def _lookup_size(lookup: Lookup) -> int:
    return int(lookup.max()) + 1
