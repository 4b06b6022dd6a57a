"""A stand-in for the barrier: exact sums over public rows, with noise of the same laws drawn by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from populace.core.marginals import Counts, Marginal
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.private.private_table import PrivateTable
from populace.private.survey.exact_sums import add_up
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema
from populace.survey.answer_queries import answer_queries
from populace.survey.calibration.calibrated_counts import answer_count_plan
from populace.survey.calibration.count_plan import Calibration, CountPlan
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimand, Estimate
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan
from populace.survey.sums import STEPS, Indicator, Sum
from populace.survey.survey_oracle import SumBatch
from populace.survey.variance.sampled_rows import SampledRows


class FakeSurvey:
    """Answers sums as the barrier does, fast; `noise` scales all noise, 0 for exact answers."""

    def __init__(
        self, frame: Any, *, schema: Schema, epsilon: str, delta: str = "0", seed: int = 1, noise: float = 1.0
    ) -> None:
        self._frame = frame
        self._rows = SampledRows(frame, Design(schema=schema))
        self._schema = schema
        self._budget = Budget.of(Fraction(epsilon), Fraction(delta), unit=schema.unit)
        self._rng = np.random.default_rng(seed)
        self._noise = noise

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def budget(self) -> Budget:
        return self._budget

    def sum_batches(self, batches: Sequence[SumBatch]) -> tuple[Counts, ...]:
        return tuple(
            self.exact(asked) + self._draw(mechanism, asked.shape(self._schema.domain))
            for sums, mechanism in batches
            for asked in sums
        )

    def exact(self, asked: Sum) -> Counts:
        rows, domain = self._rows, self._schema.domain
        if asked.filled is not None:
            return add_up(self._private, asked, schema=self._schema)
        kept = rows.meets(asked.where).copy()
        steps = np.full(len(kept), float(STEPS))
        for name in (*asked.known, *(factor.column for factor in asked.factors)):
            kept &= rows.known(name)
        for name in asked.positive:
            kept &= rows.numbers(name) > 0
        if asked.weights is not None:
            most = asked.weights.most
            own = np.array([float(value / most) for value in asked.weights.values])
            steps = steps * own[self._places(asked.weights.by)]
        for factor in asked.factors:
            held = np.clip(rows.numbers(factor.column), float(factor.low), float(factor.high))
            steps = steps * (held - float(factor.centre)) / float(factor.most)
        places, shape = self._places(asked.by), asked.shape(domain)
        cells = int(np.prod(asked.by.shape(domain), dtype=np.int64))
        parts = np.ones((len(kept), 1))
        for split in asked.splits:
            if isinstance(split.of, Indicator):
                place = rows.meets(split.of.that).astype(np.float64)
            else:
                kept = kept & rows.known(split.of.column)
                low, high = float(split.of.low), float(split.of.high)
                place = np.nan_to_num(
                    (np.clip(rows.numbers(split.of.column), low, high) - low) / (high - low)
                )
            own = split.parts(place)
            parts = (parts[:, :, None] * own[:, None, :]).reshape(len(kept), -1)
        found = [
            np.bincount(places[kept], weights=np.rint(steps[kept] * part[kept]), minlength=cells)
            for part in parts.T
        ]
        return np.asarray(np.stack(found, axis=-1).astype(np.int64).reshape(shape))

    @cached_property
    def _private(self) -> SurveyRows:
        return PrivateTable.of(self._frame, schema=self._schema).survey_rows()

    def _places(self, by: Marginal) -> Counts:
        places = np.zeros(len(self._rows.weight), dtype=np.int64)
        for name, size in zip(by.clique, by.shape(self._schema.domain), strict=True):
            grouping, codes = by.grouping(name), self._rows.codes(name)
            places = places * size + (codes if grouping is None else grouping.lookup[codes])
        return places

    def _draw(self, mechanism: Any, shape: tuple[int, ...]) -> Counts:
        if isinstance(mechanism, DiscreteGaussian):
            drawn = self._rng.normal(0, float(mechanism.variance) ** 0.5, shape)
        else:
            drawn = self._rng.laplace(0, float(mechanism.scale), shape)
        return np.asarray(np.rint(self._noise * drawn), dtype=np.int64)


def plan_queries(design: Design, queries: Queries, *, epsilon: int = 40) -> QueryPlan:
    """Return the plan of a run with a budget that is large enough for most of them."""
    budget = Budget.of(Fraction(epsilon), Fraction(0), unit=design.schema.unit)
    return QueryPlan.of(design, queries, budget=budget)


def answer_directly(oracle: Any, *, design: Design, queries: Queries) -> tuple[Estimate, ...]:
    """Plan queries for the budget of an oracle, and ask it."""
    return answer_queries(oracle, plan=QueryPlan.of(design, queries, budget=oracle.budget))


def estimate_counts(
    oracle: Any,
    counts: Sequence[Estimand],
    *,
    calibration: Calibration,
    share: Fraction = Fraction(1),
) -> tuple[Estimate, ...]:
    """Plan counts for a share of the budget of an oracle, and ask it."""
    plan = CountPlan(
        counts=tuple(counts), calibration=calibration, schema=oracle.schema, budget=oracle.budget, share=share
    )
    return answer_count_plan(oracle, plan=plan)
