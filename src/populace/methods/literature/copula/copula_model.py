"""A Gaussian copula over noisy columns: correlations from coarse tables of pairs, and the model that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby

import numpy as np
import numpy.typing as npt

from populace.core.array_types import Floats
from populace.core.marginals import Clique, Domain, Grouping
from populace.core.progress import Progress, silent
from populace.inference.factor import Table
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.fit.fit_model import fit_model, rake_public_table
from populace.inference.fit.round_estimate import estimate_group_shares
from populace.inference.gls.gls import estimate_gls
from populace.inference.gls.observations import Observation, common_groupings, observe
from populace.inference.graph.junction_tree import split_spanning_forest
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace, unused_name
from populace.measurements.measurements import Measurement
from populace.methods.literature.copula.correlations import (
    fit_correlations,
    nearest_correlation_matrix,
    shrink_correlations,
    unique_variances,
)
from populace.methods.literature.copula.optimal_scaling import Order, optimal_orders
from populace.methods.selection.candidates import take_smallest

# Codes of a column beyond so many share groups of neighbours in its order.
MAX_GROUPS = 64
# Points of the latent normal distribution, and the cells of all tables of points by groups.
MIN_POINTS, MAX_POINTS, MAX_POINT_CELLS = 2**10, 2**14, 2**22
# Under rules: the junction tree's cells, the pairs that are tried for it beyond a forest, and the cells of all targets.
_TREE_CELLS, _MORE_PAIRS, _TARGET_CELLS = 2**16, 100, 2**24
_EFFORT = FitEffort(rounds=8, floor=1e-6, sweeps=20, steps=0, tolerance=1e-5, exact=False)
# A share that noise has made 0 is next to 0, so that a condition can ask for it.
_MIN_SHARE = 1e-12
_NEWTON = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianCopula:
    """A normal distribution behind all columns: a row's codes are those whose shares its values fall into.

    `shares` are those of codes, `orders` the codes of every column from lowest to highest, and
    `matrix` holds the
    correlations, columns in the order of `shares`. `total` is the number of rows.
    """

    shares: Mapping[str, Floats]
    orders: Mapping[str, Order]
    matrix: Floats
    total: float


def copula_model(
    items: Sequence[Measurement],
    *,
    space: ModelSpace,
    progress: Progress | None = None,
) -> Model:
    """Return the model of a copula fitted to columns and coarse pairs of them.

    Without rules and totals it is the copula itself, as a mixture: the correlation matrix is a matrix L plus a variance
    of each column's own, so given a point of the normal distribution with covariance L the columns are independent.
    A hidden variable numbers such points, and every column follows from it. Under rules or totals the copula's
    tables of pairs, cut to what the rules allow and scaled to its columns, are fitted on a junction tree of limited
    size, and rows are fitted to all of them. Where no pair was measured, columns are all that is known.
    """
    if not any(len(item.marginal.clique) == 2 for item in items):
        return fit_model(items, space=space, progress=progress)
    (progress or silent)("fitting the model", 0.0)
    copula = fit_copula(items, domain=space.domain, rows=space.rows)
    kinds = space.rules.classes if space.rules.rules else {}
    space = space.group(
        grouping
        for name, order in copula.orders.items()
        if (grouping := _group_neighbours(name, order, copula.shares[name], kinds.get(name))) is not None
    )
    (progress or silent)("fitting the model", 0.3)
    probabilities = conditional_shares(copula, groupings=space.groupings)
    if any(not rule.allowed.all() for rule in space.rules.rules) or space.totals:
        return _model_under_rules(copula, probabilities, items, space=space)
    return _mixture_model(copula, probabilities, space=space)


def fit_copula(items: Sequence[Measurement], *, domain: Domain, rows: float | None = None) -> GaussianCopula:
    """Return the copula of measured columns and pairs; `rows` is their number where it is public."""
    groupings = common_groupings([item for item in items if len(item.marginal.clique) > 1])
    observed = observe(items, domain=domain, groupings=groupings)
    effects = estimate_gls(observed, domain=domain.group(groupings.values()), total=rows)
    total = max(1.0, effects.total)
    counts = {name: effects.nonnegative_column(name, total=total).values for name in domain}
    groups = [counts[name] / total for name in domain]
    place = {name: number for number, name in enumerate(domain)}
    pairs = {(place[o.clique[0]], place[o.clique[1]]): o for o in observed if len(o.clique) == 2}
    tables = {pair: effects.marginal(o.clique) / total for pair, o in pairs.items()}
    noise = {pair: float(o.variance.flat[0]) ** 0.5 / total for pair, o in pairs.items()}
    ranks = optimal_orders(groups, tables, noise=noise)
    return GaussianCopula(
        shares={
            name: _code_shares(items, groupings.get(name), counts[name], name=name, total=total)
            for name in domain
        },
        orders={
            name: _order_codes(rank, groupings.get(name)) for name, rank in zip(domain, ranks, strict=True)
        },
        matrix=_correlation_matrix(groups, ranks, tables, noise=noise),
        total=total,
    )


def conditional_shares(copula: GaussianCopula, *, groupings: Mapping[str, Grouping]) -> dict[str, Table]:
    """Return for every column the probabilities of its groups (rows) given each of many points (columns).

    Points are a sequence of low discrepancy and its mirror image, with exactly the covariance that is left when every
    column's own variance is taken off; cuts are moved until each column has its shares exactly on average.
    """
    from scipy.special import ndtr, ndtri

    names = list(copula.shares)
    parts = {name: groupings[name].size if name in groupings else len(copula.shares[name]) for name in names}
    own = unique_variances(copula.matrix) * (1 - 1e-6)
    # As many points as memory allows, a power of two.
    most = min(MAX_POINTS, max(MIN_POINTS, 4 * len(names), MAX_POINT_CELLS // sum(parts.values())))
    points = _latent_points(copula.matrix - np.diag(own), count=2 ** (most.bit_length() - 1))
    found = {}
    for name, values, variance in zip(names, points.T, own, strict=True):
        order, deviation = copula.orders[name], float(variance) ** 0.5
        lookup = groupings[name].lookup if name in groupings else np.arange(len(order))
        # Codes that follow each other in one group are one stretch between two cuts.
        starts = np.flatnonzero(np.diff(lookup[order], prepend=-1))
        bounds = np.cumsum(np.add.reduceat(copula.shares[name][order], starts))[:-1]
        wanted = np.clip(bounds, _MIN_SHARE, 1 - _MIN_SHARE)
        cuts = ndtri(wanted)
        for _ in range(_NEWTON):
            at = (cuts[:, None] - values) / deviation
            missed = wanted - ndtr(at).mean(axis=1)
            density = np.exp(-(at**2) / 2).mean(axis=1) / (deviation * np.sqrt(2 * np.pi))
            cuts = cuts + np.clip(missed / np.maximum(density, 1e-9), -0.3, 0.3)
        below = np.zeros((len(starts) + 1, len(values)))
        below[1:-1] = ndtr((np.maximum.accumulate(cuts)[:, None] - values) / deviation)
        below[-1] = 1.0
        table = np.zeros((parts[name], len(values)))
        np.add.at(table, lookup[order][starts], np.diff(below, axis=0))
        found[name] = np.maximum(table, _MIN_SHARE)
    return found


def _mixture_model(copula: GaussianCopula, probabilities: Mapping[str, Table], *, space: ModelSpace) -> Model:
    """Return the copula as a model in which every column follows from a hidden point."""
    hidden = unused_name("point", space.domain)
    within = {}
    for name, grouping in space.groupings.items():
        shares, lookup = copula.shares[name], grouping.lookup
        sums, even = np.bincount(lookup, weights=shares)[lookup], 1 / np.bincount(lookup)[lookup]
        within[name] = np.divide(shares, sums, where=sums > 0, out=even)
    potentials: dict[Clique, Table] = {(name, hidden): np.log(table) for name, table in probabilities.items()}
    return Model(
        domain=space.domain,
        groupings=space.groupings,
        potentials=potentials,
        total=copula.total,
        within=within,
        hidden={hidden: len(next(iter(probabilities.values()))[0])},
        # Rows that have a target are fitted to all pairs of the model.
        targets={(name,): copula.total * table.mean(axis=1) for name, table in probabilities.items()},
    )


def _model_under_rules(
    copula: GaussianCopula,
    probabilities: Mapping[str, Table],
    items: Sequence[Measurement],
    *,
    space: ModelSpace,
) -> Model:
    """Return a model of the copula's pairs that keeps rules and totals, with all pairs for its rows to fit."""
    estimator = Estimator(space)
    estimator.add([item for item in items if len(item.marginal.clique) < 2])
    held = []
    for name, table in probabilities.items():
        values = copula.total * table.mean(axis=1)
        held.append(Observation((name,), values, np.full(values.shape, max(1.0, copula.total / values.size))))
    effort = replace(_EFFORT, exact=bool(space.totals))
    estimator.replace_observations(held)
    estimator.refit(effort=effort)
    found: dict[Clique, Table] = {}
    for pair in take_smallest(combinations(space.domain, 2), domain=estimator.domain, cells=_TARGET_CELLS):
        known = estimator.table(pair)
        table = np.where(known > 0, probabilities[pair[0]] @ probabilities[pair[1]].T, 0.0)
        found[pair] = rake_public_table(table, beside=known) if table.any() else known
    gains = {pair: float(np.abs(table - estimator.table(pair)).sum()) for pair, table in found.items()}
    forest, others = split_spanning_forest(sorted(gains, key=lambda pair: (-gains[pair], pair)))
    for clique in [*forest, *others[:_MORE_PAIRS]]:
        if estimator.fits(clique, max_cells=_TREE_CELLS):
            values = found[clique]
            held.append(Observation(clique, values, np.full(values.shape, max(1.0, values.mean()))))
            estimator.replace_observations(held)
    estimator.refit(effort=effort)
    return replace(estimator.model(), targets=found)


