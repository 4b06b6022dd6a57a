"""What noisy columns say of all pairs before any is measured: what each would be, cost and gain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.marginals import Candidates, Clique, Domain, Grouping, Marginal
from populace.inference.factor import Table, sum_codes
from populace.inference.fit.fit_model import rake_public_table
from populace.inference.fit.projection import project_to_simplex
from populace.inference.fit.public_prior import shrink_to_public
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.measurements.pooled_counts import combine_repeats, estimate_rows, group_repeats
from populace.measurements.public_marginals import PublicMarginals
from populace.methods.adaptive.earlier_tables import EarlierTables
from populace.methods.adaptive.pooled_scores import pool_scores
from populace.methods.linked_workload import alike_pairs, column_layers
from populace.methods.oracle import Oracle
from populace.methods.selection.budget_allocation import ColumnCosts
from populace.methods.selection.candidates import take_smallest
from populace.methods.selection.independence_baseline import fit_baseline
from populace.methods.selection.merge_rare_codes import RARE_THRESHOLD, group_rare_codes, merge_to_few

# All candidate pairs together: they are counted, estimated and kept at once, 8 bytes a cell each time.
MAX_SCREENED_CELLS = 2**25
# A denoised pair errs as if its residual had this rank: of the noise of m × n cells, rank·(m + n) is left.
RESIDUAL_RANK = 2.0
# A column in coarse groups keeps at least so many.
MIN_COARSE_GROUPS = 4
# Of linked tables most pairs stay unmeasured or noisy: beside such an error that of a single column, added as a square,
# counts for less than by itself.
LINKED_COLUMN_WEIGHT = 1 / 3


class PairScreen:
    """What noisy columns say: counts, groups of rare codes, and pairs as they would be without any dependence."""

    def __init__(
        self,
        oracle: Oracle,
        measured: Sequence[Measurement],
        *,
        trusted: frozenset[Clique] = frozenset(),
        earlier: EarlierTables | None = None,
    ) -> None:
        self.public = oracle.public
        self.trusted = trusted
        self._earlier = earlier or EarlierTables((), schema=oracle.schema)
        columns = [(name,) for name in oracle.domain]
        public = None if oracle.public is None else PublicMarginals.of(oracle.public, columns)
        found = [combine_repeats(same) for same in group_repeats(shrink_to_public(measured, public))]
        alone = {item.marginal.clique[0]: item for item in found}
        self._columns = {name: alone[name] for name in oracle.domain}
        measured_columns = list(self._columns.values())
        kept = self._earlier.groupings
        free = [item for name, item in self._columns.items() if name not in kept]
        groups = (*group_rare_codes(free, oracle=oracle), *(each for each in kept.values() if each))
        space = ModelSpace.of(oracle.schema).group(groups)
        self._groupings, self.domain = space.groupings, space.grouped_domain
        self.total = max(1.0, estimate_rows(measured_columns)[0])
        self._baseline = fit_baseline(measured_columns, space=space, total=self.total)
        groupings = space.groupings
        self._outside = {
            name: code if code is None or name not in groupings else groupings[name].groups[code]
            for name, code in (
                (name, column.outside_code) for name, column in oracle.schema.variables.items()
            )
        }
        self._alike = alike_pairs(oracle.schema)
        layers = column_layers(oracle.schema)
        self._together = layers[0] if layers else (frozenset(oracle.domain),)
        self._coarse = {} if not layers else self._coarsen_columns(oracle)
        self._coarse_domain = self.domain if not layers else oracle.domain.group(self._coarse.values())
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
        return Marginal.with_groupings(clique, self._coarse if self._is_coarse(clique) else self._groupings)

    def coarse_domains(self, cliques: Iterable[Clique]) -> dict[Clique, Domain]:
        """Return the pairs that are asked for in coarse groups, with the codes that they see."""
        return {clique: self._coarse_domain for clique in cliques if self._is_coarse(clique)}

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

    def pool(self, pairs: Sequence[Clique], scores: Floats, deviations: Floats) -> tuple[Floats, Floats]:
        """Return scores of pairs and their deviations, those of linked tables pooled over the places of members."""
        if not self._alike:
            return scores, deviations
        rows = np.array([min(self._rows_inside(name) for name in pair) for pair in pairs])
        kinds = [self._alike.get(pair, pair) for pair in pairs]
        return pool_scores(scores, deviations, rows=rows, kinds=kinds)

    def find_unit_pairs(self, pairs: Sequence[Clique]) -> Ints:
        """Return the numbers of the pairs inside the table of units, where tables are linked."""
        inside = [bool(self._alike) and self._together[0].issuperset(pair) for pair in pairs]
        return np.flatnonzero(inside)

    def is_known(self, pair: Clique) -> bool:
        """Say whether earlier releases measured a pair, by itself or with others."""
        return pair in self._earlier.pairs

    def known_precisions(self, tables: Iterable[Clique]) -> Floats:
        """Return the precisions that earlier releases have of tables, 0 where they have not the same cells."""
        return np.array([self._earlier.precision(self.marginal(table)) for table in tables])

    def earlier_distances(self, pairs: Sequence[Clique]) -> Floats:
        """Return how far pairs are from independence, as the model of earlier releases has them."""
        return np.array([float(np.abs(self._table(p) - self._independent_table(p)).sum()) for p in pairs])

    def costs(self, pairs: Sequence[Clique], *, deviation: float) -> Floats:
        """Return the L1 error per deviation of each pair, once it is measured and cleaned.

        It is simulated with public random numbers: the table without dependence is measured with the noise that
        cleaning leaves over, and made non-negative again. Cells in which no row can be are known.
        """
        found = []
        for pair in pairs:
            table = self._table(pair)
            left = min(1.0, math.sqrt(RESIDUAL_RANK * sum(table.shape) / table.size))
            possible = self._sum_to_coarse(self._baseline.possible(pair).astype(np.float64), pair) > 0
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
            error *= importance[name] / deviation * (LINKED_COLUMN_WEIGHT if self._alike else 1.0)
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
        """Return a pair as it is expected to be: by earlier releases, by a public table, or without dependence."""
        known = self._earlier.table(pair, groupings=self._groupings, total=self.total)
        if known is not None:
            return self._sum_to_coarse(known, pair)
        alone = self._independent_table(pair)
        return self._public_table(pair, beside=alone) if pair in self.trusted else alone

    def _independent_table(self, pair: Clique) -> Table:
        return self._sum_to_coarse(self.total * self._baseline.pair(pair), pair)

    def _rows_inside(self, name: str) -> float:
        """Return how many rows are in the universe of a column."""
        outside = self._outside[name]
        return self.total * (1.0 if outside is None else 1 - float(self._baseline.columns[name][outside]))

    def _is_coarse(self, clique: Clique) -> bool:
        """Say whether a table is a pair of columns of different linked tables, or of two members."""
        return len(clique) == 2 and not any(each.issuperset(clique) for each in self._together)

    def _sum_to_coarse(self, table: Table, pair: Clique) -> Table:
        """Return the table of a pair in the groups in which it is asked for."""
        if self._is_coarse(pair):
            for axis, name in enumerate(pair):
                coarse, fine = self._coarse.get(name), self._groupings.get(name)
                if coarse is not None and coarse != fine:
                    first = np.arange(table.shape[axis]) if fine is None else [m[0] for m in fine.members]
                    table = sum_codes(table, coarse.lookup[first], size=coarse.size, axis=axis)
        return table

    def _coarsen_columns(self, oracle: Oracle) -> dict[str, Grouping]:
        """Return groups for pairs across linked tables, few enough that the average cell stands out of its noise.

        Of such pairs there are very many, and what matters of each is its gist. The noise is that of a budget shared
        by twice as many tables as there are columns. Rows outside a column's universe fill one cell.
        """
        whole = float(oracle.budget.measure_noise(Fraction(1), marginals=1).variance)
        deviation = math.sqrt(2 * len(oracle.domain) * whole)
        found = {}
        for name, item in self._columns.items():
            counts = project_to_simplex(item.counts.astype(float), total=self.total)
            most = math.isqrt(int(self._rows_inside(name) / (RARE_THRESHOLD * deviation))) + 1
            most = max(MIN_COARSE_GROUPS, most)
            fine = self._groupings.get(name)
            lookup = np.arange(len(counts)) if fine is None else fine.lookup
            groups = merge_to_few(lookup, counts, most=most, ordered=name in oracle.ordered)
            coarse = Grouping(name, tuple(groups))
            if coarse.size < len(counts):
                found[name] = fine if fine is not None and fine.size == coarse.size else coarse
        return found

    def _public_table(self, pair: Clique, *, beside: Table) -> Table:
        """Return the public table of a pair, scaled to the columns of another one."""
        if self.public is None:
            return beside
        return rake_public_table(self.public.table(self.marginal(pair)).astype(np.float64), beside=beside)


def simulate_noise_error(table: Table, *, deviation: float, rng: np.random.Generator) -> Table:
    """Return the error of each cell of a table that is measured with such noise and made non-negative again."""
    noisy = table + rng.normal(0.0, deviation, table.shape)
    return np.abs(project_to_simplex(noisy, total=float(table.sum())) - table)
