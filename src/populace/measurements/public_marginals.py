"""A table that is public: read without protection, counted exactly, and named wherever it was used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Clique, Counts, Domain, Marginal, tabulate

Codes = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicTable:
    """Rows that everybody may know, in the codes of a schema; `name` and `digest` say which table it is.

    Whoever hands it over vouches that it is public. It must not hold rows of the private table.

    >>> table = PublicTable(name="last year", digest="", domain=Domain({"a": 2}), codes={"a": np.array([0, 1,
    ... 1], np.uint8)})
    >>> table, table.table(Marginal(("a",)))
    (Public(“last year”, 3 rows), array([1, 2]))
    """

    name: str
    digest: str
    domain: Domain
    codes: Codes

    def __post_init__(self) -> None:
        if tuple(self.codes) != tuple(self.domain) or not self.rows:
            raise UsageError(
                "the public table has no rows, or other columns than the schema.",
                hint="give a table of the same schema with at least one row",
            )

    def __repr__(self) -> str:
        return f"Public(“{self.name}”, {self.rows} rows)"

    @property
    def rows(self) -> int:
        """The number of rows; it is public too."""
        return len(next(iter(self.codes.values()), ()))

    def table(self, marginal: Marginal) -> Counts:
        """Return how many of its rows fall into each cell of a marginal: exactly, and for nothing."""
        return tabulate(marginal, codes=self.codes, domain=self.domain)


@dataclass(frozen=True, eq=False)
class PublicMarginals:
    """Tables of counts that a run took from a public table, to stand beside what it measured."""

    tables: Mapping[Clique, Counts]

    @classmethod
    def of(cls, public: PublicTable, cliques: Iterable[Clique]) -> PublicMarginals:
        """Return the public counts of some columns."""
        return cls({clique: public.table(Marginal(clique)) for clique in dict.fromkeys(cliques)})

    def __repr__(self) -> str:
        return f"PublicMarginals({len(self.tables)} tables)"

    def fits(self, domain: Domain) -> bool:
        """Say whether these are tables of counts over columns of a domain, with some rows in each."""
        return all(
            set(clique) <= set(domain)
            and table.shape == domain.shape(clique)
            and table.min(initial=0) >= 0 < table.sum()
            for clique, table in self.tables.items()
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the tables as plain JSON: of each the cells that are not empty, and their counts, as texts."""
        document = []
        for clique, table in self.tables.items():
            cells = np.flatnonzero(table)
            document.append(
                {
                    "columns": list(clique),
                    "shape": list(table.shape),
                    "cells": " ".join(map(str, cells.tolist())),
                    "counts": " ".join(map(str, table.ravel()[cells].tolist())),
                }
            )
        return document

    @classmethod
    def from_json(cls, document: Iterable[Mapping[str, Any]], *, domain: Domain) -> PublicMarginals:
        """Return the tables over columns of a domain that `to_json` wrote."""
        tables = {}
        for entry in document:
            if entry["shape"] != list(domain.shape(entry["columns"])):
                raise ReleaseError(
                    "a public table does not have the shape its schema gives it.",
                    hint="use the files as populace wrote them",
                )
            table = np.zeros(tuple(entry["shape"]), dtype=np.int64)
            cells = np.array(entry["cells"].split(), dtype=np.int64)
            if cells.size and not 0 <= cells.min() <= cells.max() < table.size:
                raise ReleaseError(
                    "a public table has cells beyond its end.", hint="use the files as populace wrote them"
                )
            table.ravel()[cells] = np.array(entry["counts"].split(), dtype=np.int64)
            tables[tuple(map(str, entry["columns"]))] = table
        return cls(tables)
