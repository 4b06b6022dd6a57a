"""Sums over private rows, exactly: each row adds a whole number of steps, shared out over cells. For the barrier alone.

Proof: docs/proofs/sums.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Counts, Marginal, cell_indices
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDeltaGaussian,
    is_drawable,
)
from populace.private.question_checks import check_marginals
from populace.private.survey.hot_deck import check_deck, fill_rows
from populace.private.survey.survey_rows import SurveyRows, find_rows, read_where
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.schema import Schema
from populace.survey.sums import Indicator, MomentSplit, Sum

# Numbers beyond are not told apart well by floats.
_MAX_MAGNITUDE = 2**200


def check_sums(sums: Sequence[Sum], *, schema: Schema) -> None:
    """Refuse, from public facts alone, sums that cannot be added up."""
    if not sums:
        raise UsageError("the question names no sum.", hint="ask for at least one")
    for asked in sums:
        _check_cells(asked.by, schema=schema, within=math.prod(asked.shape(schema.domain)))
        if asked.weights is not None:
            cells = _check_cells(asked.weights.by, schema=schema)
            if len(asked.weights.values) != cells:
                raise UsageError(
                    f"{len(asked.weights.values)} weights are given for {cells} cells of {asked.weights.by}.",
                    hint="give one for each cell, in order",
                )
        _check_columns(asked, schema=schema)
        if asked.filled is not None:
            check_deck(asked.filled, by=asked.by, schema=schema)


def _check_cells(by: Marginal, *, schema: Schema, within: int | None = None) -> int:
    check_marginals([by], domain=schema.domain)
    cells = within or math.prod(by.shape(schema.domain))
    if cells > LIMITS.max_sum_cells:
        raise UsageError(
            f"a sum by {by} has {cells} cells; the most is {LIMITS.max_sum_cells}.",
            hint="add up by fewer columns",
        )
    return cells


def _check_columns(asked: Sum, *, schema: Schema) -> None:
    numbers = numeric_column_names(schema)
    for factor in (*asked.factors, *(split.of for split in asked.splits)):
        if isinstance(factor, Indicator):
            read_where(factor.that, schema=schema)
            if not abs(factor.centre) <= _MAX_MAGNITUDE:
                raise UsageError(
                    f"the centre of {factor} is too large to be subtracted.",
                    hint="give a share between 0 and 1",
                )
            continue
        if factor.column not in numbers:
            raise UsageError(
                f"column {factor.column!r} has no numbers to add up.",
                hint="name a column of numbers that follows from no other",
            )
        ends = factor.low, factor.high, factor.centre, 1 / factor.most
        if max(abs(end) for end in ends) > _MAX_MAGNITUDE:
            raise UsageError(
                f"the range of {factor.column!r} is too large, or too narrow, to be added up.",
                hint="give ends of a reasonable size",
            )
    if unnumbered := [name for name in asked.positive if name not in numbers]:
        raise UsageError(
            f"column {unnumbered[0]!r} has no numbers that could be above 0.",
            hint="name a column of numbers that follows from no other",
        )
    for name in asked.known:
        if name not in schema.columns or (schema.columns[name].unknown and name not in numbers):
            raise UsageError(
                f"the schema has no column {name!r} of known values.", hint="ask for columns of the schema"
            )
        if name not in numbers:
            schema.layout.view(name)
    if asked.where is not None:
        read_where(asked.where, schema=schema)


def check_noise(noise: object) -> None:
    """Refuse noise that whole numbers in steps do not go with, or that could not be drawn once it is paid for."""
    if type(noise) not in (DiscreteGaussian, DiscreteLaplace, EpsilonDeltaGaussian):
        raise UsageError(f"steps cannot be released with {noise}.", hint="add Gaussian or Laplace noise")
    if isinstance(noise, DiscreteGaussian | DiscreteLaplace) and not is_drawable(noise):
        raise UsageError(
            f"epsilon is too small for so many questions: {noise} is too wide to be drawn.",
            hint="ask for less, or with a larger epsilon",
        )


def add_up(rows: SurveyRows, asked: Sum, *, schema: Schema, key: str = "") -> Counts:
    """Return what all rows add to each cell, in steps and in the shape of the sum.

    `key` is public and of the run alone: it decides which donors are next. Proof: docs/proofs/donor-limit.md
    """
    if asked.filled is not None:
        rows = fill_rows(rows, asked.filled, schema=schema, key=key)
    shape = asked.shape(schema.domain)
    cells = cell_indices(asked.by, codes=rows.codes, domain=schema.domain)
    base = math.prod(asked.by.shape(schema.domain))
    found = np.zeros((base, math.prod(shape) // base), dtype=np.int64)
    for number, steps in enumerate(split_contributions(rows, asked, schema=schema)):
        # Whole numbers: their order does not matter, and 2^38 rows are far from 2^63 steps.
        np.add.at(found[:, number], cells, steps)
    return found.reshape(shape)


def split_contributions(rows: SurveyRows, asked: Sum, *, schema: Schema) -> Iterator[Counts]:
    """Yield what each row adds to each cell of its splits: whole numbers of one sign that add up to what it adds.

    The parts so far are rounded together, and the last cell takes what is left, so that nothing is added twice.
    """
    whole = row_contributions(rows, asked, schema=schema)
    if not asked.splits:
        yield whole
        return
    size, sign = np.abs(whole), np.sign(whole)
    parts = [split.parts(_find_places(rows, split, schema=schema)) for split in asked.splits]
    reached, given = np.zeros(len(size)), np.zeros(len(size), dtype=np.int64)
    *cells, _ = product(*(range(each.shape[1]) for each in parts))
    for cell in cells:
        reached += math.prod(each[:, place] for each, place in zip(parts, cell, strict=True))
        up_to = np.minimum(np.maximum(np.rint(size * reached).astype(np.int64), given), size)
        yield sign * (up_to - given)
        given = up_to
    yield sign * (size - given)


def _find_places(rows: SurveyRows, split: MomentSplit, *, schema: Schema) -> Floats:
    """Return where the number of each row lies in its range, from 0 to 1; 0 where it has none and does not count."""
    if isinstance(split.of, Indicator):
        return find_rows(split.of.that, rows=rows, schema=schema).astype(np.float64)
    low, high = float(split.of.low), float(split.of.high)
    held = np.clip(rows.numbers[split.of.column], low, high)
    found: Floats = np.clip(np.nan_to_num((held - low) / (high - low), nan=0.0), 0.0, 1.0)
    return found


def row_contributions(rows: SurveyRows, asked: Sum, *, schema: Schema) -> Counts:
    """Return what each row adds to all cells together, in steps up to the sum's own most: 0 where it does not count.

    A row's number follows from what it holds alone. Each factor is a share of the most it can be: nothing grows.
    """
    counts = find_rows(asked.where, rows=rows, schema=schema).copy()
    for name in asked.known:
        counts &= (
            ~np.isnan(rows.numbers[name]) if name in rows.numbers else _has_value(rows, name, schema=schema)
        )
    for name in asked.positive:
        counts &= rows.numbers[name] > 0
    for split in asked.splits:
        if not isinstance(split.of, Indicator):
            counts &= ~np.isnan(rows.numbers[split.of.column])
    share = np.ones(len(counts), dtype=np.float64)
    if asked.weights is not None:
        parts = np.array([float(value) for value in asked.weights.values]) / float(asked.weights.most)
        share = parts[cell_indices(asked.weights.by, codes=rows.codes, domain=schema.domain)]
    for factor in asked.factors:
        if isinstance(factor, Indicator):
            holds = find_rows(factor.that, rows=rows, schema=schema)
            share = share * ((holds - float(factor.centre)) / float(factor.most))
            continue
        numbers = rows.numbers[factor.column]
        counts &= ~np.isnan(numbers)
        held = np.clip(numbers, float(factor.low), float(factor.high))
        share *= (held - float(factor.centre)) / float(factor.most)
    most = asked.row_steps
    steps: Counts = np.rint(np.where(counts, share, 0.0) * most).astype(np.int64)
    return np.minimum(np.maximum(steps, -most), most)


def _has_value(rows: SurveyRows, name: str, *, schema: Schema) -> npt.NDArray[np.bool_]:
    view = schema.layout.view(name)
    own = view.codes[tuple(rows.codes[variable] for variable in view.variables)]
    return np.asarray(own < view.scale.levels)
