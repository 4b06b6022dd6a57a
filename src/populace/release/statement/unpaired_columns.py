"""Columns that no measured pair holds: a release ties them to others by the schema's rules alone, if by anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from populace.measurements.measurements import Measurements
from populace.methods.method import WorkloadUse
from populace.methods.registry import METHODS
from populace.release.statement.linked_statement import list_rules
from populace.schema.schema import Schema
from populace.schema.writer import format_value

# What a pair weighs in the lines that are suggested.
SUGGESTED_WEIGHT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpairedColumns:
    """The columns, and what would favour their pairs in another run; nothing where the method knows no workload."""

    names: tuple[str, ...]
    workload: str
    tied: bool

    @property
    def text(self) -> str:
        """Return what is so, and what to do."""
        listed = ", ".join(map(repr, self.names))
        said = f"in no measured pair, so released {'' if self.tied else 'as if '}{describe_ties(self.tied)}: {listed}"
        if not self.workload:
            return said
        return (
            f"{said} (hint: noise would have hidden their pairs, or there is little to see; in another run, paid anew, "
            f"`key = true` in the schema favours a column, and so does --workload FILE with the lines {self.workload})"
        )


def describe_ties(tied: bool) -> str:
    """Return how columns without a measured pair hang together, given whether the schema has rules."""
    return "tied to other columns only by the schema's rules" if tied else "independent of all other columns"


def name_with_derived(names: Sequence[str], *, schema: Schema) -> tuple[str, ...]:
    """Return names of variables, each with the columns that follow from it."""
    found = []
    for name in names:
        derived = [own for own in schema.layout.functions if name in schema.layout.view(own).variables]
        follow = (
            f" (and {', '.join(derived)}, which follow{'s' * (len(derived) == 1)} from it)" if derived else ""
        )
        found.append(f"{name}{follow}")
    return tuple(found)


def find_unpaired_columns(measurements: Measurements, *, method: str) -> UnpairedColumns | None:
    """Return the columns that no measured or public table holds together with another column, if there are any.

    None for tables of one column, linked tables, whole rows, and methods that measure no pairs for any table.
    """
    schema, known = measurements.schema, METHODS.get(method)
    if schema.linked is not None or measurements.released_rows is not None or known is None:
        return None
    owners = schema.layout.owners
    public = () if measurements.public is None else tuple(measurements.public.tables)
    tables = [*(item.marginal.clique for item in measurements.items), *public]
    held = [{owners[name] for name in clique if name in owners} for clique in tables]
    paired = {name for columns in held if len(columns) > 1 for name in columns}
    names = tuple(dict.fromkeys(name for name in owners.values() if name not in paired))
    if not names or len(set(owners.values())) < 2 or not (paired or known.adapts_pair_count):
        return None
    tied = bool(list_rules(schema))
    if known.workload is WorkloadUse.NONE:
        return UnpairedColumns(names=names, workload="", tied=tied)
    partner = next(name for name in (*paired, *owners.values()) if name != names[0])
    line = f"pairs = true, [[marginals]], columns = {format_value([names[0], partner])}, weight = {SUGGESTED_WEIGHT}"
    return UnpairedColumns(names=names, workload=line, tied=tied)
