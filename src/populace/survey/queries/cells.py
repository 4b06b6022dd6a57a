"""From the cells of an answer to units of the design and groups of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Clique, Grouping, Marginal
from populace.schema.schema import Schema
from populace.survey.design import survey_columns as columns
from populace.survey.design.design import Design

_PLACE = "[design]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One column that groups rows, as its codes are or grouped; special codes come after the `levels` and are left."""

    column: str
    levels: int
    grouping: Grouping | None = None

    @classmethod
    def of(cls, schema: Schema, name: str, *, place: str) -> Axis:
        """Return the axis of a column with all its values."""
        return cls(column=name, levels=columns.scale(schema, name, place=place).levels)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DesignUnits:
    """Units that sums are asked for: by which columns, the code of each unit in each of them, and its base weight."""

    columns: Clique
    codes: tuple[Ints, ...]
    weights: Floats

    @classmethod
    def psus(cls, design: Design) -> DesignUnits:
        """Return one unit for each psu that is listed."""
        own = _codes(design, design.psu or "", [each.value for each in design.psu_list])
        above = () if design.strata is None else (_strata_codes(design)[design.stratum],)
        return cls(columns=design.cells, codes=(*above, own), weights=_base_weights(design)[design.stratum])

    @classmethod
    def strata(cls, design: Design) -> DesignUnits:
        """Return one unit for each stratum, or one for all where there are none."""
        if design.strata is None:
            return cls(columns=(), codes=(), weights=_base_weights(design))
        return cls(columns=(design.strata,), codes=(_strata_codes(design),), weights=_base_weights(design))

    @classmethod
    def whole(cls, design: Design) -> DesignUnits:
        """Return all rows as one unit; strata whose base weights differ stay apart."""
        base = _base_weights(design)
        if len(set(base.tolist())) > 1:
            return cls.strata(design)
        return cls(columns=(), codes=(), weights=base[:1])

    @classmethod
    def all_rows(cls) -> DesignUnits:
        """Return all rows as one unit, each counted once."""
        return cls(columns=(), codes=(), weights=np.ones(1))

    def by(self, axes: Sequence[Axis]) -> Marginal:
        """Return the cells that sums are asked for: units, and within them what the axes tell apart."""
        clique = (*self.columns, *(axis.column for axis in axes if axis.column not in self.columns))
        groupings = {axis.column: axis.grouping for axis in axes if axis.grouping is not None}
        return Marginal.with_groupings(clique, groupings)

    def arrange(self, answer: Floats, axes: Sequence[Axis]) -> Floats:
        """Return the cells of an answer as units × axes, without special codes.

        An axis that units are told apart by has one place for each unit; the others hold 0.

        >>> cells = DesignUnits(columns=("A",), codes=(np.array([0, 1]),), weights=np.ones(2))
        >>> cells.arrange(np.array([5.0, 6.0, 7.0]), [Axis(column="A", levels=2)]).tolist()
        [[5.0, 0.0], [0.0, 6.0]]
        """
        held = answer[self.codes] if self.columns else answer[None]
        own = [axis for axis in axes if axis.column not in self.columns]
        held = held[(slice(None), *(slice(axis.levels) for axis in own))]
        for place, axis in enumerate(axes, start=1):
            if axis.column in self.columns:
                codes = self.codes[self.columns.index(axis.column)]
                here = np.equal.outer(codes, np.arange(axis.levels)).astype(np.float64)
                shape = (len(codes), *(1,) * (place - 1), axis.levels, *(1,) * (held.ndim - place))
                held = np.expand_dims(held, place) * here.reshape(shape)
        return held


def _base_weights(design: Design) -> Floats:
    return np.array([float(each) for each in design.stratum_base])


def _strata_codes(design: Design) -> Ints:
    return _codes(design, design.strata or "", design.strata_values)


def _codes(design: Design, name: str, texts: Sequence[str]) -> Ints:
    scale = columns.scale(design.schema, name, place=_PLACE)
    return np.array([columns.code(scale, text, place=_PLACE) for text in texts], dtype=np.int64)
