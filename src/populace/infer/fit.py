"""From noisy measurements to a model: the distribution that explains them best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from populace.errors import UsageError
from populace.infer.consistency import consistent_tables
from populace.infer.effects import estimate
from populace.infer.feasible import MOST_ENTRIES, entries, feasible_tables
from populace.infer.known import known_totals
from populace.infer.mirror_descent import descend
from populace.infer.model import Model
from populace.infer.objective import Objective
from populace.infer.observations import Observation, observe, shared_groupings
from populace.infer.propagation import FORBIDDEN
from populace.infer.scaling import fit_tables
from populace.infer.structure import Layout, restrict
from populace.infer.tables import Table
from populace.infer.within import share_codes
from populace.marginals import Domain, Grouping
from populace.measurements import Measurement, Measurements
from populace.progress import Progress
from populace.schema.rules import NO_RULES, Allowed, Rules, Totals

_FLOOR = 1e-9
# Proportional fitting needs two sweeps on a tree of measured pairs, more where rules tie tables together.
_SWEEPS, _HARD_SWEEPS, _KNOWN_SWEEPS = 10, 500, 500
_CLOSE = 1e-9


def fit(
    measurements: Sequence[Measurement],
    *,
    domain: Domain,
    rules: Rules = NO_RULES,
    totals: Sequence[Totals] = (),
    groupings: Iterable[Grouping] = (),
    start: Model | None = None,
    steps: int = 1000,
    tolerance: float = 1e-6,
    progress: Progress | None = None,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    The loss is ½ Σ (marginal − count)² / variance over every measured cell, on the domain in which each grouped
    column is seen through its grouping; the number of rows is its least-squares estimate, at least 1.
    Least squares with non-negative cells gives tables and a lower bound of the loss; proportional fitting turns them
    into potentials, which is the answer when the junction tree adds no edges to the measured cliques. Otherwise, or
    if `start`, an earlier model, is better, mirror descent goes on from there until the loss is within `tolerance` of
    its minimum, or for so many steps at most.
    Under `rules` all of this happens among distributions in which no row breaks a rule: its probability is exactly 0.
    `totals` decide the number of rows, and the model is scaled to them at the end. `groupings` are for columns that
    no measurement groups.

    >>> from fractions import Fraction
    >>> from populace.marginals import Marginal
    >>> heads = Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))
    >>> model = fit([heads], domain=Domain({"coin": 2}))
    >>> model.total, model.marginal(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """
    if not measurements:
        raise UsageError("there are no measurements to fit a model to.", hint="measure at least one marginal")
    seen = shared_groupings(measurements, also=groupings, classes=rules.classes)
    layout = Layout(rules, domain=domain, groupings=seen)
    known = known_totals(totals, domain=domain, groupings=seen, allowed=layout.allowed)
    observed = [_emptied(o, layout=layout) for o in observe(measurements, domain=domain, groupings=seen)]
    total = known.rows or estimate([_even(o) for o in observed], domain=layout.domain).total
    total = max(1.0, total)
    structure = layout.structure([*(o.clique for o in observed), *known.tables])
    hard = restrict(structure.hard, known.empty)
    objective = Objective(
        known.observed(observed, weight=4.0), domain=structure.domain, total=total, hard=hard
    )
    nearest = known.observed(observed, weight=1e6)
    # The last digits are slow to come under rules, and far below the noise.
    enough = 10 * tolerance if hard else tolerance
    if hard and entries(objective) <= MOST_ENTRIES:
        tables = feasible_tables(nearest, objective=objective, total=total, tolerance=tolerance)
        bound = 0.0
    else:
        agreed = consistent_tables(
            [_even(o) for o in nearest], domain=layout.domain, total=total, tolerance=tolerance / 10_000
        )
        tables, bound = agreed.tables, agreed.bound
    first = fit_tables(
        objective,
        targets={c: _raised(t, layout.allowed(c)) for c, t in tables.items() if c in objective.factors},
        sweeps=_HARD_SWEEPS if hard else _SWEEPS,
        close=enough if hard else _CLOSE,
    )
    # An earlier model that groups columns otherwise says nothing in this domain.
    if start is not None and start.groupings == seen:
        earlier = objective.flatten(start.potentials)
        first = min(first, earlier, key=lambda potentials: objective.at(potentials).loss)

    def told(done: float) -> None:
        if progress is not None:
            progress("fitting the model", done)

    if hard:
        reached = objective.at(first)
        bound = reached.loss - objective.gap(reached)
    end = descend(objective, start=first, steps=steps, tolerance=enough, bound=bound, progress=told).point
    if known.tables:
        exact = {clique: table / total for clique, table in known.tables.items()}
        end = objective.at(fit_tables(objective, targets=exact, start=end.potentials, sweeps=_KNOWN_SWEEPS))
    potentials = dict(zip(objective.factors, objective.tables(end.potentials), strict=True))
    for clique, allowed in hard.items():
        forbidden = np.where(allowed, 0.0, FORBIDDEN)
        potentials[clique] = potentials[clique] + forbidden if clique in potentials else forbidden
    return Model(
        domain=domain,
        hidden=structure.hidden,
        exact=tuple(known.tables),
        groupings=seen,
        potentials=potentials,
        total=total,
        within={
            name: share_codes(
                measurements,
                grouping,
                totals=total * objective.column_shares(end, name),
                known=known.codes.get(name),
            )
            for name, grouping in seen.items()
        },
    )


def fit_run(measurements: Measurements, *, progress: Progress | None = None) -> Model:
    """Return the model of one run's measurements; it names them by digest and repeats their stamp."""
    schema = measurements.schema
    model = fit(
        measurements.items,
        domain=schema.domain,
        rules=schema.rules,
        totals=schema.totals,
        progress=progress,
    )
    return replace(model, measurements=measurements.digest, rehearsal=measurements.record.rehearsal)


def _raised(table: Table, allowed: Allowed) -> Table:
    """Return a table's shares with no cell emptier than a tiny part of an average one: potentials stay finite."""
    raised = np.maximum(table, _FLOOR * table.mean()) * allowed
    return np.asarray(raised / raised.sum())


def _emptied(observation: Observation, *, layout: Layout) -> Observation:
    """Return an observation without the noise of cells in which no row can be."""
    allowed = layout.allowed(observation.clique)
    return observation if allowed.all() else replace(observation, values=observation.values * allowed)


def _even(observation: Observation) -> Observation:
    """Return what closed-form least squares can use of an observation: all of it, or its sum.

    Several columns together with unequal variances do not separate into effects; the descent still uses every cell.
    """
    if len(observation.clique) < 2 or observation.uniform is not None:
        return observation
    return Observation((), np.asarray(observation.values.sum()), np.asarray(observation.variance.sum()))
