"""Candidates of a round: which are left out, and what they are compared with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from populace.core.marginals import Domain, Grouping, Marginal
from populace.methods.selection.candidates import (
    answer_candidates,
    compare_candidates,
    mean_absolute_noise,
    workload_candidates,
)
from populace.methods.workload import Workload
from populace.privacy.accounting.mechanisms import DiscreteGaussian

NOISE = DiscreteGaussian(Fraction(4))
WEIGHTS = {("a",): 7, ("a", "b"): 3, ("b", "c"): 2}


class Even:
    """As many rows in every cell of the first half, and none in the second."""

    def __init__(self, total, *, large=()):
        self.domain = Domain({"a": 4, "b": 10, "c": 2})
        self.total = total
        self.large = large
        self.groupings = {}

    def tables(self, cliques):
        return {clique: self.table(clique) for clique in cliques}

    def table(self, clique):
        found = np.zeros(self.domain.shape(clique))
        found[: len(found) // 2] = 1
        return found * self.total / found.sum()

    def fits(self, clique, *, max_cells):
        return clique not in self.large or max_cells >= 1000


def test_a_candidate_has_its_weight_and_the_noise_of_cells_that_can_hold_rows():
    found = answer_candidates(Even(100.0), WEIGHTS, noise=NOISE)
    assert found.marginals == tuple(map(Marginal, WEIGHTS))
    assert found.weights == (7, 3, 2)
    assert found.penalties == tuple(
        round(w * mean_absolute_noise(NOISE) * n) for w, n in zip((7, 3, 2), (2, 20, 10), strict=True)
    )
    assert found.estimates[0].tolist() == [50, 50, 0, 0]
    assert all(estimate.dtype == np.int64 for estimate in found.estimates)


def test_only_tables_of_several_columns_are_left_out_for_their_noise():
    """Twice the rows is the largest distance there can be."""
    edge = 20 * mean_absolute_noise(NOISE) / 2
    assert Marginal(("b", "c")) in answer_candidates(Even(edge * 1.001), WEIGHTS, noise=NOISE).marginals
    assert Marginal(("b", "c")) not in answer_candidates(Even(edge * 0.999), WEIGHTS, noise=NOISE).marginals
    assert answer_candidates(Even(0.001), WEIGHTS, noise=NOISE).marginals == (Marginal(("a",)),)


def test_what_an_estimate_has_no_room_for_is_left_out():
    estimate = Even(1000.0, large=[("a", "b")])
    assert (
        Marginal(("a", "b")) not in answer_candidates(estimate, WEIGHTS, noise=NOISE, max_cells=999).marginals
    )
    assert Marginal(("a", "b")) in answer_candidates(estimate, WEIGHTS, noise=NOISE, max_cells=1000).marginals


def test_grouped_columns_are_asked_in_their_groups():
    groups = Grouping("b", tuple(range(10)))
    estimate = Even(100.0)
    estimate.groupings = {"b": groups}
    found = compare_candidates(estimate, WEIGHTS, noise=NOISE)
    assert [marginal.groupings for marginal in found.marginals] == [(), (groups,), (groups,)]


def test_marginals_that_become_alike_add_their_weights():
    """A column of one code says nothing: what is wanted with it is wanted without it."""
    wanted = Workload(weights={("a", "c"): Fraction(1), ("a",): Fraction(1), ("b",): Fraction(1)})
    assert workload_candidates(wanted, domain=Domain({"a": 2, "b": 3, "c": 1})) == {("a",): 1000, ("b",): 500}
    assert workload_candidates(wanted, domain=Domain({"a": 2, "b": 3, "c": 2})) == {
        ("a",): 1000,
        ("b",): 1000,
        ("a", "c"): 1000,
    }
