"""`gem`: a generator network, trained round after round the wanted marginal that it answers worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np

from populace.core.errors import UsageError
from populace.core.marginals import Clique, Domain
from populace.core.progress import Progress
from populace.inference.constraints.rule_potentials import (
    ConstrainedDomain,
    RulePotentials,
    intersect_hard_tables,
)
from populace.inference.constraints.support import class_lookups
from populace.inference.factor import Table
from populace.inference.fit.junction_ipf import fit_junction_ipf
from populace.inference.fit.objective import Objective
from populace.inference.fit.projection import project_to_simplex
from populace.inference.fit.round_estimate import RoundEstimate
from populace.inference.gls.observations import Observation, common_groupings
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace, unused_name
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.literature.gem.gem_network import MAX_COMPONENTS, GeneratorNetwork, TrainingTable
from populace.methods.method import Method
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import RoundsConfig, choose_in_rounds, workload_candidates
from populace.methods.selection.merge_rare_codes import group_rare_codes
from populace.methods.workload import Workload

GEM_CONFIG = RoundsConfig(rounds_per_column=4, measured_share=Fraction(9, 10))
# Rounds in all: the network is trained after each.
MAX_ROUNDS = 64
# Steps of training after a round, and at the end.
ROUND_STEPS, FINAL_STEPS = 30, 600
# The cells of a model under rules, all components together.
MAX_MODEL_CELLS = 2**22
# Public totals count so many times as much as the most precise measurement.
_TOTALS_WEIGHT = 4.0
_RAKES, _SWEEPS, _CLOSE = 10, 500, 1e-9
# No cell that can hold rows is quite empty.
_TRACE = 1e-12


def measure_gem(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then in every round choose the wanted marginal that a generator answers worst, and measure.

    One exponential mechanism chooses, with the distance of a marginal's counts from the generator's answer as score,
    less the error that measuring it would bring. The generator starts from the noisy columns and is trained after
    each round with all that was measured so far. Codes that are lost in the noise of their column share a group. The
    number of rounds is public and all are alike.
    Source: Liu, Vietri and Wu 2021, sections 3 and 4.2. They start from a random network, know the number of rows, and
    score single queries; that columns come first, the groups and the penalty are ours.
    """
    progress("measuring columns", 0.0)
    asked = sum(len(clique) > 1 for clique in workload_candidates(workload, domain=oracle.domain))
    if not asked:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=GEM_CONFIG.column_share)
    mixture = GemEstimator(ModelSpace.of(oracle.schema).group(group_rare_codes(measured[1:], oracle=oracle)))
    mixture.add(measured)
    mixture.refit()
    wanted = {c: w for c, w in workload_candidates(workload, domain=mixture.domain).items() if len(c) > 1}
    rounds = min(MAX_ROUNDS, GEM_CONFIG.rounds_per_column * len(oracle.domain), asked)
    return measured + choose_in_rounds(
        oracle,
        mixture,
        wanted,
        config=GEM_CONFIG,
        rounds=rounds,
        progress=progress,
    )


