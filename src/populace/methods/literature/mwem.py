"""`mwem`: round after round, the wanted marginal that multiplicative weights answer worst."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from fractions import Fraction
from itertools import pairwise

import numpy as np

from populace.core.marginals import Clique, Domain
from populace.core.progress import Progress
from populace.inference.factor import AxisMap, Table
from populace.inference.fit.estimator import Estimator
from populace.inference.fit.round_estimate import RoundEstimate
from populace.inference.gls.observations import Observation
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.independent import measure_columns
from populace.methods.method import FitInput, Method, fit_tables
from populace.methods.oracle import Oracle
from populace.methods.selection.candidates import (
    MAX_TREE_CELLS,
    RoundsConfig,
    choose_in_rounds,
    workload_candidates,
)
from populace.methods.workload import Workload

MWEM_CONFIG = RoundsConfig(rounds_per_column=2, measured_share=Fraction(3, 4))
# Every candidate is answered from the tree in every round: its cells times these answers.
MAX_ANSWER_WORK = 2**28
# The cells of a domain that is held as a whole, and its columns: NumPy's tables have so many axes and few more.
MAX_DENSE_CELLS, MAX_DENSE_COLUMNS = 10**7, 32
# Many small tables are summed out of tables over a few of so many blocks of columns.
_BLOCKS = 6
# How far updates go. After a round the weights of the last one are the start; the model of a run starts from nothing.
ROUND_SWEEPS, ROUND_WORK = 4, 2**27
FINAL_SWEEPS, FINAL_WORK = 40, 2**32


def measure_mwem(oracle: Oracle, workload: Workload, progress: Progress) -> tuple[Measurement, ...]:
    """Measure all columns, then in every round choose the wanted marginal that is answered worst, and measure it.

    One exponential mechanism chooses, with the distance of a marginal's counts from the estimate as score, less the
    error that measuring it would bring. After each round the estimate is updated with all tables so far, by
    multiplicative weights over the whole domain where that is small enough and free of rules, else on a junction
    tree of limited size: what multiplicative weights come to when they are repeated is a model of that kind.
    The number of rounds is public and all are alike.
    Source: Hardt, Ligett and McSherry 2012. They start from an even distribution, know the number of rows, give half
    of a round to choosing, and score single queries; that columns come first, and the penalty, are ours.
    """
    wanted = workload_candidates(workload, domain=oracle.domain)
    progress("measuring columns", 0.0)
    if not wanted or len(oracle.domain) == 1:
        return measure_columns(oracle, share=Fraction(1))
    measured = measure_columns(oracle, share=MWEM_CONFIG.column_share)
    estimate = start_estimate(oracle, measured)
    rounds = MWEM_CONFIG.rounds_per_column * len(oracle.domain)
    return measured + choose_in_rounds(
        oracle,
        estimate,
        wanted,
        config=MWEM_CONFIG,
        rounds=rounds,
        max_cells=max_tree_cells(wanted),
        progress=progress,
    )


def max_tree_cells(wanted: Sized) -> int:
    """Return how many cells the tree may have from which so many marginals are answered in every round.

    With thousands of marginals a round would take minutes on the largest tree, and the parts of answers that are kept
    gigabytes: the tree is smaller then, by a public number.

    >>> max_tree_cells(range(500)) == MAX_TREE_CELLS, max_tree_cells(range(7000))
    (True, 38347)
    """
    return min(MAX_TREE_CELLS, MAX_ANSWER_WORK // max(1, len(wanted)))


def start_estimate(oracle: Oracle, measured: tuple[Measurement, ...]) -> RoundEstimate:
    """Return the estimate that columns give: over the whole domain where it can be held, else a graphical model."""
    space = ModelSpace.of(oracle.schema)
    estimate = MultiplicativeWeights(oracle.domain) if is_dense(space) else Estimator(space)
    estimate.add(measured)
    estimate.refit()
    return estimate


def is_dense(space: ModelSpace) -> bool:
    """Say whether a distribution over the whole domain can be held cell by cell.

    Rules and public totals need a model that is held to them, whatever the measurements say.

    >>> [is_dense(ModelSpace(domain=Domain({"a": size}))) for size in (10**7, 10**8)]
    [True, False]
    """
    domain = space.domain
    small = domain.cells(domain) <= MAX_DENSE_CELLS and len(domain) <= MAX_DENSE_COLUMNS
    return small and not space.rules.rules and not space.totals


class MultiplicativeWeights(RoundEstimate):
    """A distribution over all cells of a domain, which starts even and learns from noisy tables.

    One update multiplies the weight of every cell x by exp(θ_c), where c is the cell of the table that x lies in, and
    θ_c = (m_c − a_c) / (|m_c| + a_c + σ_c): m is the share that was measured, a what the weights say, σ its noise.
    The source has one rate for all, 1/2; here it is 1/2 next to ln(m/a), and less where noise is all there is.
    As |θ| ≤ 1, e^θ ≤ 1 + θ + θ², so that one update lowers the relative entropy of m by at least
    Σ θ_c (m_c − a_c) − a_c θ_c² ≥ 0: the argument of the source with another rate.
    The result is ∝ exp(Σ potentials) with one potential for every table, which is what a model is made of.
    Source: Hardt, Ligett and McSherry 2012, figure 1 and section 3.3 (updates with earlier tables are repeated).
    """

    def __init__(self, domain: Domain) -> None:
        super().__init__(ModelSpace(domain=domain))
        self._columns: Clique = tuple(domain)
        self._shares: Table = np.full(domain.shape(domain), 1 / domain.cells(domain))
        self._potentials: dict[Clique, Table] = {}
        # Tables in the order in which they are used next: new ones first, then those that were not used for longest.
        self._turns: deque[Clique] = deque()

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Take in measurements; they count from the next refit on."""
        super().add(measurements)
        self._turns.extendleft([c for c in self._observed if c and c not in self._potentials])
        self._potentials = {c: np.zeros(self.domain.shape(c)) for c in self._turns} | self._potentials

    def refit(self, *, sweeps: int = ROUND_SWEEPS, work: int = ROUND_WORK) -> None:
        """Update the weights so often with every table in turn, as long as cells times updates stay below `work`."""
        self.total = self._estimate_total()
        tables = len(self._turns)
        updates = min(sweeps * tables, max(tables, work // self._shares.size))
        for _ in range(updates):
            self._update(self._observed[self._turns[0]])
            self._turns.rotate(-1)

    def table(self, clique: Clique) -> Table:
        """Return the expected counts of any columns."""
        axes = AxisMap.of(clique, inside=self._columns, domain=self.domain)
        return self.total * axes.collapse(self._shares)

    def tables(self, cliques: Iterable[Clique]) -> dict[Clique, Table]:
        """Return the expected counts of many cliques; what they have in common is summed once."""
        blocks = list(_blocks(self._columns))
        place = {name: number for number, block in enumerate(blocks) for name in block}
        held: dict[Clique, Table] = {}
        found = {}
        for clique in cliques:
            numbers = {place[name] for name in clique}
            # Pairs are summed out of what triples need.
            numbers |= set([n for n in range(_BLOCKS) if n not in numbers][: max(0, 3 - len(numbers))])
            inside = tuple(name for number in sorted(numbers) for name in blocks[number])
            if inside not in held:
                held[inside] = self.table(inside)
            found[clique] = AxisMap.of(clique, inside=inside, domain=self.domain).collapse(held[inside])
        return found

    def fits(self, clique: Clique, *, max_cells: int) -> bool:  # noqa: ARG002 (as of a model that grows)
        """Say whether it could take in a table: a distribution over all cells always can."""
        return True

    def model(self) -> Model:
        """Return the distribution as a model: the same cells, held as one potential for every table."""
        return Model(
            domain=self.domain, groupings={}, potentials=dict(self._potentials), total=self.total, within={}
        )

    def _update(self, seen: Observation) -> None:
        """Move the weights towards a table."""
        slot = AxisMap.of(seen.clique, inside=self._columns, domain=self.domain)
        have = slot.collapse(self._shares)
        want, noise = seen.values / self.total, np.sqrt(seen.variance) / self.total
        step = (want - have) / (np.abs(want) + have + noise)
        step -= np.log((have * np.exp(step)).sum())
        slot.scale(self._shares, np.exp(step))
        self._potentials[seen.clique] += step


def _blocks(columns: Clique) -> Iterator[Clique]:
    """Yield neighbouring columns in blocks of about equal number."""
    ends = [round(len(columns) * number / _BLOCKS) for number in range(_BLOCKS + 1)]
    for start, end in pairwise(ends):
        yield columns[start:end]


def fit_multiplicative_weights(given: FitInput) -> Model:
    """Return the model of multiplicative weights where the domain can be held cell by cell, else of measured tables."""
    if given.gradual or not is_dense(given.space):
        return fit_tables(given)
    weights = MultiplicativeWeights(given.schema.domain)
    weights.add(given.items)
    weights.refit(sweeps=FINAL_SWEEPS, work=FINAL_WORK)
    return weights.model()


MWEM = Method(
    name="mwem",
    title="Multiplicative weights with the exponential mechanism",
    reference="Hardt, Ligett and McSherry 2012",
    measure=measure_mwem,
    fit=fit_multiplicative_weights,
    scores_all_pairs=True,
)
