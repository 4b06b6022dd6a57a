"""What noisy columns say of all pairs before any is measured: what each would be, cost and gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats
from populace.core.marginals import Candidates, Clique, Marginal
from populace.inference.factor import Table
from populace.inference.fit.fit_model import rake_public_table
from populace.inference.fit.projection import project_to_simplex
from populace.inference.fit.public_prior import shrink_to_public
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import combine_repeats, estimate_rows, group_repeats
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.oracle import Oracle
from populace.methods.selection.budget_allocation import ColumnCosts
from populace.methods.selection.candidates import take_smallest
from populace.methods.selection.independence_baseline import fit_baseline
from populace.methods.selection.merge_rare_codes import group_rare_codes

# All candidate pairs together: they are counted, estimated and kept at once, 8 bytes a cell each time.
MAX_SCREENED_CELLS = 2**25
# A denoised pair errs as if its residual had this rank: of the noise of m × n cells, rank·(m + n) is left.
RESIDUAL_RANK = 2.0


class PairScreen:
    """What noisy columns say: counts, groups of rare codes, and pairs as they would be without any dependence."""

    def __init__(
        self, oracle: Oracle, measured: Sequence[Measurement], *, trusted: frozenset[Clique] = frozenset()
    ) -> None:
        self.public = oracle.public
        self.trusted = trusted
        columns = [(name,) for name in oracle.domain]
        public = None if oracle.public is None else PublicMarginals.of(oracle.public, columns)
        found = [combine_repeats(same) for same in group_repeats(shrink_to_public(measured, public))]
        alone = {item.marginal.clique[0]: item for item in found}
        self._columns = {name: alone[name] for name in oracle.domain}
        measured_columns = list(self._columns.values())
        space = ModelSpace.of(oracle).group(group_rare_codes(measured_columns, oracle=oracle))
        self._groupings, self.domain = space.groupings, space.grouped_domain
        self.total = max(1.0, estimate_rows(measured_columns)[0])
        self._baseline = fit_baseline(measured_columns, space=space, total=self.total)
        self._rng = np.random.default_rng(0)

    def is_informative(self, pair: Clique) -> bool:
        """Say whether a pair can tell anything: a column that is all one group has nothing to say about another."""
        return all(self.domain[name] > 1 for name in pair)

    def pairs(self, weights: Mapping[Clique, Fraction]) -> list[Clique]:
        """Return the pairs to look at, smallest first as far as memory reaches."""
        return take_smallest(
            filter(self.is_informative, weights), domain=self.domain, cells=MAX_SCREENED_CELLS
        )

    def marginal(self, clique: Clique) -> Marginal:
        """Return a table as it is asked for, in groups where there are some."""
        return Marginal.with_groupings(clique, self._groupings)

    def public_candidates(self, pairs: Sequence[Clique]) -> Candidates:
        """Return pairs twice: as single columns and rules imply, and as the public table has them."""
        alone = [self._independent_table(pair) for pair in pairs]
        known = [self._public_table(pair, beside=table) for pair, table in zip(pairs, alone, strict=True)]
        estimates = tuple(np.rint(table).astype(np.int64) for table in (*alone, *known))
        return Candidates(2 * tuple(map(self.marginal, pairs)), estimates, (0,) * len(estimates))

    def candidates(self, pairs: Sequence[Clique]) -> Candidates:
        """Return pairs with what is expected of them unmeasured as estimate."""
        estimates = tuple(np.rint(self._table(pair)).astype(np.int64) for pair in pairs)
        return Candidates(tuple(map(self.marginal, pairs)), estimates, (0,) * len(pairs))

    def costs(self, pairs: Sequence[Clique], *, deviation: float) -> Floats:
        """Return the L1 error per deviation of each pair, once it is measured and cleaned.

        It is simulated with public random numbers: the table without dependence is measured with the noise that
        cleaning leaves over, and made non-negative again. Cells in which no row can be are known.
        """
        found = []
        for pair in pairs:
            table = self._table(pair)
            left = min(1.0, math.sqrt(RESIDUAL_RANK * sum(table.shape) / table.size))
            possible = self._baseline.possible(pair)
            error = simulate_noise_error(table[possible], deviation=deviation * left, rng=self._rng)
            found.append(max(float(error.sum()), 1e-9) / deviation)
        return np.array(found)

    def max_distance(self, pair: Clique) -> float:
        """Return how far a pair can be from independence at most: one column decides the other."""
        return 2 * self.total * min(1 - float((self._baseline.columns[name] ** 2).sum()) for name in pair)

    def columns(self, weights: Mapping[Clique, Fraction], *, deviation: float) -> ColumnCosts:
        """Return what errors in single columns cost, each weighted by all wanted pairs that the column is in."""
        importance = dict.fromkeys(self._columns, 1e-6)
        for pair, weight in weights.items():
            for name in pair:
                importance[name] += float(weight)
        alone, rare = [], []
        for name, item in self._columns.items():
            counts = project_to_simplex(item.counts.astype(float), total=self.total)
            error = simulate_noise_error(counts, deviation=deviation, rng=self._rng)
            error *= importance[name] / deviation
            single = np.ones(error.shape, dtype=np.bool_)
            if name in self._groupings:
                lookup = self._groupings[name].lookup
                single = np.bincount(lookup)[lookup] == 1
            alone.append(float(error[single].sum()))
            rare.append(float(error[~single].sum()))
        return ColumnCosts(
            alone=np.array(alone),
            merged=np.array(rare),
            known=np.array([1 / float(item.variance) for item in self._columns.values()]),
        )

    def _table(self, pair: Clique) -> Table:
        alone = self._independent_table(pair)
        return self._public_table(pair, beside=alone) if pair in self.trusted else alone

    def _independent_table(self, pair: Clique) -> Table:
        return self.total * self._baseline.pair(pair)

    def _public_table(self, pair: Clique, *, beside: Table) -> Table:
        """Return the public table of a pair, scaled to the columns of another one."""
        if self.public is None:
            return beside
        return rake_public_table(self.public.table(self.marginal(pair)).astype(np.float64), beside=beside)


def simulate_noise_error(table: Table, *, deviation: float, rng: np.random.Generator) -> Table:
    """Return the error of each cell of a table that is measured with such noise and made non-negative again."""
    noisy = table + rng.normal(0.0, deviation, table.shape)
    return np.abs(project_to_simplex(noisy, total=float(table.sum())) - table)
