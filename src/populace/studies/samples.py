"""Samples of a population by a public design, and what an estimator may know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.errors import UsageError
from populace.schema.hints import quote_names
from populace.studies.study import SampleDesign, SampleKind
from populace.studies.truths import Truth
from populace.survey.design import survey_columns as columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """The numbers of the rows drawn, in order, and the fields of the `Design` that belong to it."""

    rows: Ints
    fields: Mapping[str, Any]


def draw_sample(design: SampleDesign, truth: Truth, *, rng: np.random.Generator) -> Sample:
    """Draw a sample. Rates that differ by condition are not among the fields: nobody knows them."""
    if design.kind is SampleKind.ALL:
        return Sample(rows=np.arange(truth.size), fields={})
    if design.kind is SampleKind.STRATIFIED:
        return _draw_stratified(design, truth, rng=rng)
    if design.kind is SampleKind.CLUSTER:
        return _draw_clusters(design, truth, rng=rng)
    if design.n is not None:
        size = _check_size(design.n, truth.size)
        rows, weight = rng.choice(truth.size, size, replace=False), Fraction(truth.size, size)
    else:
        rates = row_rates(design, truth)
        weight = 1 / (design.rate or Fraction(1))
        if design.kind is SampleKind.POISSON:
            rows = np.flatnonzero(rng.random(truth.size) < rates)
        else:
            groups = [np.flatnonzero(rates == rate) for rate in np.unique(rates)]
            drawn = [rng.choice(own, round(float(rates[own[0]]) * own.size), replace=False) for own in groups]
            rows = np.concatenate(drawn)
    return Sample(rows=np.sort(rows), fields={"base": weight, "fpc": Fraction(truth.size)})


def row_rates(design: SampleDesign, truth: Truth) -> Floats:
    """Return the rate of every row: that of the first condition it meets, or that of everybody else."""
    found = np.full(truth.size, float(design.rate or 1))
    for condition, rate in reversed(design.rates):
        found[truth.rows.meets(condition)] = float(rate)
    return found


def _check_size(asked: int, there: int) -> int:
    if asked > there:
        raise UsageError(
            f"[sample]: {asked} of {there} are to be drawn.", hint="draw at most as many as there are"
        )
    return asked


def _draw_stratified(design: SampleDesign, truth: Truth, *, rng: np.random.Generator) -> Sample:
    name = design.strata or ""
    scale = columns.scale(truth.schema, name, place="[sample]")
    codes = truth.rows.codes(name)
    if left := [value for value in columns.values(scale) if value not in design.sizes]:
        raise UsageError(
            f"[sample]: sizes say nothing of {quote_names(left)}.", hint="give a size to every stratum"
        )
    rows, base, fpc = [], {}, {}
    for stratum, size in design.sizes.items():
        own = np.flatnonzero(codes == columns.code(scale, stratum, place="[sample.sizes]"))
        rows.append(rng.choice(own, _check_size(size, own.size), replace=False))
        base[stratum], fpc[stratum] = Fraction(own.size, max(size, 1)), Fraction(max(own.size, 1))
    fields = {"strata": name, "base": base, "fpc": fpc}
    return Sample(rows=np.sort(np.concatenate(rows)), fields=fields)


def _draw_clusters(design: SampleDesign, truth: Truth, *, rng: np.random.Generator) -> Sample:
    """Draw whole clusters, or with `rate` that part of each."""
    name = design.psu or ""
    scale = columns.scale(truth.schema, name, place="[sample]")
    codes = truth.rows.codes(name)
    present = np.unique(codes[codes < scale.levels])
    drawn = np.sort(rng.choice(present, _check_size(design.n or 0, present.size), replace=False))
    inside = np.isin(codes, drawn)
    if design.rate is not None:
        inside &= rng.random(truth.size) < float(design.rate)
    fields = {
        "psu": name,
        "psus": {"": [scale.text(int(code)) for code in drawn]},
        "base": Fraction(int(present.size), int(drawn.size)) / (design.rate or 1),
        "fpc": Fraction(int(present.size)),
    }
    return Sample(rows=np.flatnonzero(inside), fields=fields)
