"""What a schema says of a table in public, for whoever answers questions about its rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from populace.core.marginals import Clique, Domain
from populace.schema.conditions.rules import Rules, Totals
from populace.schema.schema import Schema


class PublicFacts(Protocol):
    """The public facts of one schema, by the names under which methods ask for them."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema of the table."""

    @property
    def domain(self) -> Domain:
        """The public domain of the table."""
        return self.schema.domain

    @property
    def ordered(self) -> frozenset[str]:
        """The variables whose codes stand in their natural order."""
        return frozenset(name for name, column in self.schema.variables.items() if column.ordered)

    @property
    def rules(self) -> Rules:
        """The rules that hold in every row."""
        return self.schema.rules

    @property
    def totals(self) -> tuple[Totals, ...]:
        """The public counts of rows."""
        return self.schema.totals

    @property
    def max_rows(self) -> int | None:
        """The public bound on the number of rows, if there is one."""
        return self.schema.max_rows

    @property
    def groups(self) -> tuple[Clique, ...]:
        """The columns that the schema declares to belong together."""
        return self.schema.groups

    @property
    def partition(self) -> Clique:
        """The columns whose combinations are areas that are counted first; none where the schema names none."""
        return self.schema.partition