class GemEstimator(RoundEstimate):
    """The generator of all measurements so far.

    Rules and public totals are trained like measurements, as answers that are known. In the model, cells that a rule
    forbids are empty in every component, and what is left is scaled to the totals.

    >>> from fractions import Fraction
    >>> from populace.core.marginals import Marginal
    >>> mixture = GemEstimator(ModelSpace(domain=Domain({"coin": 2, "die": 6})))
    >>> mixture.add([Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))])
    >>> mixture.refit()
    >>> mixture.total, mixture.table(("coin",)).round(-1)
    (40.0, array([30., 10.]))
    """

    def __init__(self, space: ModelSpace) -> None:
        super().__init__(space)
        self._trained: tuple[Observation, ...] = ()
        self._generator: GeneratorNetwork | None = None
        self._shares: Table = np.ones((1, 1))

    def refit(self, *, steps: int = ROUND_STEPS) -> None:
        """Go on training the generator, with all measurements so far."""
        self.total = self._estimate_total()
        self._trained = self._known.add_to_observations(self.observed, weight=_TOTALS_WEIGHT)
        if self._generator is None:
            # As many components as a model under the rules and totals has room for.
            component, layout = self._component_variable(1)
            tree, domain = layout.tree(self._cliques(component))
            most = max(1, min(MAX_COMPONENTS, MAX_MODEL_CELLS // tree.cells(domain)))
            self._generator = GeneratorNetwork(self._columns(), components=most)
        self._generator.train([*self._answers(), *self._rule_tables()], rows=self.total, steps=steps)
        self._shares = self._generator.shares()

    def table(self, clique: Clique) -> Table:
        """Return the expected counts of any columns, as of the last refit; none where no row can be."""
        table = self._fitted_generator.table(self._shares, clique) + _TRACE
        table *= self.potentials.allowed_cells(clique)
        return np.asarray(self.total * table / table.sum())

    def fits(self, clique: Clique, *, max_cells: int) -> bool:  # noqa: ARG002 (training takes any table)
        """Say that a table can be taken in: a mixture does not grow."""
        return set(clique) <= set(self.domain)

    def model(self) -> Model:
        """Return the mixture as a model: a hidden variable numbers the components, and columns follow from it alone.

        The tables that were measured, as the mixture has them, are targets for its rows, so that these are fitted to
        them and to all pairs.
        """
        generator = self._fitted_generator
        component, potentials_layout = self._component_variable(generator.components)
        structure = potentials_layout.structure(self._cliques(component))
        potentials: dict[Clique, Table] = {
            (name, component): np.log(generator.column(self._shares, name).T + _TRACE) for name in self.domain
        }
        hard = intersect_hard_tables(structure.hard, self._known.empty)
        if hard or self._known.tables:
            potentials = self._scale_to_columns(potentials, structure=structure)
        hidden = {component: generator.components, **structure.hidden}
        model = self._make_model(potentials, hard=hard, hidden=hidden)
        cliques = [o.clique for o in self._trained if len(o.clique) > 1]
        return replace(model, targets={clique: model.grouped_marginal(clique) for clique in cliques})

    @property
    def _fitted_generator(self) -> GeneratorNetwork:
        if self._generator is None:
            raise UsageError("the model has not been fitted.", hint="call refit() after add()")
        return self._generator

    def _columns(self) -> dict[str, Table]:
        """Return the shares of single columns, even where none was measured."""
        found = {o.clique[0]: o.values for o in self._trained if len(o.clique) == 1}
        even = {name: np.ones(size) for name, size in self.domain.items()}
        return {
            name: project_to_simplex(found.get(name, even[name]), total=self.total) / self.total
            for name in self.domain
        }

    def _answers(self) -> list[TrainingTable]:
        """Return what was measured, and what is public, as shares."""
        return [
            TrainingTable(
                clique=o.clique,
                shares=o.values / self.total,
                weights=self.total**2 / o.variance,
                noise=_expected_loss(o, total=self.total),
            )
            for o in self._trained
            if o.clique
        ]

    def _rule_tables(self) -> list[TrainingTable]:
        """Return what rules forbid as answers: classes of codes that no row has together."""
        lookups = class_lookups(self._space)
        precise = max((float(1 / o.variance.min()) for o in self._trained), default=1.0)
        return [
            TrainingTable(
                clique=rule.clique,
                shares=np.zeros(rule.allowed.shape),
                weights=np.where(rule.allowed, 0.0, self.total**2 * precise),
                codes={name: lookups[name] for name in rule.clique},
                certain=True,
            )
            for rule in self._space.rules.rules
            if not rule.allowed.all()
        ]

    def _component_variable(self, components: int) -> tuple[str, RulePotentials]:
        """Return the name of a hidden variable for the components, and what finds where rules stand beside it."""
        component = unused_name("component", self._space.domain)
        domain = Domain({**self._space.domain.sizes, component: components})
        return component, RulePotentials(replace(self._space, domain=domain))

    def _cliques(self, component: str) -> list[Clique]:
        return [*((name, component) for name in self.domain), *self._known.tables]

    def _scale_to_columns(
        self, potentials: Mapping[Clique, Table], *, structure: ConstrainedDomain
    ) -> dict[Clique, Table]:
        """Return potentials whose model has the mixture's columns as far as rules let it, and the public totals."""
        blank = (
            Observation(clique, np.zeros(shape), np.ones(shape))
            for clique in chain(potentials, self._known.tables)
            for shape in [structure.domain.shape(clique)]
        )
        objective = Objective(
            list(blank),
            domain=structure.domain,
            total=self.total,
            hard=intersect_hard_tables(structure.hard, self._known.empty),
        )
        columns: dict[Clique, Table] = {(n,): self.table((n,)) / self.total for n in self.domain}
        flat = fit_junction_ipf(
            objective, targets=columns, start=objective.flatten(potentials), sweeps=_RAKES, close=_CLOSE
        )
        if self._known.tables:
            exact = {clique: table / self.total for clique, table in self._known.tables.items()}
            flat = fit_junction_ipf(objective, targets=exact, start=flat, sweeps=_SWEEPS, close=_CLOSE)
        return dict(zip(objective.factors, objective.tables(flat), strict=True))


def _expected_loss(seen: Observation, *, total: float) -> float:
    """Return the loss of a good estimate: of cells that are below 0 as they are, of others as noise would leave it."""
    nearest = project_to_simplex(seen.values, total=total)
    lost = (nearest - seen.values) ** 2 / seen.variance
    return 0.5 * float(lost.sum()) + 0.5 * np.count_nonzero(nearest)


def gem_model(items: Sequence[Measurement], *, space: ModelSpace) -> Model:
    """Return the model of a generator that is trained on all measurements of a run from the beginning."""
    mixture = GemEstimator(space.group(common_groupings(items, classes=space.rules.classes).values()))
    mixture.add(items)
    mixture.refit(steps=FINAL_STEPS)
    return mixture.model()


GEM = Method(
    name="gem",
    title="Generative networks with the exponential mechanism",
    reference="Liu, Vietri and Wu 2021",
    measure=measure_gem,
    fit=lambda given: gem_model(given.items, space=given.space),
    scores_all_pairs=True,
    own_model=True,
)
