import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.inference.graph.joint_tables import JointTables
from populace.inference.graph.junction_tree import junction_tree
from populace.inference.graph.propagation import Propagation
from tests.helpers.least_squares import incidence, margin, random_clique, random_domain
from tests.helpers.sampled_cases import sample_cases


def problem(seed, *, spread=2.0):
    """A random tree with node tables, and the sum of those tables over the joint cells."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=5, largest=3)
    tree = junction_tree([random_clique(rng, domain) for _ in range(4)], domain=domain)
    plan = Propagation(tree, domain=domain)
    tables = [rng.normal(0, spread, shape) for shape in plan.shapes]
    joint = sum(
        table.ravel() @ incidence(node, domain) for table, node in zip(tables, tree.nodes, strict=True)
    )
    return domain, tree, plan, tables, joint


def enumerate_all(joint, domain):
    weights = np.exp(joint - joint.max())
    return (weights / weights.sum()).reshape(domain.shape(domain))


@pytest.mark.parametrize("seed", sample_cases(range(40), to=12))
def test_beliefs_equal_enumeration(seed):
    domain, tree, plan, tables, joint = problem(seed)
    exact = enumerate_all(joint, domain)
    for node, belief in zip(tree.nodes, plan.beliefs([t.copy() for t in tables]), strict=True):
        np.testing.assert_allclose(belief, margin(exact, node, domain), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", sample_cases(range(40), to=12))
def test_any_marginal_equals_enumeration(seed):
    domain, _, plan, tables, joint = problem(seed)
    exact = enumerate_all(joint, domain)
    beliefs = plan.beliefs([t.copy() for t in tables])
    rng = np.random.default_rng(seed)
    for _ in range(5):
        clique = random_clique(rng, domain, most=5)
        np.testing.assert_allclose(
            plan.joints(beliefs).table(clique), margin(exact, clique, domain), rtol=1e-11, atol=1e-15
        )


def test_what_a_part_of_the_forest_tells_is_computed_once(monkeypatch):
    """Columns that stand apart join every set of others: those are asked for once, not once for every such column."""
    rng = np.random.default_rng(3)
    domain = Domain(dict.fromkeys("abcdefgh", 3))
    tree = junction_tree([("a", "b", "c"), ("b", "c", "d")], domain=domain)
    plan = Propagation(tree, domain=domain)
    beliefs = plan.beliefs([rng.normal(0, 1, shape) for shape in plan.shapes])
    asked, together = [], JointTables._joint_table
    monkeypatch.setattr(
        JointTables, "_joint_table", lambda self, clique: asked.append(clique) or together(self, clique)
    )
    joints = plan.joints(beliefs)
    for parents in (("a",), ("b", "d"), ("a", "d")):
        for name in "efgh":
            clique = (parents[0], name, *parents[1:])
            alone = (
                plan.joints(beliefs).table((name,)).reshape([3 if column == name else 1 for column in clique])
            )
            known = np.expand_dims(plan.joints(beliefs).table(parents), 1)
            asked.clear()
            np.testing.assert_allclose(joints.table(clique), known * alone, rtol=1e-13)
            assert len(asked) == (name == "e") + (parents == ("a",))


@pytest.mark.parametrize("seed", range(20))
def test_lowest_cost_equals_enumeration(seed):
    _, _, plan, tables, joint = problem(seed)
    assert plan.lowest([t.copy() for t in tables]) == pytest.approx(joint.min(), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_extreme_potentials_stay_finite_and_right(seed):
    domain, tree, plan, tables, joint = problem(seed, spread=2000.0)
    exact = enumerate_all(joint, domain)
    for node, belief in zip(tree.nodes, plan.beliefs([t.copy() for t in tables]), strict=True):
        assert np.isfinite(belief).all()
        np.testing.assert_allclose(belief, margin(exact, node, domain), rtol=1e-9, atol=1e-12)


def test_carrying_restores_agreement_without_touching_the_source():
    domain = Domain({"a": 2, "b": 3, "c": 2})
    tree = junction_tree([("a", "b"), ("b", "c")], domain=domain)
    plan = Propagation(tree, domain=domain)
    rng = np.random.default_rng(0)
    for source, target in ((0, 1), (1, 0)):
        beliefs = [
            rng.dirichlet(np.ones(t.size)).reshape(t.shape)
            for t in plan.beliefs([np.zeros(s) for s in plan.shapes])
        ]
        before = beliefs[source].copy()
        plan.carry(beliefs, source=source, target=target)
        np.testing.assert_array_equal(beliefs[source], before)
        np.testing.assert_allclose(beliefs[0].sum(axis=0), beliefs[1].sum(axis=1))
