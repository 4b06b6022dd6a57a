"""What the answers of a run are about: what it measured, took from a public table, or released row by row."""

from __future__ import annotations

from dataclasses import dataclass

from populace.core.marginals import Clique
from populace.measurements.measurements import Measurements
from populace.release.statement.domain_fit import find_out_of_domain


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredContent:
    """The columns of each table of counts that was measured, and of each that is public; the number of rows released.

    `survey` are sentences about the design of a survey, where estimates were made; `outside` are sentences about
    columns of which many rows lie outside the domain.

    >>> MeasuredContent(measured=((), ("age", "sex"), ("age",))).widest
    (('age', 'sex'),)
    """

    measured: tuple[Clique, ...] = ()
    public_tables: tuple[Clique, ...] = ()
    released_rows: int | None = None
    survey: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @classmethod
    def of(cls, measurements: Measurements) -> MeasuredContent:
        """Return what measurements hold, each table once."""
        public, released_rows = measurements.public, measurements.released_rows
        return cls(
            measured=tuple(dict.fromkeys(item.marginal.clique for item in measurements.items)),
            public_tables=() if public is None else tuple(public.tables),
            released_rows=None if released_rows is None else len(released_rows.counts),
            outside=tuple(found.text for found in find_out_of_domain(measurements)),
        )

    @property
    def widest(self) -> tuple[Clique, ...]:
        """The tables that were measured, without those that are part of another."""
        return tuple(
            clique for clique in self.measured if not any(set(clique) < set(other) for other in self.measured)
        )
