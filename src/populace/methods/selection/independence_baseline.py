"""What pairs would look like if nothing but single columns and the rules were known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from populace.core.marginals import Clique, Domain, Lookup
from populace.inference.constraints.support import class_lookups
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.fit.projection import project_to_simplex, share_by_group
from populace.inference.gls.observations import group_table
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.conditions.rules import Allowed, Rules

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndependenceBaseline:
    """The shares of columns, and of pairs under independence except for what the rules imply.

    Rules speak of classes, so the model of 1-ways and rules is a small model of classes, and codes inside a class
    depend on nothing. `joined` holds the shares of classes of the pairs that a chain of rules joins, `inside` a
    code's share of its class.
    """

    columns: Mapping[str, Shares]
    joined: Mapping[Clique, Shares]
    inside: Mapping[str, Shares]
    classes: Mapping[str, Lookup]

    def pair(self, pair: Clique) -> Shares:
        """Return the share of every cell of two columns, in the order of the domain."""
        a, b = pair
        if pair not in self.joined:
            return np.outer(self.columns[a], self.columns[b])
        classes = self.joined[pair][np.ix_(self.classes[a], self.classes[b])]
        return np.asarray(classes * np.outer(self.inside[a], self.inside[b]))

    def possible(self, pair: Clique) -> Allowed:
        """Say of every cell of two columns whether the rules let a row be in it."""
        a, b = pair
        if pair not in self.joined:
            return np.ones((self.columns[a].size, self.columns[b].size), dtype=np.bool_)
        return np.asarray(self.joined[pair][np.ix_(self.classes[a], self.classes[b])] > 0)


def fit_baseline(columns: Sequence[Measurement], *, space: ModelSpace, total: float) -> IndependenceBaseline:
    """Return the baseline of noisy 1-ways, on groups where columns are grouped."""
    rules = space.rules
    counts = {}
    for item in columns:
        clique = item.marginal.clique
        counts[clique[0]] = group_table(item.counts, clique, onto=clique, groupings=space.groupings)
    shares = {name: project_to_simplex(table, total=total) / total for name, table in counts.items()}
    constrained = [name for name in rules.classes if name in counts]
    if not rules.rules or not constrained:
        return IndependenceBaseline(columns=shares, joined={}, inside={}, classes={})
    lookups = class_lookups(space)
    sizes = {name: size for name, size in space.domain.items() if name in rules.classes}
    model = fit_least_squares(
        [item for item in columns if item.marginal.clique[0] in constrained],
        space=ModelSpace(domain=Domain(sizes), rules=rules, groupings=rules.classes),
    )
    inside = {}
    for name in constrained:
        of_class = model.grouped_marginal((name,)) / model.total
        groups = [np.flatnonzero(lookups[name] == number) for number in range(len(of_class))]
        inside[name] = share_by_group(counts[name], groups, totals=total * of_class)
        shares[name] = of_class[lookups[name]] * inside[name]
    return IndependenceBaseline(
        columns=shares,
        joined={
            pair: model.grouped_marginal(pair) / model.total for pair in _rule_pairs(rules, space.domain)
        },
        inside=inside,
        classes=lookups,
    )


def _rule_pairs(rules: Rules, domain: Domain) -> Iterator[Clique]:
    """Yield the pairs of columns that a chain of rules joins."""
    part = {name: {name} for name in rules.classes}
    for rule in rules.rules:
        whole = set().union(*(part[name] for name in rule.clique))
        part |= dict.fromkeys(whole, whole)
    for pair in combinations([name for name in domain if name in part], 2):
        if pair[1] in part[pair[0]]:
            yield pair