def _correlation_matrix(
    groups: Sequence[Floats],
    ranks: Sequence[Order],
    tables: Mapping[tuple[int, int], Floats],
    *,
    noise: Mapping[tuple[int, int], float],
) -> Floats:
    """Return the correlations of all columns: of least squares, shrunk towards 0 as far as noise, and mended."""
    from scipy.special import ndtri

    cuts = [
        ndtri(np.clip(np.cumsum(shares[rank])[:-1], 1e-6, 1 - 1e-6))
        for shares, rank in zip(groups, ranks, strict=True)
    ]
    raw, weights = np.eye(len(groups)), np.zeros((len(groups), len(groups)))
    measured_pairs = sorted(tables, key=lambda pair: (tables[pair].shape, pair))
    for _, same in groupby(measured_pairs, key=lambda pair: tables[pair].shape):
        one, other = np.array(list(same)).T
        turned = [tables[i, j][np.ix_(ranks[i], ranks[j])] for i, j in zip(one, other, strict=True)]
        found, information = fit_correlations(
            np.stack(turned), np.stack([cuts[i] for i in one]), np.stack([cuts[j] for j in other])
        )
        raw[one, other], weights[one, other] = found, np.maximum(information, 1e-300)
    one, other = np.array(measured_pairs).T
    variance = np.array([noise[pair] for pair in measured_pairs]) ** 2 / weights[one, other]
    raw[one, other] = shrink_correlations(raw[one, other], variance=variance)
    weights[one, other] = 1 / variance
    raw[other, one], weights[other, one] = raw[one, other], weights[one, other]
    return nearest_correlation_matrix(raw, weights=weights)


