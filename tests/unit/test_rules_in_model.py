"""Models under rules against brute force on the whole joint table."""

from fractions import Fraction

import numpy as np
import pytest
from estimates import least_loss, margin, measured, random_clique, random_counts
from ruled import allowed_rows, random_rules

from populace.infer.fit import fit
from populace.infer.observations import observe
from populace.infer.structure import Layout
from populace.marginals import Domain, Marginal
from populace.measurements import Measurement


def problem(seed, *, columns=5, largest=4, most=2):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(2, largest + 1)) for name in "abcdefgh"[:columns]})
    rules = random_rules(rng, domain, count=int(rng.integers(1, 7)))
    allowed = allowed_rows(rules, domain)
    joint = random_counts(rng, domain, rows=int(rng.choice([80, 5000])))
    joint = np.where(allowed, joint, 0)
    marginals = [Marginal(random_clique(rng, domain, most=most)) for _ in range(rng.integers(1, 8))]
    items = [measured(rng, joint, m, domain, deviation=int(rng.choice([1, 6, 40]))) for m in marginals]
    return domain, rules, allowed, joint, items


@pytest.mark.parametrize("seed", range(60))
def test_loss_is_the_least_of_all_distributions_under_the_rules(seed):
    domain, rules, allowed, _, items = problem(seed)
    model = fit(items, domain=domain, rules=rules, steps=20_000, tolerance=1e-9)
    observations = observe(items, domain=domain, groupings={})
    merged = sum(
        0.5 * ((model.grouped_marginal(o.clique) - o.values) ** 2 / o.variance).sum() for o in observations
    )
    least = least_loss(list(observations), domain, total=model.total, allowed=allowed)
    assert merged == pytest.approx(least, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("seed", range(60))
def test_what_a_rule_forbids_has_probability_nought(seed):
    domain, rules, allowed, _, items = problem(seed)
    joint = fit(items, domain=domain, rules=rules).marginal(domain)
    assert (joint[~allowed] == 0.0).all()
    assert (joint[allowed] >= 0.0).all()
    assert np.isfinite(joint).all()


@pytest.mark.parametrize("seed", range(20))
def test_without_measured_tables_all_allowed_rows_are_equally_likely(seed):
    """The largest entropy: hidden variables add nothing of their own."""
    domain, rules, allowed, _, _ = problem(seed)
    item = Measurement(Marginal(()), np.array(100), Fraction(1))
    joint = fit([item], domain=domain, rules=rules).marginal(domain)
    np.testing.assert_allclose(joint, 100 * allowed / allowed.sum(), rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_exact_counts_give_the_distribution_of_largest_entropy(seed):
    """Proportional fitting on the whole joint table, from the uniform table of allowed rows, is another way there."""
    domain, rules, allowed, joint, _ = problem(seed)
    joint = (
        joint + allowed
    )  # every allowed cell holds rows, so the answer has no zeros but those of the rules
    rng = np.random.default_rng(seed)
    cliques = {random_clique(rng, domain, most=2) for _ in range(4)}
    items = [Measurement(Marginal(c), margin(joint, c, domain), Fraction(1)) for c in sorted(cliques)]
    expected = allowed * (joint.sum() / allowed.sum())
    axes = {c: tuple(i for i, name in enumerate(domain) if name not in c) for c in cliques}
    for _ in range(3000):
        for clique in sorted(cliques):
            found = expected.sum(axis=axes[clique], keepdims=True)
            wanted = joint.sum(axis=axes[clique], keepdims=True)
            expected = expected * np.divide(wanted, found, out=np.zeros(found.shape), where=found > 0)
    model = fit(items, domain=domain, rules=rules, tolerance=1e-9)
    np.testing.assert_allclose(model.marginal(domain), expected, atol=2e-3 * joint.sum() ** 0.5)


@pytest.mark.parametrize("seed", range(10))
def test_structure_keeps_every_rule_and_no_more(seed):
    domain, rules, allowed, _, _ = problem(seed, columns=6)
    layout = Layout(rules, domain=domain, groupings={})
    for clique in [("a",), ("b", "e"), ("f", "a", "c")]:
        np.testing.assert_array_equal(layout.allowed(clique), margin(allowed, clique, domain) > 0)
    assert all(name not in domain for name in layout.structure([]).hidden)
