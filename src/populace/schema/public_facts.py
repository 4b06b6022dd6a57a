"""What a schema says of a table in public, for whoever answers questions about its rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from populace.core.marginals import Domain
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
