"""Columns whose declared values do not fit the data, as far as noisy counts that are paid for already tell.

Whatever a schema does not declare has one code in each column, which is counted with the others. Where that count is
large, the domain was declared wrongly, or it leaves much out; either way whoever reads the release must know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from populace.core.number_format import format_percent, format_percent_bound
from populace.measurements.measurements import Measurement, Measurements
from populace.measurements.pooled_counts import combine_repeats, group_repeats
from populace.schema.columns.column import Column, Origin
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.range_columns import RangeColumn

# The most of all rows that may lie outside a domain unsaid: where nothing in the schema expects such rows, and where
# it does, by `other`, by empty cells among the missing codes, or because values were learnt.
MAX_UNEXPECTED_SHARE = 0.01
MAX_EXPECTED_SHARE = 0.5
# Where such rows become a value of the domain, nobody can tell them from it: only a column that they fill is reported.
MAX_SWALLOWED_SHARE = 0.98
# The chance, at most, that a release in which every column stays below these shares is said to exceed one.
MAX_FALSE_WARNING_RATE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfDomain:
    """A column with many rows outside its domain: their estimated share, and its 95 % margin of error.

    Where `other` is a value of the domain, the share is that of this value, and rows outside are among them.
    """

    column: Column
    share: float
    margin: float

    @property
    def has_own_code(self) -> bool:
        """Whether rows outside the domain have a code that no value of the domain shares."""
        return self.column.other_code >= self.column.levels

    @property
    def is_most(self) -> bool:
        """Whether most of the column is surely lost: a value that rows outside share may truly be theirs."""
        return self.has_own_code and self.share - self.margin > 0.5

    @property
    def text(self) -> str:
        """Return what is so in one or two sentences; the numbers are noisy counts, so that everybody may read it."""
        share = f"{format_percent(self.share)} of the rows (± {format_percent_bound(self.margin)})"
        label = f" ({self.column.label})" if self.column.label else ""
        if not self.has_own_code:
            return (
                f"About {share} have “{self.column.other}” in “{self.column.name}”{label}, which is also what "
                "everything outside its domain becomes. If so many do not truly have it, the cells could not be read. "
                f"Likely cause: {self.cause}"
            )
        written = self.column.specials[self.column.other_code - self.column.levels]
        if self.column.domain_learnt:
            held = "a value that was too rare to be learnt"
        elif isinstance(self.column, TemporalColumn):
            held = "nothing that can be read as the schema declares its dates and times"
        elif isinstance(self.column, RangeColumn):
            held = "nothing that can be read as a number that the schema declares"
        else:
            held = "a value that the schema does not declare"
        beside = f"“{written}” itself" if written else "an empty cell"
        released = f"“{written}”" if written else "empty cells"
        return (
            f"About {share} lie outside the domain of “{self.column.name}”{label}: they hold {held}, or {beside}, and "
            f"are {released} here. Likely cause: {self.cause}"
        )

    @property
    def cause(self) -> str:
        """Return where the curator may look first."""
        if self.column.domain_learnt:
            return "many rare values, or a budget that is small for them."
        if isinstance(self.column, TemporalColumn):
            return 'dates are read as 2024-12-31 unless the schema says otherwise, as in format = "%d.%m.%Y".'
        if isinstance(self.column, RangeColumn):
            return "empty cells or missing codes that the schema does not declare, or numbers written with units."
        if self.column.labels:
            return (
                "labels in the file where the schema lists codes, codes of a newer codebook, or empty cells that the "
                "schema does not declare as missing."
            )
        return "values written otherwise in the file, or empty cells that the schema does not declare as missing."


def find_out_of_domain(measurements: Measurements) -> tuple[OutOfDomain, ...]:
    """Return the columns of which, surely, more rows than their limit lie outside the domain, in the schema's order.

    Surely: with Bonferroni's correction over all columns and the number of rows, and with the tails of Laplace noise,
    which are the heavier ones, a release that keeps all limits is said to break one with probability 1 % at most.
    """
    linked = measurements.schema.linked
    # A column of linked tables is named once: of the first member of each unit.
    later = (
        set().union(*(linked.names_at(place).values() for place in linked.places[1:])) if linked else set()
    )
    limits = {name: _max_share(column) for name, column in measurements.schema.columns.items()}
    columns = [
        (measurements.schema.columns[name], most)
        for name, most in limits.items()
        if most is not None and name not in later
    ]
    noisy = [item for item in measurements.items if item.variance]
    items = [combine_repeats(same) for same in group_repeats(noisy)]
    if not columns or not items:
        return ()
    tail = MAX_FALSE_WARNING_RATE / (len(columns) + 1)
    rows, deviation = min(
        ((float(i.counts.sum()), _standard_deviation(i, i.counts.size)) for i in items), key=lambda f: f[1]
    )
    most_rows = rows + laplace_quantile(tail) * deviation
    found = []
    for column, limit in columns:
        counted = min(_count_outside(column.variables[0], items), key=lambda each: each[1], default=None)
        if counted is None or rows <= 0:
            continue
        count, deviation = counted
        if count - laplace_quantile(tail) * deviation > limit * most_rows:
            margin = min(laplace_quantile(0.025) * deviation / rows, 1.0)
            found.append(OutOfDomain(column=column, share=min(count / rows, 1.0), margin=margin))
    return tuple(found)


def _max_share(column: Column) -> float | None:
    """Return the share of rows that may lie outside a domain unreported, or None where they cannot be seen."""
    if column.function_of or (column.other_code < column.levels <= 1):
        return None
    if column.other_code < column.levels:
        return MAX_SWALLOWED_SHARE
    expected = column.other is not None or "" in column.missing
    return MAX_EXPECTED_SHARE if expected or column.origin is Origin.LEARNT else MAX_UNEXPECTED_SHARE


def _count_outside(variable: Column, items: Sequence[Measurement]) -> Iterator[tuple[float, float]]:
    """Yield the rows outside a variable's domain by each table that counts them apart, and its standard deviation."""
    for item in items:
        if variable.name not in item.marginal.clique:
            continue
        grouping, code = item.marginal.grouping(variable.name), variable.other_code
        if grouping is not None:
            code = grouping.groups[code]
            if len(grouping.members[code]) > 1:
                continue
        cells = item.counts.take(code, axis=item.marginal.clique.index(variable.name))
        yield float(cells.sum()), _standard_deviation(item, cells.size)


def _standard_deviation(item: Measurement, cells: int) -> float:
    return math.sqrt(float(item.variance) * cells)


def laplace_quantile(tail: float) -> float:
    """Return how many standard deviations Laplace noise exceeds with this probability, on one side."""
    return math.log(1 / (2 * tail)) / math.sqrt(2)