def _code_shares(
    items: Sequence[Measurement], grouping: Grouping | None, counts: Floats, *, name: str, total: float
) -> Floats:
    """Return the share of every code of a column, given the counts of its groups."""
    if grouping is None:
        return counts / total
    alone = [item for item in items if item.marginal.clique == (name,)]
    return np.asarray(
        (counts / total)[grouping.lookup] * estimate_group_shares(alone, grouping, totals=counts)
    )


def _order_codes(rank: Order, grouping: Grouping | None) -> Order:
    """Return the codes of a column in the order of their groups, and inside a group in that of the schema."""
    if grouping is None:
        return rank
    at = np.empty(grouping.size, dtype=np.intp)
    at[rank] = np.arange(grouping.size)
    return np.argsort(at[grouping.lookup], kind="stable")


def _group_neighbours(name: str, order: Order, shares: Floats, classes: Grouping | None) -> Grouping | None:
    """Return groups of neighbours in a column's order, of about equal shares and one class each, if it needs any."""
    if len(order) <= MAX_GROUPS:
        return None
    middles = np.cumsum(shares[order]) - shares[order] / 2
    parts = np.empty(len(order), dtype=np.int64)
    parts[order] = np.clip(middles * MAX_GROUPS, 0, MAX_GROUPS - 1).astype(np.int64)
    if classes is not None:
        parts = parts * classes.size + classes.lookup
    _, groups = np.unique(parts, return_inverse=True)
    return Grouping(name, tuple(groups.reshape(-1).tolist()))


def _latent_points(covariance: Floats, *, count: int) -> Floats:
    """Return points of a normal distribution with exactly this covariance: multiples of roots of primes, mirrored.

    Source: Richtmyer 1951 for the sequence. The directions of largest variance take the first primes.
    """
    from scipy.special import ndtri

    values, vectors = np.linalg.eigh(covariance)
    steps = np.arange(1, count // 2 + 1)[:, None] * np.sqrt(_primes(len(covariance)))
    half = ndtri(np.modf(steps + 0.5)[0])
    normal = np.concatenate([half, -half])
    normal = np.linalg.solve(np.linalg.cholesky(normal.T @ normal / count), normal.T)
    return np.asarray((vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0)) @ normal).T)


def _primes(count: int) -> npt.NDArray[np.float64]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return np.array(found, dtype=np.float64)
