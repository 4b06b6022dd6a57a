"""Proportional fitting and products of factors, against enumeration of all cells."""

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Marginal
from populace.inference.factor import AxisMap
from populace.inference.fit.junction_ipf import fit_junction_ipf
from populace.inference.fit.objective import Objective
from populace.inference.gls.consistency import fit_consistent_tables
from populace.inference.gls.observations import observe
from populace.measurements.measurements import Measurement
from tests.helpers.least_squares import incidence, least_loss, margin, measured, random_counts
from tests.helpers.sampled_cases import sample_cases

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 3})
CYCLE = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d")]


def problem(seed, *, cliques=CYCLE, rows=4000, deviation=20, hard=None):
    rng = np.random.default_rng(seed)
    joint = random_counts(rng, DOMAIN, rows=rows)
    items = [measured(rng, joint, Marginal(c), DOMAIN, deviation=deviation) for c in cliques]
    observations = observe(items, domain=DOMAIN, groupings={})
    return observations, Objective(observations, domain=DOMAIN, total=float(rows), hard=hard)


def enumerated(objective, flat):
    """Return the probability of every cell of the domain, cell by cell."""
    weights = sum(
        table.ravel() @ incidence(factor, DOMAIN)
        for factor, table in zip(objective.factors, objective.tables(flat), strict=True)
    )
    shares = np.exp(weights - weights.max()).reshape(DOMAIN.shape(DOMAIN))
    for clique, allowed in objective.hard.items():
        shares = shares * AxisMap.of(clique, inside=tuple(DOMAIN), domain=DOMAIN).spread(allowed)
    return shares / shares.sum()


@pytest.mark.parametrize("spread", [1.0, 30.0, 500.0, 5000.0])
@pytest.mark.parametrize("seed", sample_cases(range(10), to=4))
def test_beliefs_equal_enumeration_however_far_potentials_are_apart(seed, spread):
    """Products of weights would vanish for the last; logarithms take over."""
    _, objective = problem(seed)
    flat = np.random.default_rng(seed).normal(0, spread, objective.zeros().shape)
    exact = enumerated(objective, flat)
    for node, belief in zip(objective.tree.nodes, objective.beliefs(flat), strict=True):
        np.testing.assert_allclose(belief, margin(exact, node, DOMAIN), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_under_hard_tables_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    hard = {("a", "d"): rng.random((3, 3)) < 0.6, ("b", "c"): rng.random((4, 2)) < 0.7}
    # One code of a is impossible altogether: a separator cell without weight is not one that vanished.
    hard["a", "d"][0, :], hard["a", "d"][1, 0], hard["b", "c"][0, 0] = False, True, True
    _, objective = problem(seed, hard=hard)
    flat = rng.normal(0, 3, objective.zeros().shape)
    exact = enumerated(objective, flat)
    for node, belief in zip(objective.tree.nodes, objective.beliefs(flat), strict=True):
        np.testing.assert_allclose(belief, margin(exact, node, DOMAIN), rtol=1e-9, atol=1e-15)
        assert (belief[margin(exact, node, DOMAIN) == 0] == 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_exact_targets_are_met_in_two_sweeps_on_a_tree(seed):
    cliques = [("a", "b"), ("b", "c"), ("c", "d")]
    _, objective = problem(seed, cliques=cliques)
    assert objective.closed
    wanted = random_counts(np.random.default_rng(seed), DOMAIN, rows=10**6) + 1.0
    wanted /= wanted.sum()
    targets = {clique: margin(wanted, clique, DOMAIN) for clique in cliques}
    found = enumerated(objective, fit_junction_ipf(objective, targets=targets, sweeps=2))
    for clique, target in targets.items():
        np.testing.assert_allclose(margin(found, clique, DOMAIN), target, rtol=1e-9)


@pytest.mark.parametrize("seed", sample_cases(range(20), to=6))
def test_soft_targets_end_near_the_least_loss_where_exact_ones_do_not(seed):
    observations, objective = problem(seed, rows=300, deviation=15)
    assert not objective.closed
    agreed = fit_consistent_tables(observations, domain=DOMAIN, total=300.0)
    least = least_loss(list(observations), DOMAIN, total=300.0)
    flat = fit_junction_ipf(
        objective,
        targets={c: pull / 300 for c, pull in agreed.pulls.items()},
        soft={o.clique: np.sqrt(o.variance) / 300 for o in observations},
        floor=1e-6,
        sweeps=100,
    )
    assert objective.at(flat).loss <= 1.05 * least + 0.5


def test_contradicting_targets_leave_potentials_in_bounds():
    same, other = np.array([[50, 0], [0, 50]]), np.array([[0, 50], [50, 0]])
    domain = Domain({"a": 2, "b": 2, "c": 2})
    cliques = {("a", "b"): same, ("b", "c"): same, ("a", "c"): other}
    items = [Measurement(Marginal(c), table, Fraction(4)) for c, table in cliques.items()]
    objective = Objective(observe(items, domain=domain, groupings={}), domain=domain, total=100.0)
    targets = {clique: table / 100 for clique, table in cliques.items()}
    soft = {clique: np.full((2, 2), 0.02) for clique in cliques}
    long = fit_junction_ipf(objective, targets=targets, soft=soft, sweeps=5000, close=0.0)
    # Left alone they would drift by 1/6 of the rows over their softness in every sweep: to 40,000.
    assert np.ptp(long) < 1 / (0.01 * 0.02)
    # Nothing tells the three pairs apart, so each misses its table by as much as the others.
    shares = objective.tables(objective.at(long).shares)
    missed = [
        float(np.abs(share - targets[clique]).sum())
        for clique, share in zip(objective.factors, shares, strict=True)
    ]
    np.testing.assert_allclose(missed, missed[0], rtol=0.05)
