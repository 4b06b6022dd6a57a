"""Rows of a survey invented from public facts: what a schema, a design and published tables say of them.

Categories lie as published shares have them, else evenly. Numbers lie in the bins that shares give them, else in a bell
over the declared bins: who writes a schema cuts finer where people are. Rows outside a column's universe have no value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from populace.core.array_types import Floats, Ints, Truth
from populace.planning.simulated.column_shares import (
    SharesSource,
    compute_declared_shares,
    read_shares,
)
from populace.planning.simulated.simulated_run import close_domains
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.codec.numeric_values import numeric_column_names
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.unknown_columns import fill_unknown_domain
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.queries.cells import DesignUnits
from populace.survey.queries.expected_variance import ASSUMED_WEIGHT_SHARE, expected_weighting_effect

# Numbers without declared bins are taken to lie around this part of their range, and to deviate by this part of it;
# those with bins around the middle one of them.
ASSUMED_PLACE, ASSUMED_DEVIATION = 0.4, 0.2
ASSUMED_MIDDLE = 0.5
# With so many bins, they are no more than the values of a range.
_MIN_BINS, _MAX_BINS = 4, 100


def assume_row_weight(design: Design, rows: int) -> float:
    """Return what a row is taken to weigh: its part of the population where that is public."""
    if design.weights is None:
        return 1.0
    most = float(design.weight_bound)
    known = most * ASSUMED_WEIGHT_SHARE if design.population is None else float(design.population) / rows
    return min(known, most)


def read_column_shares(source: SharesSource | None, *, schema: Schema) -> dict[str, Floats]:
    """Return the public shares of codes, of a file or declared by totals of the schema; NaN where they are open."""
    known = compute_declared_shares(schema)
    if source is not None:
        known |= read_shares(source, schema=schema, closed=close_domains(schema))
    return known


def invent_rows(
    design: Design, *, count: int, rows: int, shares: Mapping[str, Floats], rng: np.random.Generator
) -> SurveyRows:
    """Return so many invented rows of a sample of `rows`."""
    schema = design.schema
    single = {name: column for name, column in schema.columns.items() if len(column.variables) == 1}
    codes: dict[str, Ints] = {}
    for name, size in schema.domain.items():
        if name in shares and name in single:
            likely = _fill_evenly(shares[name], levels=fill_unknown_domain(single[name]).levels)
            codes[name] = rng.choice(len(likely), size=count, p=likely)
        else:
            # Of a column that is one variable, values and not special codes.
            codes[name] = rng.integers(0, single[name].levels if name in single else size, count)
    numbers: dict[str, Floats] = {}
    for name in numeric_column_names(schema):
        own = codes[name] if name in shares and name in single else None
        drawn, numbers[name] = _draw_numbers(schema, name, count, codes=own, rng=rng)
        if name in codes and own is None:
            codes[name] = drawn
    for rule in schema.rulebook.universes:
        out = ~np.broadcast_to(rule.condition(codes), (count,))
        codes[rule.variable] = _keep_universe(codes[rule.variable], out, outside=rule.outside, rng=rng)
        if rule.variable in numbers:
            levels = fill_unknown_domain(schema.columns[rule.variable]).levels
            numbers[rule.variable] = np.where(codes[rule.variable] < levels, numbers[rule.variable], np.nan)
    if design.clustered:
        # Rows elsewhere would not count.
        units = DesignUnits.psus(design)
        place = rng.integers(0, len(units.weights), count)
        for name, values in zip(units.columns, units.codes, strict=True):
            if name in codes:
                codes[name] = values[place]
    weight = _draw_weights(design, count=count, mean=assume_row_weight(design, rows), rng=rng)
    replicates = () if design.replicates is None else design.replicates.columns
    for name in (*replicates, *([design.weights] if design.weights else [])):
        numbers[name] = weight
    return SurveyRows(codes=codes, numbers=numbers)


def _fill_evenly(known: Floats, *, levels: int) -> Floats:
    """Return shares of all codes: what is left of the known ones goes to the other values, in equal parts."""
    open_codes = np.isnan(known) & (np.arange(len(known)) < levels)
    found = np.nan_to_num(known)
    found[open_codes] = max(0.0, 1 - float(found.sum())) / max(1, int(open_codes.sum()))
    whole: Floats = found / found.sum()
    return whole


def _draw_weights(design: Design, *, count: int, mean: float, rng: np.random.Generator) -> Floats:
    """Return log-normal weights with the weighting effect of the design, cut at the most and with the mean then."""
    deviation = math.sqrt(math.log(expected_weighting_effect(design)))
    weight = np.exp(deviation * rng.standard_normal(count))
    most = float(design.weight_bound) if design.weights is not None else math.inf
    weight *= mean / weight.mean()
    for _ in range(3):
        weight = np.minimum(weight * (mean / np.minimum(weight, most).mean()), most)
    return weight


def _keep_universe(codes: Ints, out: Truth, *, outside: int, rng: np.random.Generator) -> Ints:
    """Return codes that are `outside` where rows are, and nowhere else: others take the code of a row inside."""
    inside = np.flatnonzero((codes != outside) & ~out)
    wrong = (codes == outside) & ~out
    found = np.where(out, outside, codes)
    if inside.size and wrong.any():
        found[wrong] = codes[rng.choice(inside, size=int(wrong.sum()))]
    return found


def _draw_numbers(
    schema: Schema, name: str, count: int, *, codes: Ints | None, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Return codes and numbers of a column: evenly within the given codes, or in a bell over its bins or its range."""
    column = fill_unknown_domain(schema.columns[name])
    if not isinstance(column, IntegerColumn | DecimalColumn | TemporalColumn):
        raise TypeError(f"column {name!r} has no numbers")
    ends = np.array([[float(end) for end in column.bounds(level)] for level in range(column.levels)])
    if codes is None and _MIN_BINS <= len(ends) <= _MAX_BINS:
        place = ASSUMED_MIDDLE + ASSUMED_DEVIATION * rng.standard_normal(count)
        order = np.argsort(ends[:, 0], kind="stable")
        codes = order[np.clip((len(ends) * place).astype(np.int64), 0, len(ends) - 1)]
    if codes is not None:
        known = codes < len(ends)
        low, high = ends[np.where(known, codes, 0)].T
        return codes, np.where(known, low + (high - low) * rng.random(count), np.nan)
    low, high = float(ends.min()), float(ends.max())
    found: Floats = low + (high - low) * np.clip(
        ASSUMED_PLACE + ASSUMED_DEVIATION * rng.standard_normal(count), 0.0, 1.0
    )
    starts = ends[:, 0]
    order = np.argsort(starts, kind="stable")
    nearest = np.clip(np.searchsorted(starts[order], found, side="right") - 1, 0, len(ends) - 1)
    return order[nearest].astype(np.int64), found
