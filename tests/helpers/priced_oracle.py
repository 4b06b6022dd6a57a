"""An oracle for methods that keeps a transcript of questions and their prices."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from populace.core.marginals import Domain
from populace.core.progress import silent
from populace.measurements.measurements import Measurement
from populace.methods.adaptive.adaptive import measure_adaptive
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.sensitivity.candidate_scores import score_candidates
from populace.schema.conditions.rules import NO_RULES
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit


class PricedOracle:
    """Answers from rows of codes with seeded noise, and writes down what every question costs."""

    partition, groups, max_rows, earlier = (), (), None, ()

    def __init__(
        self,
        rows,
        *,
        sizes,
        epsilon="1",
        delta="1e-9",
        unit=None,
        seed=0,
        ordered=(),
        rules=NO_RULES,
        totals=(),
        public=None,
        exact=False,
    ):
        self.domain = Domain(sizes)
        self.ordered = frozenset(ordered)
        self.schema = SimpleNamespace(
            domain=self.domain,
            rules=rules,
            totals=totals,
            partition=self.partition,
            groups=self.groups,
            max_rows=self.max_rows,
            linked=None,
            variables=Schema.from_sizes(sizes).variables,
        )
        self.public = public
        self.budget = Budget.of(Fraction(epsilon), Fraction(delta), unit=unit or PrivacyUnit())
        self.asked: list[tuple[str, int, Fraction]] = []
        self.looks: list[tuple[int, int]] = []
        self.measured: list[Measurement] = []
        self.used = Fraction(0)
        self._rows, self._rng, self._exact = rows, np.random.default_rng(seed), exact

    def measure(self, marginals, *, noise):
        assert marginals
        self._pay("measure", len(marginals), noise, self.budget.unit.marginal_l2_squared)
        found = tuple(Measurement(m, self._noisy(self.count(m), noise), noise.variance) for m in marginals)
        self.measured += found
        return found

    def measure_batches(self, batches):
        return tuple(item for marginals, noise in batches for item in self.measure(marginals, noise=noise))

    def score(self, candidates, *, noise):
        shift = self.budget.unit.score_shift
        assert set(candidates.weights) == {1}
        self._pay("score", len(candidates.marginals), noise, shift**2)
        self.looks.append((len(candidates.marginals), len(candidates.marginals[0].clique)))
        exact = [
            np.abs(self.count(marginal) - estimate).sum() - penalty
            for marginal, estimate, penalty in zip(
                candidates.marginals, candidates.estimates, candidates.penalties, strict=True
            )
        ]
        return self._noisy(np.array(exact, dtype=np.int64), noise)

    def choose(self, *_, **__):
        raise AssertionError("adaptive does not choose")

    def find_far(self, candidates, *, among, mechanism):
        """The first whose exact score is above 0: what a very sharp mechanism would tell."""
        self._pay("choose", 1, mechanism, self.budget.unit.score_shift**2)
        exact = [self.count(marginal) for marginal in candidates.marginals]
        scores = score_candidates(exact, candidates)[list(among)]
        return next((number for number, score in zip(among, scores, strict=True) if score > 0), None)

    def count(self, marginal):
        table = np.zeros(marginal.shape(self.domain), dtype=np.int64)
        places = []
        for name in marginal.clique:
            grouping = marginal.grouping(name)
            places.append(self._rows[name] if grouping is None else grouping.lookup[self._rows[name]])
        np.add.at(table, tuple(places), 1)
        return table

    def _pay(self, verb, answers, noise, l2_squared):
        l1 = self.budget.unit.marginal_l1
        spend = Spend(verb=verb, what="", mechanism=noise, answers=answers, l1=l1, l2_squared=l2_squared)
        share = self.budget.share(spend)
        self.used += share
        assert self.used <= 1
        self.asked.append((verb, answers, share))

    def _noisy(self, exact, noise):
        drawn = self._rng.normal(0, float(noise.variance) ** 0.5, exact.shape)
        return exact if self._exact else exact + np.rint(drawn).astype(np.int64)

    def cliques(self, size):
        """The different cliques of so many columns that were measured, in the order of the domain."""
        return sorted({item.marginal.clique for item in self.measured if len(item.marginal.clique) == size})

    def precision(self, clique):
        return sum(1 / float(item.variance) for item in self.measured if item.marginal.clique == clique)


def run(oracle, workload=None):
    found = measure_adaptive(oracle, workload=workload or Workload.pairs(oracle.domain), progress=silent)
    assert [id(item) for item in found] == [id(item) for item in oracle.measured]
    return found


def dependent(rng, sizes, rows):
    """Every column follows the one before it in two rows of three."""
    codes, last = {}, None
    for name, size in sizes.items():
        fresh = np.minimum(rng.geometric(min(0.9, 3 / size), rows) - 1, size - 1)
        codes[name] = fresh if last is None else np.where(rng.random(rows) < 0.67, last % size, fresh)
        last = codes[name]
    return codes
