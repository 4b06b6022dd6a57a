"""How much a model can hold: which pairs may join those chosen before."""

from __future__ import annotations

from collections.abc import Sequence

from populace.core.marginals import Clique
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.graph.clique_cost import CliqueCost
from populace.inference.model_space import ModelSpace

# Fitting takes seconds up to here.
MAX_ADDED_CELLS = 2**20


class TreeSizeLimit:
    """Keeps the model under rules small: a pair that would close a large cycle with rules and other pairs is refused.

    It looks at the rules and at the pairs chosen so far, which are public or paid for.
    """

    def __init__(self, space: ModelSpace) -> None:
        self._free = not space.rules.rules
        self._potentials = RulePotentials(space)

    def admissible(
        self, among: Sequence[int], *, pairs: Sequence[Clique], chosen: Sequence[int]
    ) -> list[int]:
        """Return the numbers of pairs that can join the chosen ones without making the model too large.

        A bound on what a pair adds decides: `Additions.added`.
        """
        if self._free:
            return list(among)
        tree, domain = self._potentials.tree([pairs[number] for number in chosen])
        if tree.cells(domain) * max(domain.values()) <= MAX_ADDED_CELLS:
            return list(among)
        additions = CliqueCost((), domain=domain, tree=tree)
        return [number for number in among if additions.added_cells(pairs[number]) <= MAX_ADDED_CELLS]
