"""The rows of a public sample with their weights and units, and variances of what is summed over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats, Ints, Truth
from populace.core.errors import DataError, UsageError
from populace.schema.codec.cell_texts import to_floats
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.hints import quote_names
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design, unsampled_fraction
from populace.survey.variance.design_variance import SampledUnits, StratumFactors, replicate_variance
from populace.survey.variance.statistics_of_totals import ValueAndGradient

Function = Callable[[Floats], ValueAndGradient]


class SampledRows:
    """The rows that count: their codes, numbers, weights and units."""

    def __init__(self, frame: Any, design: Design) -> None:
        self.design = design
        codec = TableCodec(design.schema)
        cells = _read_cells(frame, codec.input_columns)
        self._cells = cells
        self._codes = codec.encode({name: cells[name] for name in codec.input_columns})
        self._numbers: dict[str, Floats] = {}
        stratum, unit = self._places()
        weight = self._weights(stratum)
        self._kept = (unit >= 0) & (weight > 0)
        for name in design.replicates.columns if design.replicates else ():
            self._kept &= ~np.isnan(self._all_numbers(name))
        self.weight: Floats = weight[self._kept]
        self.stratum: Ints = stratum[self._kept]
        self.psu: Ints = unit[self._kept]

    def codes(self, name: str) -> Ints:
        """Return the codes of a variable."""
        found: Ints = self._codes[name][self._kept].astype(np.int64)
        return found

    def numbers(self, name: str) -> Floats:
        """Return the numbers of a column; NaN where a row has none."""
        return self._all_numbers(name)[self._kept]

    def known(self, name: str) -> Truth:
        """Say which rows have a value of a column."""
        view = self.design.schema.layout.view(name)
        codes = view.codes[tuple(self.codes(source) for source in view.variables)]
        return np.asarray(codes < view.scale.levels)

    def meets(self, condition: str | None) -> Truth:
        """Say which rows meet a condition."""
        if condition is None:
            return np.ones(len(self.weight), dtype=np.bool_)
        ready = self.design.schema.layout.condition(parse_condition(condition), place="where")
        codes = {name: self.codes(name) for name in ready.variables}
        return np.broadcast_to(ready(codes), self.weight.shape)

    @cached_property
    def units(self) -> SampledUnits:
        """The units of the first stage: psus, or rows."""
        if self.design.clustered:
            return SampledUnits(stratum=self.design.stratum, strata=StratumFactors.of(self.design))
        sizes = np.bincount(self.stratum, minlength=len(self.design.strata_values)).astype(np.float64)
        of_one = self.design.unsampled_fraction(np.ones_like(sizes))
        if ((self.design.unsampled_fraction(sizes - 0.5) <= 0) & (of_one > 0)).any():
            raise UsageError(
                "a stratum of the public table has more rows than its fpc says there are.",
                hint="fpc counts rows where there are no psus",
            )
        return SampledUnits(stratum=self.stratum, strata=StratumFactors.of(self.design, sizes=sizes))

    @cached_property
    def within(self) -> tuple[SampledUnits, Floats] | None:
        """The rows in their psus as units of a second stage, and the share of psus that was drawn."""
        design = self.design
        if design.fpc_within is None or design.fpc is None:
            return None
        sizes = np.bincount(self.psu, minlength=len(design.psu_list)).astype(np.float64)
        given = design.fpc_within
        known = [given[psu.value] if isinstance(given, Mapping) else given for psu in design.psu_list]
        strata = StratumFactors(
            sizes=sizes, unsampled_fraction=unsampled_fraction(known, sizes), lonely=design.lonely
        )
        drawn = 1 - self.units.strata.unsampled_fraction[design.stratum]
        return SampledUnits(stratum=self.psu, strata=strata), drawn

    @cached_property
    def degrees(self) -> float:
        """The degrees of freedom."""
        if self.design.replicates is not None:
            return float(np.linalg.matrix_rank(self.replicates, tol=1e-7 * float(self.replicates.max()))) - 1
        if self.design.degrees is not None:
            return float(self.design.degrees)
        return float(len(self.weight) - len(np.unique(self.stratum)))

    @cached_property
    def replicates(self) -> Floats:
        """The replicate weights, a row for each."""
        named = () if self.design.replicates is None else self.design.replicates.columns
        return np.array([self.numbers(name) for name in named])

    def estimate(self, terms: Floats, *, members: Truth, function: Function) -> tuple[Floats, Floats]:
        """Return the numbers of a statistic of one group, whose members have the terms, and their variances."""
        found = function((self.weight @ terms)[None])
        values = found.values[0]
        if self.design.replicates is not None:
            replicates = function(self.replicates @ terms).values
            return values, replicate_variance(values, replicates=replicates, design=self.design.replicates)
        present = np.bincount(self.stratum[members], minlength=len(self.units.strata.sizes)) > 0
        units = replace(self.units, strata=replace(self.units.strata, present=present))
        weighted = sums = self.weight[:, None] * terms
        if self.design.clustered:
            sums = np.zeros((len(self.design.psu_list), terms.shape[1]))
            np.add.at(sums, self.psu, weighted)
        variance = units.variance(np.einsum("uk,nk->un", sums, found.gradient[0]))
        if self.within is not None:
            rows, drawn = self.within
            scores = weighted @ found.gradient[0].T
            variance = variance + np.tensordot(rows.strata.factors * drawn, rows.squares(scores), axes=1)
        return values, variance

    def _all_numbers(self, name: str) -> Floats:
        if name not in self._numbers:
            column = self.design.schema.columns[name]
            low, high = columns.span(self.design.schema, name, place="public rows")
            parts = tuple(self._codes[part.name] for part in column.variables)
            known = parts[0] < column.variables[0].levels
            found = np.clip(to_floats(self._cells[name]), float(low), float(high))
            if isinstance(column, IntegerColumn | DecimalColumn) and len(parts) == 1:
                # Cells that are no numbers but have a value by the schema's `other` take the lowest of its bin.
                firsts = np.array([float(column.bounds(level)[0]) for level in range(column.levels)])
                found = np.where(np.isnan(found), firsts[np.where(known, parts[0], 0)], found)
            self._numbers[name] = np.where(known, found, np.nan)
        return self._numbers[name]

    def _places(self) -> tuple[Ints, Ints]:
        """Return the stratum and the psu of each row; −1 where it is none that is listed."""
        design = self.design
        count = len(next(iter(self._codes.values())))
        stratum = np.zeros(count, dtype=np.int64)
        if design.strata is not None:
            scale = columns.scale(design.schema, design.strata, place="public rows")
            codes = self._codes[design.strata].astype(np.int64)
            stratum = np.where(codes < scale.levels, codes, -1)
        if design.psu is None:
            return stratum, stratum
        scale = columns.scale(design.schema, design.psu, place="public rows")
        places = np.full((len(design.strata_values), scale.size), -1, dtype=np.int64)
        for place, psu in enumerate(design.psu_list):
            places[psu.stratum, columns.code(scale, psu.value, place="public rows")] = place
        return stratum, np.where(stratum >= 0, places[stratum, self._codes[design.psu].astype(np.int64)], -1)

    def _weights(self, stratum: Ints) -> Floats:
        if self.design.weights is None:
            return np.array([float(each) for each in self.design.stratum_base])[stratum]
        return np.minimum(self._all_numbers(self.design.weights), float(self.design.weight_bound))


def _read_cells(frame: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns of a frame of any library that narwhals speaks."""
    import narwhals as nw

    try:
        table: pa.Table = (
            frame if isinstance(frame, pa.Table) else nw.from_native(frame, eager_only=True).to_arrow()
        )
    except (TypeError, pa.ArrowException):
        raise DataError("this is no table in memory.", hint="give a frame, or an Arrow table") from None
    if absent := [name for name in names if name not in table.column_names]:
        raise DataError(
            f"the table has no column {quote_names(absent)}.", hint="it must hold the schema's columns"
        )
    return {name: table[name].combine_chunks() for name in names}
