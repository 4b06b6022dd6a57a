"""The tables of a hierarchical release: unbiased estimates with margins of error, and published integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique, Grouping
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates
from populace.inference.hierarchy.hierarchy_margins import unit_margins
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.inference.model import Model
from populace.measurements.measurements import Measurements
from populace.methods.topdown.counts_model import read_counts, read_unit_counts
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.schema.codec.decoder import code_labels
from populace.schema.columns.column import Column
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.geocodes import GEOCODE, Geography
from populace.schema.linked.table_cells import MemberCells, require_linked
from populace.schema.schema import Schema

CodeColumns = Mapping[str, npt.NDArray[Any]]

# So many rows of a table are made at once.
MAX_CHUNK_ROWS = 2**18


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedHierarchy:
    """What was measured in every unit of a geography, and the integer tables of the smallest units."""

    schema: Schema
    measured: MeasuredHierarchy
    smallest: Ints
    variables: Mapping[str, Column]
    laplace: bool = False
    """Whether noise is Laplace noise, whose tails are long."""
    table: str | None = None
    """Which of two linked tables these are; None where there is one."""

    @classmethod
    def of(cls, measurements: Measurements, model: Model) -> ReleasedHierarchy:
        """Return the tables that follow from measurements and from the model that was fitted to them.

        Of linked tables they are those of the units; `of_members` has the others.
        """
        schema = measurements.schema
        measured = MeasuredHierarchy.of(schema, measurements.items)
        return cls(
            schema=schema,
            measured=measured,
            smallest=read_counts(model)
            if schema.linked is None
            else read_unit_counts(model, columns=measured.plan.columns),
            variables=schema.variables,
            laplace=has_laplace_noise(measurements),
            table=None if schema.linked is None else schema.linked.units,
        )

    @classmethod
    def of_members(cls, measurements: Measurements, codes: CodeColumns) -> ReleasedHierarchy:
        """Return the tables of the members of linked tables: published are those of the released rows."""
        schema = measurements.schema
        linked, cells = require_linked(schema), MemberCells.of(schema)
        columns = [linked.columns[name] for name in linked.columns]
        return cls(
            schema=schema,
            measured=MeasuredHierarchy.of_members(schema, measurements.items),
            smallest=cells.tabulate(codes, units=codes[GEOCODE], count=schema.domain[GEOCODE]),
            variables={part.name: part for column in columns for part in column.variables},
            laplace=has_laplace_noise(measurements),
            table=linked.members,
        )

    @property
    def geography(self) -> Geography:
        """The levels and units."""
        return self.measured.geography

    @property
    def estimates(self) -> HierarchyEstimates:
        """The unbiased estimates of every unit."""
        return self.measured.estimates

    @property
    def columns(self) -> Clique:
        """The columns of the cells, in order."""
        return self.measured.plan.columns

    @cached_property
    def published(self) -> tuple[Ints, ...]:
        """The integer tables of every level, the whole first: (units, *shape of the cells); children add up."""
        spine = self.geography.spine
        found = [self.smallest]
        for level in range(spine.depth - 1, 0, -1):
            found.append(cast(Ints, spine.sum_children(found[-1], level=level)))
        return tuple(reversed(found))

    @cached_property
    def possible(self) -> Ints:
        """The cells that no rule excludes, by number."""
        possible = self.measured.plan.possible
        cells = self.measured.plan.cells
        return np.arange(cells) if possible is None else np.flatnonzero(possible)

    def margin(self, clique: Clique, *, level: int, units: slice) -> Floats:
        """Return the 95 % margin of error of a marginal of some units of a level."""
        return unit_margins(self.estimates, clique, level=level, units=units, laplace=self.laplace)

    def chunk_units(self, level: int, *, cells: int) -> Iterator[slice]:
        """Yield the units of a level in stretches whose cells fill one chunk of a file."""
        step, last = max(1, MAX_CHUNK_ROWS // max(1, cells)), self.geography.spine.units(level)
        for start in range(0, last, step):
            yield slice(start, min(last, start + step))

    def labels(self, name: str, grouping: Grouping | None = None) -> Sequence[str]:
        """Return the text of each code of a column, as the schema writes its values, or of each of its groups."""
        column = self.variables[name]
        texts = code_labels(replace(column, labels={}))
        if grouping is None:
            return texts
        ordered = column.levels if isinstance(column, RangeColumn) else 0
        return [
            describe_group([int(code) for code in codes], texts, ordered=ordered)
            for codes in grouping.members
        ]


def has_laplace_noise(measurements: Measurements) -> bool:
    """Say whether the counts of a run have Laplace noise."""
    return any(isinstance(charged.spend.mechanism, DiscreteLaplace) for charged in measurements.record.spends)


def describe_group(codes: Sequence[int], texts: Sequence[str], *, ordered: int = 0) -> str:
    """Return the values of a group of codes; a stretch of the first, ordered ones by its ends.

    >>> describe_group([0, 2], ["white", "black", "two"])
    'white, two'
    >>> describe_group([0, 1, 2], ["0", "1", "2", "(empty)"], ordered=3)
    '0 to 2'
    """
    first, last = codes[0], codes[-1]
    if len(codes) > 1 and last < ordered and last - first == len(codes) - 1:
        return f"{texts[first]} to {texts[last]}"
    return ", ".join(texts[code] for code in codes)
