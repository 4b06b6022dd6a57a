"""How much a model can hold: which pairs may join those chosen before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from populace.infer.additions import Additions
from populace.infer.structure import Layout
from populace.marginals import Clique, Domain, Grouping
from populace.schema.rules import Rules

# Fitting takes seconds up to here.
MOST_ADDED = 2**20


class Room:
    """Keeps the model under rules small: a pair that would close a large cycle with rules and other pairs is refused.

    It looks at the rules and at the pairs chosen so far, which are public or paid for.
    """

    def __init__(self, rules: Rules, *, domain: Domain, groupings: Mapping[str, Grouping]) -> None:
        self._free = not rules.rules
        self._layout = Layout(rules, domain=domain, groupings=groupings)

    def admitted(self, among: Sequence[int], *, pairs: Sequence[Clique], chosen: Sequence[int]) -> list[int]:
        """Return the numbers of pairs that can join the chosen ones without making the model too large.

        A bound on what a pair adds decides: `Additions.added`.
        """
        if self._free:
            return list(among)
        tree, domain = self._layout.tree([pairs[number] for number in chosen])
        if tree.cells(domain) * max(domain.values()) <= MOST_ADDED:
            return list(among)
        additions = Additions((), domain=domain, tree=tree)
        return [number for number in among if additions.added(pairs[number]) <= MOST_ADDED]
