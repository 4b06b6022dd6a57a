"""A synthesis method as one value: how it measures, how its model is fitted, and what others must know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from populace.core.marginals import Clique, Domain, Marginal
from populace.core.progress import Progress
from populace.inference.fit.fit_model import fit_model
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, ReleasedRows
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.linked_workload import alike_pairs, column_layers, exchangeable_pairs
from populace.methods.oracle import Oracle
from populace.methods.workload import WORKLOAD_NAMES, Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Noise
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

Answers = tuple[Measurement | ReleasedRows | PublicMarginals, ...]


class DeltaUse(Enum):
    """What becomes of the δ that a method is offered."""

    SPENT = "spent on noise"
    NONE = "none is spent: all noise is pure"
    SET_ASIDE = "all of it is set aside: for partition selection, or for one question with Gaussian noise"


class PublicTableUse(Enum):
    """What a method does with a public table."""

    NONE = "it has no use for one"
    OPTIONAL = "it uses one that is given"
    REQUIRED = "it needs one"


class WorkloadUse(Enum):
    """What a method does with a workload."""

    NONE = "it measures the same for any workload"
    FULL = "it measures what the workload asks for"
    LISTED = "it measures the marginals that a workload lists, and the same for any workload by name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuestion:
    """A marginal that is counted whatever the rows are, with its share of the budget and the noise that this buys."""

    marginal: Marginal
    share: Fraction
    noise: Noise


# Asks an oracle what it needs within its budget, and returns what it was answered. The workload says which marginals
# the curator wants accurate. It is public.
Measure = Callable[[Oracle, Workload, Progress], Answers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitInput:
    """What a model is fitted to: noisy tables of a schema, and released rows or public tables where there are some.

    A `gradual` fit holds no table of several columns: rows are moved until they fit all of them.
    """

    schema: Schema
    items: Sequence[Measurement]
    released_rows: ReleasedRows | None = None
    public: PublicMarginals | None = None
    gradual: bool = False
    progress: Progress | None = None

    @property
    def space(self) -> ModelSpace:
        """The space of the model."""
        space = ModelSpace.of(self.schema)
        if self.schema.linked is None:
            return space
        space = replace(space, layers=column_layers(self.schema))
        return replace(
            space,
            alike={pair: kind for pair, kind in alike_pairs(self.schema).items() if space.layer(pair) == 0},
            successive=exchangeable_pairs(self.schema),
            ordered={name: column.levels for name, column in self.schema.variables.items() if column.ordered},
        )


def fit_tables(given: FitInput) -> Model:
    """Return the graphical model of measured tables, which most methods use."""
    return fit_model(
        given.items,
        space=given.space,
        public=given.public,
        gradual=given.gradual,
        progress=given.progress,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One synthesis method. Whoever needs to know something of it asks here, and never compares its name.

    `check`, `check_rounds` and `can_use_delta` decide from public facts alone, before anything is spent.
    `limitations` are sentences for the privacy statement, and `notes` for the curator's screen; both are given whether
    there was a public table. `describe_public_use` names what was taken from that table, given the cliques that were
    measured and those of which public counts were used; None leaves it to the statement.
    """

    name: str
    title: str
    reference: str
    measure: Measure
    fit: Callable[[FitInput], Model] = fit_tables
    check: Callable[[Schema, Fraction, Fraction], None] = lambda _schema, _epsilon, _delta: None
    delta: DeltaUse = DeltaUse.SPENT
    can_use_delta: Callable[[Fraction, PrivacyUnit], bool] = lambda _epsilon, _unit: True
    public: PublicTableUse = PublicTableUse.NONE
    workload: WorkloadUse = WorkloadUse.FULL
    check_rounds: Callable[[Workload, Domain], None] | None = None
    """For a method that can ask a workload in two rounds of weighted queries: what refuses one that cannot be."""
    smallest_share: Callable[[Workload, Domain, Budget], Fraction] | None = None
    """For a method that lets the curator share out the budget: the smallest share of it that an answer gets."""
    scores_all_pairs: bool = False
    """Whether it scores all pairs of columns, which takes too long for very many columns."""
    learns_domains: bool = True
    """Whether domains may be left to be learnt; without, its tables must be known before it spends."""
    meets_totals: bool = True
    """Whether its rows can be held to public totals."""
    own_model: bool = False
    """Whether its model is one that it defines itself: no other inference applies, and no bootstrap is made of it."""
    fixed_plan: bool = False
    """Whether all its questions are fixed before the first answer: it may give back what they did not need."""
    plan_questions: Callable[[Schema, Workload, Budget], tuple[PlannedQuestion, ...]] | None = None
    """For a method whose questions follow from public facts alone: what it will ask, and with which noise."""
    counts_units: bool = False
    """Whether it releases tables of the units of a geography, which other methods do not know."""
    single_columns: bool = False
    """Whether it measures single columns alone: no table has to be reconciled with rules."""
    imports: tuple[str, ...] = ()
    """What its fit loads at the last moment, to be loaded before anything is paid for."""
    adapts_pair_count: bool = False
    """Whether it measures more or fewer pairs, even none, as they are worth their noise."""
    unplannable: str = ""
    """Why no plan can be made from a schema alone, where none can."""
    limitations: Callable[[Schema, bool], list[str]] = lambda _schema, _public: []
    notes: Callable[[Schema, bool], list[str]] = lambda _schema, _public: []
    describe_public_use: Callable[[Schema, Sequence[Clique], Sequence[Clique]], str | None] = (
        lambda _schema, _measured, _public: None
    )

    @property
    def pools_earlier(self) -> bool:
        """Whether tables of earlier releases can stand beside its own: its model is fitted to any tables."""
        return self.fit is fit_tables and not self.own_model

    def usable_delta(self, delta: Fraction, *, epsilon: Fraction, unit: PrivacyUnit) -> Fraction:
        """Return the δ that the method takes of what it is offered: nothing where it could not use it at this ε."""
        usable = self.delta is not DeltaUse.NONE and self.can_use_delta(epsilon, unit)
        return delta if usable else Fraction(0)

    def reserved_delta(self, delta: Fraction, *, discovery: Fraction) -> Fraction:
        """Return the part of δ that is set aside; `discovery` is what learning domains takes of it."""
        return delta if self.delta is DeltaUse.SET_ASIDE else discovery

    def follows(self, workload: str) -> bool:
        """Say whether what is measured depends on a workload of this label: a name, or a digest of listed marginals."""
        listed = workload not in WORKLOAD_NAMES
        return self.workload is WorkloadUse.FULL or (self.workload is WorkloadUse.LISTED and listed)
