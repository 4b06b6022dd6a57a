"""Models of histograms: bins as they were measured, clamped or cut, and copied as often as they say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.inference.constraints.rule_potentials import RulePotentials
from populace.inference.factor import Table
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.gls.observations import Observation, observe
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement

# Bins below so many times scale · log10(bins) are cut. Half as many let noise fill too many bins of large groups, and
# twice as many lose those of common but even ones.
CUT_FACTOR = 0.5
_EFFORT = FitEffort(rounds=8, floor=1e-9, sweeps=50, steps=0, tolerance=1e-6, exact=True)


def histogram_model(items: Sequence[Measurement], *, space: ModelSpace) -> Model:
    """Return the model of one histogram over all columns, with every bin clamped at 0.

    Its rows, drawn in as many as it expects, hold each combination exactly as often as its bin says.
    """
    domain = space.domain
    (seen,) = (each for each in _observe_groups(items, domain=domain) if len(each.clique) == len(domain))
    allowed = RulePotentials(space).allowed_cells(seen.clique)
    table = np.where(allowed, np.maximum(np.rint(seen.values), 0.0), 0.0)
    return _product_model(
        {seen.clique: table if table.any() else allowed.astype(float)}, domain, total=table.sum()
    )


def field_groups_model(items: Sequence[Measurement], *, space: ModelSpace) -> Model:
    """Return the model of histograms over groups of columns: a row draws one bin of each group.

    Bins below c·scale·log10(bins) are cut to 0 and the others rounded. A group of which nothing is left is even. The
    number of rows is that of the groups as measured, before the cut, each weighted by its noise. Where rules or public
    totals tie groups together, the model is fitted to the tables under them, and what was cut may return in traces.
    """
    observed = _observe_groups(items, domain=space.domain)
    potentials = RulePotentials(space)
    weights = np.array([1 / float(each.variance.sum()) for each in observed])
    sums = np.array([float(each.values.sum()) for each in observed])
    total = float(weights @ sums / weights.sum()) if space.rows is None else space.rows
    tables: dict[Clique, Table] = {}
    for each in observed:
        allowed = potentials.allowed_cells(each.clique)
        table = np.where(allowed, cut_noise_bins(each), 0.0)
        tables[each.clique] = table if table.any() else allowed.astype(float)
    if not potentials.has_rules and not space.totals:
        return _product_model(tables, space.domain, total=total)
    estimator = Estimator(space)
    rows = max(1.0, total)
    estimator.replace_observations(
        Observation(each.clique, tables[each.clique] * (rows / tables[each.clique].sum()), each.variance)
        for each in observed
    )
    estimator.refit(effort=_EFFORT)
    return estimator.model()


def cut_noise_bins(seen: Observation) -> Table:
    """Return the bins of a group, rounded, without those that noise alone could have filled.

    Noise of variance v is taken for Laplace noise: its scale is 1/(2·asinh(1/√2v)).

    >>> seen = Observation(("a",), np.array([11.0, 9.6, -30.0] + [0.0] * 97), np.full(100, 199.83))
    >>> cut_noise_bins(seen)[:3]  # scale 10, 100 bins: the cut_noise_bins is at 10
    array([11.,  0.,  0.])
    """
    scale = 0.5 / math.asinh(1 / math.sqrt(2 * float(seen.variance.max())))
    least = CUT_FACTOR * scale * math.log10(max(seen.values.size, 1))
    return np.where(seen.values < least, 0.0, np.maximum(np.rint(seen.values), 0.0))


def _observe_groups(items: Sequence[Measurement], *, domain: Domain) -> list[Observation]:
    """Return what was measured of each group; tables by which columns were learnt lie inside one of them."""
    plain = [item for item in items if item.marginal.clique and not item.marginal.groupings]
    found = observe(plain, domain=domain, groupings={})
    return [each for each in found if not any(set(each.clique) < set(other.clique) for other in found)]


def _product_model(tables: dict[Clique, Table], domain: Domain, *, total: float) -> Model:
    """Return the model in which tables of disjoint columns are independent; empty cells stay empty."""
    potentials = {}
    for clique, table in tables.items():
        logs = np.full(table.shape, FORBIDDEN)
        np.log(table, out=logs, where=table > 0)
        potentials[clique] = logs
    return Model(
        domain=domain, groupings={}, potentials=potentials, total=max(float(total), MIN_TOTAL), within={}
    )


# A model expects some rows; of so few, none is drawn unless they are asked for.
MIN_TOTAL = 0.25
