"""Weighted counts that meet public totals of bins, exactly, with their smooth bounds: for the barrier alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb

from populace.core.array_types import Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import MAX_CANDIDATE_WEIGHT, Counts, cell_indices
from populace.privacy.sensitivity.poststratification import Bin, Binning, score_binning, smooth_weight_bound
from populace.private.survey.survey_rows import SurveyRows, find_rows
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.row_filter import RowFilter
from populace.schema.schema import Schema
from populace.survey.smooth_questions import BaseWeights, BinChoice, WeightedQuestion

# Populations of bins beyond are not told apart well by floats.
_MIN_POPULATION, _MAX_POPULATION = Fraction(1, 2**100), Fraction(2**100)
# Where bins are chosen, each stands for somebody: scores of less would grow beyond whole numbers of 64 bits.
MIN_CHOSEN_POPULATION = Fraction(1, 1000)


def check(question: WeightedQuestion | BinChoice, schema: Schema) -> None:
    """Refuse, from public facts alone, what has no answer."""
    cells = math.prod(question.by.shape(schema.domain))
    binnings = question.binnings if isinstance(question, BinChoice) else (question.binning,)
    if not binnings:
        raise UsageError("no set of bins is given.", hint="give at least one")
    if len(question.populations) != cells or cells > LIMITS.max_base_bins:
        raise UsageError(
            f"{question.by} has {cells} cells; {len(question.populations)} populations are given.",
            hint=f"give one for each cell, in order, at most {LIMITS.max_base_bins}",
        )
    for binning in binnings:
        totals = binning.totals(question.populations)
        if min(totals) <= 0:
            raise UsageError(
                f"a bin of {binning.name!r} has no population.",
                hint="give populations of 0 or more, and join those of 0 to others",
            )
        least = MIN_CHOSEN_POPULATION if isinstance(question, BinChoice) else _MIN_POPULATION
        if min(totals) < least or max(totals) > _MAX_POPULATION:
            raise UsageError(
                f"a bin of {binning.name!r} has a population that is too small or too large.",
                hint="give populations in persons",
            )
    if any(not 0 <= place < cells for place in question.nobody):
        raise UsageError(f"{question.by} has {cells} cells, numbered from 0.", hint="name cells among them")
    base = question.base
    if base.column is not None and base.column not in numeric_column_names(schema):
        raise UsageError(
            f"column {base.column!r} has no numbers that could be base weights.",
            hint="name a column of numbers that follows from no other",
        )
    if not 1 <= base.largest <= MAX_CANDIDATE_WEIGHT or not _MIN_POPULATION <= base.unit <= _MAX_POPULATION:
        raise UsageError(
            f"base weights are given in units of {base.unit} up to {base.largest} of them.",
            hint=f"give a unit above 0, and a whole number of them from 1 to {MAX_CANDIDATE_WEIGHT}",
        )
    if isinstance(question, WeightedQuestion):
        if not question.beta > 0:
            raise UsageError(f"beta is {question.beta}.", hint="give a number above 0")
        if question.where is not None:
            RowFilter.of(question.where, schema=schema)


def answer(
    rows: SurveyRows, question: WeightedQuestion, schema: Schema
) -> tuple[Fraction, Callable[[], arb]]:
    """Return Σ N̂(S)·(base weights in S where the condition holds)/(base weights in S), and its β-smooth bound.

    A bin without rows adds nothing; a row without a base weight above 0, or where nobody counts, is in none.
    Proof: docs/proofs/binning.md
    """
    place = cell_indices(question.by, codes=rows.codes, domain=schema.domain)
    drawn = _counted_rows(question, rows=rows, place=place)
    weights = _base_weights(question.base, rows=rows, drawn=drawn)
    joined = question.binning.bin_of_base()[place[drawn]]
    size = len(question.binning.bins)
    held = find_rows(question.where, rows=rows, schema=schema)[drawn]
    # Whole numbers, added up exactly.
    whole, counted = np.zeros((2, size), dtype=np.int64)
    np.add.at(whole, joined, weights)
    np.add.at(counted, joined[held], weights[held])
    total = Fraction(0)
    for population, part, everyone in zip(
        question.binning.totals(question.populations), counted, whole, strict=True
    ):
        if everyone:
            total += population * int(part) / int(everyone)
    bins = _bins(question.binning, joined, weights, question=question)
    return total, lambda: smooth_weight_bound(bins, beta=question.beta)


def scores(rows: SurveyRows, choice: BinChoice, schema: Schema) -> list[Fraction]:
    """Return |S|/W₀ of each set of bins."""
    place = cell_indices(choice.by, codes=rows.codes, domain=schema.domain)
    drawn = _counted_rows(choice, rows=rows, place=place)
    weights = _base_weights(choice.base, rows=rows, drawn=drawn)
    return [
        score_binning(_bins(binning, binning.bin_of_base()[place[drawn]], weights, question=choice))
        for binning in choice.binnings
    ]


def _counted_rows(question: WeightedQuestion | BinChoice, *, rows: SurveyRows, place: Counts) -> Truth:
    """Say which rows count: those whose base weight is known and above 0, in base bins where somebody can be.

    Each row decides alone.
    """
    counts = np.ones(len(question.populations), dtype=np.bool_)
    counts[list(question.nobody)] = False
    column = question.base.column
    return counts[place] if column is None else counts[place] & (rows.numbers[column] > 0)


def _base_weights(base: BaseWeights, *, rows: SurveyRows, drawn: Truth) -> Counts:
    """Return the base weight of each row that was drawn, in units, from 1 to the largest."""
    if base.column is None:
        return np.ones(int(drawn.sum()), dtype=np.int64)
    units = rows.numbers[base.column][drawn] / float(base.unit)
    return np.rint(np.clip(units, 1, base.largest)).astype(np.int64)


def _bins(
    binning: Binning, joined: Counts, weights: Counts, *, question: WeightedQuestion | BinChoice
) -> list[Bin]:
    """Return the bins with the base weights of the rows in each."""
    equal = question.base.column is None
    ordered = weights if equal else weights[np.argsort(joined, kind="stable")]
    parts = np.split(ordered, np.cumsum(np.bincount(joined, minlength=len(binning.bins)))[:-1])
    largest = 1 if equal else question.base.largest
    totals = binning.totals(question.populations)
    return [
        Bin(total=total, weights=part, largest=largest) for total, part in zip(totals, parts, strict=True)
    ]
