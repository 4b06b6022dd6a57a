"""The plan of a hierarchical release: margins of error of every level and table, exact before anything is spent.

Variances of the unbiased estimates follow from schema, units, budget and ε alone, so nothing is simulated. A public
population says how large a unit is on average, and so how large a margin is beside a count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.marginals import Clique, Marginal
from populace.core.notebook_html import Bar, render_card
from populace.core.spine import Spine
from populace.inference.hierarchy.hierarchy_estimates import HierarchyEstimates, choose_filter
from populace.inference.hierarchy.hierarchy_margins import unit_margins
from populace.inference.hierarchy.hierarchy_plan import HierarchyPlan
from populace.inference.hierarchy.measured_hierarchy import (
    build_hierarchy_plan,
    build_member_plan,
    cell_domain,
    require_geography,
)
from populace.measurements.level_queries import place_marginal
from populace.methods.method import PlannedQuestion
from populace.planning.level_cost import ASSUMED_MEMBERS, COST
from populace.planning.simulated.simulated_run import RunTerms
from populace.privacy.accounting.mechanisms import DiscreteLaplace
from populace.release.report.hierarchy.hierarchy_report import make_plural
from populace.release.statement.membership_power import Protection
from populace.release.statement.statement import round_to_float
from populace.release.streamed_table import can_stream
from populace.sampling.row_blocks import MAX_BLOCK_ROWS
from populace.schema.schema import Schema


class LevelVerdict(Enum):
    """What the counts of a level's units are good for, by their margin of error beside an average count."""

    EXACT = "known exactly"
    SINGLE = "usable one by one"
    MARGINS = "usable with their margins"
    SUMS = "usable only in sums"
    NOISE = "mostly noise: usable only in sums of many"

    @classmethod
    def of(cls, relative: float) -> LevelVerdict:
        """Return the verdict on a margin of error of this share of an average count.

        >>> [LevelVerdict.of(share).value for share in (0.0, 0.01, 0.1, 0.225)]
        ['known exactly', 'usable one by one', 'usable with their margins', 'usable only in sums']
        """
        limits = ((0.0, cls.EXACT), (0.05, cls.SINGLE), (0.2, cls.MARGINS), (1.0, cls.SUMS))
        return next((verdict for limit, verdict in limits if relative <= limit), cls.NOISE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForecast:
    """One table in the units of a level: the 95 % margins of error of its counts, and an average count.

    `table` is the one of two linked tables that is counted. `margin` is the median over units and cells, `margin_low`
    and `margin_high` the least and the most. `noise` is the variance of the noise in a count of the level's own query,
    None where the level does not ask it.
    """

    columns: Clique
    cells: int
    average: float
    table: str | None
    margin: float
    margin_low: float
    margin_high: float
    noise: float | None

    @property
    def name(self) -> str:
        """The table as readers know it."""
        name = " × ".join(self.columns) or "total"
        return name if self.table is None else f"{self.table}: {name}"

    @property
    def relative(self) -> float:
        """The median margin beside an average count."""
        return self.margin / self.average

    @property
    def verdict(self) -> LevelVerdict:
        """What single counts of the table are good for."""
        return LevelVerdict.of(self.relative)

    def to_json(self) -> dict[str, Any]:
        """Return the table for a machine."""
        return {
            **({} if self.table is None else {"table": self.table}),
            "query": " × ".join(self.columns) or "total",
            "cells": self.cells,
            "average": _digits(self.average),
            "margin": _digits(self.margin),
            "margin_range": [_digits(self.margin_low), _digits(self.margin_high)],
            "relative_margin": _digits(self.relative),
            "variance": self.noise,
            "sigma": None if self.noise is None else _digits(math.sqrt(self.noise)),
            "verdict": self.verdict.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelForecast:
    """One level: its units, its share of the budget, and its tables, the total first and all columns last."""

    name: str
    units: int
    share: float
    tables: tuple[TableForecast, ...]

    @property
    def total(self) -> TableForecast:
        """The totals of its units."""
        return self.tables[0]

    def to_json(self) -> dict[str, Any]:
        """Return the level for a machine."""
        return {
            "level": self.name,
            "units": self.units,
            "share": _digits(self.share),
            "average_unit": _digits(self.total.average),
            "verdict": self.total.verdict.value,
            "queries": [table.to_json() for table in self.tables],
        }


@dataclass(frozen=True, kw_only=True)
class GeographyPlan:
    """What to expect of a hierarchical release. Margins are exact; what depends on the population is an average.

    `questions` are what the method will ask. `epsilon_for_target` is the ε with which totals of the smallest units have
    a margin of at most `target_error` of an average unit.
    """

    schema: Schema
    population: int
    epsilon: Fraction
    delta: Fraction
    membership_power: float
    method: str
    workload: str
    questions: tuple[PlannedQuestion, ...]
    target_error: float | None = None
    epsilon_for_target: Fraction | None = None

    @classmethod
    def of(cls, terms: RunTerms, *, population: int) -> GeographyPlan:
        """Return the plan of a run whose method says what it will ask."""
        if terms.method.plan_questions is None:
            raise UsageError(
                f"the method {terms.method.name!r} decides what it asks as it goes.", hint="simulate it"
            )
        return cls(
            schema=terms.schema,
            population=population,
            epsilon=terms.epsilon,
            delta=terms.delta,
            membership_power=terms.membership_power,
            method=terms.method.name,
            workload=terms.workload.label,
            questions=terms.method.plan_questions(terms.schema, terms.workload, terms.budget),
        )

    def __repr__(self) -> str:
        worst = self.levels[-1]
        return (
            f"Plan for {self.population:,} {self.plural} at ε = {self.epsilon}: {describe_level(worst, self)}"
        )

    def _repr_html_(self) -> str:
        facts = {f"{self.plural}:": f"{self.population:,}", "ε =": self.epsilon, "method": self.method}
        rows = [
            [
                level.name,
                f"{level.units:,}",
                f"± {level.total.margin:.3g}",
                Bar(min(1.0, level.total.relative)),
            ]
            for level in self.levels
        ]
        header = ("level", "units", "margin of totals", "beside an average unit")
        return render_card(
            "Plan", facts, header=header, rows=rows, note="95 % margins of error, known exactly"
        )

    @property
    def plural(self) -> str:
        """What several protected units are called."""
        return make_plural(self.schema.unit.word)

    @cached_property
    def hierarchy(self) -> HierarchyPlan:
        """What is measured, level by level."""
        geography = require_geography(self.schema)
        exact = [
            (geography.marginal(geography.spine.levels.index(name)), Fraction(0))
            for name in self.schema.invariants
        ]
        return build_hierarchy_plan(self.schema, [*exact, *self._list_queries(set(cell_domain(self.schema)))])

    def _list_queries(self, columns: Collection[str]) -> list[tuple[Marginal, Fraction]]:
        """Return the questions about some columns alone, with the variance of their noise."""
        geography = require_geography(self.schema)
        return [
            (each.marginal, each.noise.variance)
            for each in self.questions
            if set(place_marginal(each.marginal, geography)[1].clique) <= set(columns)
        ]

    @cached_property
    def members(self) -> HierarchyPlan | None:
        """What is measured of the members of linked tables; None of a single table."""
        if self.schema.linked is None:
            return None
        return build_member_plan(self.schema, self._list_queries(self.schema.domain))

    @property
    def spine(self) -> Spine:
        """The units of every level."""
        return self.hierarchy.spine

    @cached_property
    def _estimates(self) -> Mapping[bool, HierarchyEstimates]:
        """The estimates as far as they are known, without cells, with every variance: of the table, and of members."""
        return {
            of_members: HierarchyEstimates(form=choose_filter(plan), cells=())
            for of_members, plan in ((False, self.hierarchy), (True, self.members))
            if plan is not None
        }

    def variance(self, clique: Clique, *, level: int, members: bool = False) -> Floats:
        """Return the variance that the release will state for every cell of a marginal: (units, *shape)."""
        return self._estimates[members].variance(clique, level=level)

    @cached_property
    def levels(self) -> tuple[LevelForecast, ...]:
        """Every level, widest first."""
        geography = require_geography(self.schema)
        shares = [0.0] * self.spine.depth
        for each in self.questions:
            shares[place_marginal(each.marginal, geography)[0]] += float(each.share)
        return tuple(
            LevelForecast(
                name=name,
                units=self.spine.units(level),
                share=shares[level],
                tables=tuple(
                    self.forecast(clique, level=level, members=members)
                    for members, plan in ((False, self.hierarchy), (True, self.members))
                    if plan is not None
                    for clique in plan.list_tables()
                ),
            )
            for level, name in enumerate(self.spine.levels)
        )

    def forecast(self, clique: Clique, *, level: int, members: bool = False) -> TableForecast:
        """Return the margins of a table in the units of a level; of linked tables, that of the units or the members."""
        linked = self.schema.linked
        plan = self.members if members and self.members is not None else self.hierarchy
        counted = self.population * (self.members_per_unit if members else 1.0)
        laplace = any(isinstance(each.noise, DiscreteLaplace) for each in self.questions)
        found = unit_margins(self._estimates[members], clique, level=level, laplace=laplace)
        possible = plan.possible_in(clique).ravel()
        margins = found.reshape(len(found), -1)[:, possible]
        own = [
            float(query.variance)
            for query in plan.levels[level].queries
            if query.marginal.clique == clique and not query.marginal.groupings
        ]
        return TableForecast(
            columns=clique,
            cells=int(possible.sum()),
            average=counted / margins.size,
            table=None if linked is None else linked.members if members else linked.units,
            margin=float(np.median(margins)),
            margin_low=float(margins.min()),
            margin_high=float(margins.max()),
            noise=own[0] if own else None,
        )

    @property
    def members_per_unit(self) -> float:
        """How many members a unit is taken to have: nothing public says it, and margins do not depend on it."""
        most = 1 if self.schema.linked is None else self.schema.linked.max_rows
        return min(ASSUMED_MEMBERS, float(most))

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The counts of all levels, the noisy counts, and about how many rows are released."""
        plans = [self.hierarchy] if self.members is None else [self.hierarchy, self.members]
        units = sum(self.spine.units(level) for level in range(self.spine.depth))
        counts = units * sum(plan.cells for plan in plans)
        noisy = sum(
            self.spine.units(level) * plan.domain.cells(query.marginal.clique)
            for plan in plans
            for level, measured in enumerate(plan.levels)
            for query in measured.queries
        )
        cells = self.spine.leaves * self.hierarchy.cells
        # Counted rows are the cells that somebody is in: at most one per person.
        rows = self.population if self.schema.frequency is None else min(self.population, cells)
        return {"counts": counts, "noisy": noisy, "rows": rows}

    @property
    def seconds(self) -> float:
        """About how long the run takes, on one core."""
        return (
            COST.base_seconds
            + COST.count_seconds * self.sizes["counts"]
            + COST.row_seconds * self.sizes["rows"]
        )

    @property
    def memory(self) -> float:
        """About how many bytes the run holds at once; rows of one table are drawn block by block."""
        rows = self.sizes["rows"]
        rows = min(rows, MAX_BLOCK_ROWS) if can_stream(self.schema) else rows
        return COST.base_bytes + COST.count_bytes * self.sizes["counts"] + COST.row_bytes * rows

    @property
    def file_sizes(self) -> Mapping[str, float]:
        """About how many bytes each file of the release has."""
        fields = len(self.schema.columns)
        return {
            "tables.parquet": COST.table_file_bytes * self.sizes["counts"],
            "noisy_measurements.parquet": COST.measured_file_bytes * self.sizes["noisy"],
            "synthetic.csv": (COST.row_file_bytes + COST.field_file_bytes * fields) * self.sizes["rows"],
        }

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a machine."""
        needed = self.epsilon_for_target
        return {
            "population": self.population,
            "epsilon": round_to_float(self.epsilon),
            "delta": round_to_float(self.delta),
            "membership_power": self.membership_power,
            "protection": Protection.of(self.membership_power).value,
            "method": self.method,
            "workload": self.workload,
            "spent": 0,
            "confidence": 0.95,
            "levels": [level.to_json() for level in self.levels],
            "cpu_seconds": round(self.seconds, 1),
            "peak_megabytes": round(self.memory / 1e6),
            "megabytes": {name: round(size / 1e6, 1) for name, size in self.file_sizes.items()},
            "verdict": self.levels[-1].total.verdict.value,
            "target_error": self.target_error,
            "epsilon_for_target": None if needed is None else float(needed),
        }


def describe_level(level: LevelForecast, plan: GeographyPlan) -> str:
    """Return what the totals of a level are good for, in a sentence."""
    total, whole = level.total, level.units == 1
    name = "total of the whole table" if whole else f"{level.name} totals"
    if total.verdict is LevelVerdict.EXACT:
        return f"{name}: {total.verdict.value}"
    beside = "of about" if whole else "at an average of"
    return (
        f"{name}: ± {format_count(total.margin)} {plan.plural} {beside} "
        f"{format_count(total.average)}: {total.verdict.value}"
    )


def format_count(value: float) -> str:
    """Return a count with about three digits.

    >>> format_count(260908273.0), format_count(41.8), format_count(3.14159)
    ('260,908,273', '42', '3.1')
    """
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
