from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import nnls

from populace.core.marginals import Domain, Marginal
from populace.inference.fit.projection import project_to_simplex
from populace.inference.gls.consistency import fit_consistent_tables
from populace.inference.gls.observations import observe
from populace.measurements.measurements import Measurement
from tests.helpers.least_squares import least_loss, measured, random_counts, random_domain
from tests.helpers.sampled_cases import sample_cases


def chain(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=4, largest=4)
    joint = random_counts(rng, domain, rows=int(rng.choice([0, 30, 3000])))
    cliques = [("a",), ("c",), ("a", "b"), ("b", "c"), ("c", "d")]
    items = [measured(rng, joint, Marginal(c), domain, deviation=int(rng.integers(1, 20))) for c in cliques]
    return domain, observe(items, domain=domain, groupings={})


@pytest.mark.parametrize("seed", range(20))
def test_bound_is_the_least_loss_on_a_tree(seed):
    domain, observations = chain(seed)
    found = fit_consistent_tables(observations, domain=domain, total=200.0, tolerance=1e-11, rounds=5000)
    exact = least_loss(list(observations), domain, total=200.0)
    assert found.bound == pytest.approx(exact, rel=1e-6, abs=1e-6)
    reached = sum(0.5 * ((found.tables[o.clique] - o.values) ** 2 / o.variance).sum() for o in observations)
    assert reached == pytest.approx(exact, rel=1e-4, abs=1e-4)
    for table in found.tables.values():
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(200.0, rel=1e-4)


@pytest.mark.parametrize("seed", sample_cases(range(60), to=20))
def test_bound_holds_however_early_it_stops(seed):
    """Seed 55 is one where a momentum step below 0, taken for a multiplier, would give a bound above the loss."""
    domain, observations = chain(seed)
    least = least_loss(list(observations), domain, total=20.0)
    for rounds in (1, 11, 21, 41):
        found = fit_consistent_tables(observations, domain=domain, total=20.0, rounds=rounds)
        assert found.bound <= least + 1e-7 * max(1.0, least)


def test_one_table_is_projected_onto_the_simplex():
    domain = Domain({"a": 5})
    item = Measurement(Marginal(("a",)), np.array([9, -4, 3, 0, -30]), Fraction(7))
    found = fit_consistent_tables(observe([item], domain=domain, groupings={}), domain=domain, total=10.0)
    np.testing.assert_allclose(
        found.tables["a",], project_to_simplex(item.counts.astype(float), total=10.0), atol=1e-3
    )


@pytest.mark.parametrize("seed", range(20))
def test_norm_sub_is_the_nearest_table(seed):
    rng = np.random.default_rng(seed)
    table, total = rng.normal(0, 20, (3, 4)), float(rng.uniform(0.1, 50))
    nearest = project_to_simplex(table, total=total)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(total)
    heavy = 1e4
    exact, _ = nnls(np.vstack([np.eye(12), np.full((1, 12), heavy)]), np.append(table.ravel(), heavy * total))
    np.testing.assert_allclose(nearest.ravel(), exact, atol=1e-4)


def test_norm_sub_survives_tables_far_from_their_total():
    assert project_to_simplex(np.array([-1e15, -1e15]), total=1.0).sum() == pytest.approx(1.0)
    assert project_to_simplex(np.array([1e15, 3.0]), total=1.0).tolist() == [1.0, 0.0]
    assert project_to_simplex(np.array([1.0, 2.0]), total=0.0).tolist() == [0.0, 0.0]
