"""Rounds of measurements and what follows from them: a model that is refitted quickly after every round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique
from populace.inference.constraints.rule_potentials import ConstrainedDomain, intersect_hard_tables
from populace.inference.factor import Table
from populace.inference.fit.feasible_tables import MAX_SYSTEM_ENTRIES, count_entries, fit_feasible_tables
from populace.inference.fit.junction_ipf import fit_junction_ipf
from populace.inference.fit.objective import Objective, Point, descend
from populace.inference.fit.round_estimate import RoundEstimate
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.consistency import fit_consistent_tables
from populace.inference.gls.observations import Observation, common_groupings
from populace.inference.graph.clique_cost import CliqueCost
from populace.inference.graph.joint_tables import JointTables
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class FitEffort:
    """How far a fit goes: rounds of least squares, how empty a cell may get, sweeps of scaling, steps of descent.

    `tolerance` is the relative loss that is not worth another step. An exact fit also looks for tables that
    belong to a distribution under the rules.
    """

    rounds: int
    floor: float
    sweeps: int
    steps: int
    tolerance: float
    exact: bool


# Good enough to choose by: the noise of a round is far larger than what is missed.
QUICK_FIT = FitEffort(rounds=8, floor=1e-3, sweeps=5, steps=0, tolerance=1e-4, exact=False)

# Proportional fitting needs two sweeps on a tree of measured pairs, more where rules tie tables together.
_HARD_SWEEPS, _KNOWN_SWEEPS, _TRIED_SWEEPS = 500, 500, 10
_HARD_CLOSE = 1e-5
_MET_SWEEPS = 3


class Estimator(RoundEstimate):
    """The graphical model of all measurements so far. A refit starts where the last one ended.

    >>> from fractions import Fraction
    >>> from populace.core.marginals import Domain, Marginal
    >>> estimator = Estimator(ModelSpace(domain=Domain({"coin": 2, "die": 6})))
    >>> estimator.add([Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))])
    >>> estimator.refit()
    >>> estimator.total, estimator.table(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """

    def __init__(self, space: ModelSpace) -> None:
        super().__init__(space)
        self._structure: ConstrainedDomain | None = None
        self._objective: Objective | None = None
        self._point: Point | None = None
        self._joints: JointTables | None = None
        self._tables: dict[Clique, Table] = {}
        self._costs: CliqueCost | None = None
        self._earlier_costs: CliqueCost | None = None

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Take in measurements; they count from the next refit on."""
        before = len(self._observed)
        super().add(measurements)
        if len(self._observed) > before:
            self._costs = None

    def replace_observations(self, observed: Iterable[Observation]) -> None:
        """Fit other tables instead of those that were measured: tables that were estimated from them."""
        self._observed = {each.clique: each for each in observed}
        self._costs = self._earlier_costs = None

    def refit(self, *, effort: FitEffort = QUICK_FIT) -> None:
        """Fit the model to all measurements so far.

        The loss is ½ Σ (marginal − count)² / variance over every measured cell; the number of rows is its
        least-squares estimate, at least 1.
        Least squares with non-negative cells gives tables and a lower bound of the loss; proportional fitting turns
        them into potentials, which is the answer when the junction tree adds no edges to the measured cliques.
        Otherwise mirror descent can go on from there, on the loss itself.
        """
        if not self._observed:
            raise UsageError(
                "there are no measurements to fit a model to.", hint="measure at least one marginal"
            )
        observed = self.observed
        self.total = self._estimate_total()
        structure = self.potentials.structure([*self._observed, *self._known.tables])
        hard = intersect_hard_tables(structure.hard, self._known.empty)
        objective = Objective(
            self._known.add_to_observations(observed, weight=4.0),
            domain=structure.domain,
            total=self.total,
            hard=hard,
        )
        # Tables under rules belong to a distribution, so they are met far more closely than the loss asks for; only the
        # last digits are slow to come.
        enough = min(10 * effort.tolerance, _HARD_CLOSE) if hard else effort.tolerance
        first, bound = self._fit_tables(observed, objective=objective, effort=effort, enough=enough)
        reached = objective.at(first)
        if hard and effort.exact:
            bound = reached.loss - objective.gap(reached)
        if effort.steps:
            reached = descend(objective, start=first, steps=effort.steps, tolerance=enough, bound=bound)
        if self._known.tables and effort.exact:
            exact = {clique: table / self.total for clique, table in self._known.tables.items()}
            reached = objective.at(
                fit_junction_ipf(objective, targets=exact, start=reached.potentials, sweeps=_KNOWN_SWEEPS)
            )
        if self._structure is None or set(structure.hard) != set(self._structure.hard):
            self._costs = None
        self._structure, self._objective, self._point = structure, objective, reached
        self._joints = objective.propagation.joints(objective.beliefs(reached.potentials))
        self._tables.clear()

    def rake_to(self, observed: Iterable[Observation]) -> None:
        """Scale the fitted model to some tables, whatever they do to others: those that are known well."""
        tables = {each.clique: each.values / each.values.sum() for each in observed}
        if self._objective is None or self._point is None or not tables:
            return
        objective = self._objective
        flat = fit_junction_ipf(objective, targets=tables, sweeps=_MET_SWEEPS, start=self._point.potentials)
        self._point = objective.at(flat)
        self._joints = objective.propagation.joints(objective.beliefs(flat))
        self._tables.clear()

    def table(self, clique: Clique) -> Table:
        """Return the expected counts of any columns, as of the last refit."""
        if self._joints is None:
            raise UsageError("the model has not been fitted.", hint="call refit() after add()")
        if clique not in self._tables:
            found = self.total * self._joints.table(clique)
            found.setflags(write=False)
            self._tables[clique] = found
        return self._tables[clique]

    def fits(self, clique: Clique, *, max_cells: int) -> bool:
        """Say whether the junction tree would hold at most so many cells, or no more than now, with a clique too."""
        costs = self._clique_costs()
        return costs.fits(clique, max_cells=max(max_cells, costs.cells(())))

    def model(self) -> Model:
        """Return the model of the last refit, with shares of codes inside groups."""
        if self._structure is None or self._objective is None or self._point is None:
            raise UsageError("the model has not been fitted.", hint="call refit() after add()")
        objective = self._objective
        potentials = dict(zip(objective.factors, objective.tables(self._point.potentials), strict=True))
        return self._make_model(potentials, hard=objective.hard, hidden=self._structure.hidden)

    def _clique_costs(self) -> CliqueCost:
        """Return the prices of cliques that might join what is measured and ruled."""
        if self._costs is None:
            domain = self.domain if self._structure is None else self._structure.domain
            hard = () if self._structure is None else self._structure.hard
            cliques = [*self._observed, *self._known.tables, *hard]
            self._costs = self._earlier_costs = CliqueCost(
                cliques, domain=domain, earlier=self._earlier_costs
            )
        return self._costs

    def _fit_tables(
        self, observed: Sequence[Observation], *, objective: Objective, effort: FitEffort, enough: float
    ) -> tuple[Table, float]:
        """Return potentials near the least loss, and a number below which no distribution's loss can be."""
        nearest = self._known.add_to_observations(observed, weight=1e6)
        start = None if effort.exact else self._earlier(objective)
        if objective.hard and effort.exact and count_entries(objective) <= MAX_SYSTEM_ENTRIES:
            tables = fit_feasible_tables(
                nearest, objective=objective, total=self.total, tolerance=enough / 10
            )
            targets = self._shares(tables, objective=objective, floor=effort.floor)
            return fit_junction_ipf(objective, targets=targets, sweeps=_HARD_SWEEPS, close=enough), 0.0
        agreed = fit_consistent_tables(
            nearest,
            domain=self.domain,
            total=self.total,
            tolerance=effort.tolerance / 10_000,
            rounds=effort.rounds,
        )
        targets = self._shares(agreed.tables, objective=objective, floor=effort.floor)
        if objective.closed and not objective.hard:
            return fit_junction_ipf(
                objective, targets=targets, sweeps=effort.sweeps, start=start
            ), agreed.bound
        # Agreeing tables may belong to no distribution: each is followed as far as it stands out of its noise.
        deviations = {o.clique: np.sqrt(o.variance) for o in nearest if o.clique in targets}
        found = fit_junction_ipf(
            objective,
            targets={c: agreed.pulls[c] / self.total for c in deviations},
            soft={c: deviation / self.total for c, deviation in deviations.items()},
            floor=effort.floor,
            sweeps=effort.sweeps,
            close=enough,
            start=start,
        )
        if effort.exact:
            # They may also belong to one.
            whole = fit_junction_ipf(objective, targets=targets, sweeps=_TRIED_SWEEPS, start=found)
            found = min(found, whole, key=lambda potentials: objective.at(potentials).loss)
        return found, agreed.bound

    def _shares(
        self, tables: Mapping[Clique, Table], *, objective: Objective, floor: float
    ) -> dict[Clique, Table]:
        """Return the factors' tables as shares, no cell emptier than `floor` times an average one."""
        found = {}
        for clique in objective.factors:
            if clique in tables:
                table = tables[clique]
                allowed = self.potentials.allowed_cells(clique)
                raised = np.maximum(table, floor * table.mean()) * allowed
                # Noise can leave nothing where rows can be.
                found[clique] = np.asarray(
                    raised / raised.sum() if raised.sum() > 0 else allowed / allowed.sum()
                )
        return found

    def _earlier(self, objective: Objective) -> Table | None:
        """Return the potentials of the last refit in the factors of the next."""
        if self._objective is None or self._point is None:
            return None
        tables = self._objective.tables(self._point.potentials)
        return objective.flatten(dict(zip(self._objective.factors, tables, strict=True)))


def fit_least_squares(
    measurements: Sequence[Measurement],
    *,
    space: ModelSpace,
    steps: int = 400,
    tolerance: float = 3e-4,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    An exact fit by an `Estimator`, in one round: mirror descent goes on from the tables of least squares until the loss
    is within `tolerance` of its minimum, or for so many steps at most. Under rules all of this happens among
    distributions in which no row breaks one: its probability is exactly 0. Of a table that sees a column in fewer
    groups than others do, the sums over that column are used; `fit_model` uses all of it. Public totals decide the
    number of rows, and the model is scaled to them at the end. Groupings of the space are for columns that no
    measurement groups.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from populace.core.marginals import Domain, Marginal
    >>> heads = Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))
    >>> model = fit_least_squares([heads], space=ModelSpace(domain=Domain({"coin": 2})))
    >>> model.total, model.marginal(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """
    seen = common_groupings(measurements, also=space.groupings.values(), classes=space.rules.classes)
    estimator = Estimator(space.group(seen.values()))
    estimator.add(split_coarse_tables(measurements, domain=space.domain, groupings=seen)[0])
    effort = FitEffort(rounds=500, floor=1e-9, sweeps=30, steps=steps, tolerance=tolerance, exact=True)
    estimator.refit(effort=effort)
    return estimator.model()
