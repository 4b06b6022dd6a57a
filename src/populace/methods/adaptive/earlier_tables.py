"""What tables of earlier releases say before a run asks anything: counts, groups, and pairs as their model has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations

from populace.core.marginals import Clique, Grouping, Marginal
from populace.inference.factor import Table
from populace.inference.fit.fit_model import fit_model
from populace.inference.gls.observations import common_groupings, group_table
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema


class EarlierTables:
    """Tables that were measured and paid for by earlier runs of the account; none for a first run."""

    def __init__(self, items: Sequence[Measurement], *, schema: Schema) -> None:
        self._items = tuple(items)
        self._schema = schema
        self.columns = tuple(
            i for i in self._items if len(i.marginal.clique) == 1 and not i.marginal.groupings
        )
        self._several = tuple(i for i in self._items if len(i.marginal.clique) > 1)
        self.pairs = frozenset(
            pair
            for item in self._several
            for pair in combinations((n for n in schema.domain if n in item.marginal.clique), 2)
        )

    @property
    def know_columns(self) -> bool:
        """Whether every column was counted by itself."""
        return {item.marginal.clique[0] for item in self.columns} == set(self._schema.domain)

    @property
    def total_precision(self) -> float:
        """The precisions of all tables of several columns together: what the earlier budgets bought."""
        return sum(1 / float(item.variance) for item in self._several)

    @cached_property
    def groupings(self) -> Mapping[str, Grouping | None]:
        """How tables of several columns group each of theirs: new tables keep the groups, so that both pool."""
        found = common_groupings(self._several)
        return {name: found.get(name) for item in self._several for name in item.marginal.clique}

    def precision(self, marginal: Marginal) -> float:
        """Return the precision with which the very cells of a table are known from tables of the same cells."""
        return sum(1 / float(item.variance) for item in self._several if item.marginal == marginal)

    def table(self, pair: Clique, *, groupings: Mapping[str, Grouping], total: float) -> Table | None:
        """Return a pair as the model of all earlier tables has it, in some groups; None where it cannot be seen so."""
        if not self._several:
            return None
        held = self._model.groupings
        if any(name in held and held[name] != groupings.get(name) for name in pair):
            return None
        table = self._model.targets.get(pair)
        if table is None:
            table = self._model.grouped_marginal(pair)
        left = {name: groupings[name] for name in pair if name in groupings and name not in held}
        table = group_table(table, pair, onto=pair, groupings=left)
        return table * (total / table.sum()) if table.sum() > 0 else None

    @cached_property
    def _model(self) -> Model:
        return fit_model(self._items, space=ModelSpace.of(self._schema))
