from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.consistency import ConsistencyProjection, fit_consistent_tables
from populace.inference.gls.gls import estimate_gls
from populace.inference.gls.observations import Observation, common_groupings, observe
from populace.measurements.measurements import Measurement
from tests.helpers.least_squares import (
    design,
    incidence,
    measured,
    random_clique,
    random_counts,
    random_domain,
)
from tests.helpers.sampled_cases import sample_cases


def dense(observations, domain, clique):
    """A marginal and its variances by generalised least squares on every joint cell."""
    matrix, values, variance = design(observations, domain)
    information = matrix.T @ (matrix / variance[:, None])
    spread = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    to_clique = incidence(clique, domain)
    joint = spread @ (matrix.T @ (values / variance))
    shape = domain.shape(clique)
    return (to_clique @ joint).reshape(shape), np.diag(to_clique @ spread @ to_clique.T).reshape(shape)


def parts(observations):
    return {
        part
        for o in observations
        for size in range(len(o.clique) + 1)
        for part in combinations(o.clique, size)
    }


def ungrouped(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=4)
    joint = random_counts(rng, domain, rows=300)
    marginals = [Marginal(random_clique(rng, domain)) for _ in range(6)] + [Marginal(())]
    items = [measured(rng, joint, m, domain, deviation=int(rng.integers(1, 30))) for m in marginals]
    return domain, observe(items, domain=domain, groupings={})


def grouped(seed):
    """Fine 1-ways (some repeated), pairs and triples on groups, sometimes the total."""
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 7, "b": 5, "c": 3, "d": 2})
    joint = random_counts(rng, domain, rows=400)
    groups = {"a": Grouping("a", (0, 0, 1, 0, 2, 1, 0)), "b": Grouping("b", (1, 0, 1, 1, 1))}
    cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "b", "d")]
    marginals = [Marginal((name,)) for name in "abcdab"]
    marginals += [
        Marginal(c, tuple(groups[n] for n in c if n in groups)) for c in cliques if rng.random() < 0.8
    ]
    marginals += [Marginal(("a",), (groups["a"],)), Marginal(("b",), (groups["b"],))]
    marginals += [Marginal(())] * int(rng.integers(0, 2))
    items = [measured(rng, joint, m, domain, deviation=int(rng.integers(1, 30))) for m in marginals]
    found = common_groupings(items)
    return domain.group(found.values()), observe(items, domain=domain, groupings=found)


@pytest.mark.parametrize("seed", sample_cases(range(30), to=3))
@pytest.mark.parametrize("problem", [ungrouped, grouped])
def test_estimates_and_variances_equal_dense_least_squares(problem, seed):
    domain, observations = problem(seed)
    effects = estimate_gls(observations, domain=domain)
    total, variance = dense(observations, domain, ())
    assert effects.total == pytest.approx(float(total), rel=1e-9)
    assert effects.total_variance == pytest.approx(float(variance), rel=1e-9)
    for clique in parts(observations):
        values, variances = dense(observations, domain, clique)
        np.testing.assert_allclose(effects.marginal(clique), values, rtol=1e-9, atol=1e-9 * abs(total))
        np.testing.assert_allclose(effects.variance(clique), variances, rtol=1e-9, atol=1e-9)


def test_a_merged_cell_is_as_uncertain_as_the_codes_in_it():
    """Codes summed into groups of 1 and 9: treating both as equally noisy would claim a third of the error."""
    domain = Domain({"a": 10})
    grouping = Grouping("a", (0,) + (1,) * 9)
    fine = Measurement(Marginal(("a",)), np.arange(10), Fraction(4))
    coarse = Measurement(Marginal(("a",), (grouping,)), np.array([1, 40]), Fraction(4))
    seen = observe([fine], domain=domain, groupings={"a": grouping})
    np.testing.assert_allclose(seen[0].variance, [4, 36])
    (both,) = observe([coarse, fine], domain=domain, groupings={"a": grouping})
    np.testing.assert_allclose(both.variance, [2, 3.6])
    np.testing.assert_allclose(both.values, [0.5, (40 / 4 + 45 / 36) * 3.6])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("problem", [ungrouped, grouped])
def test_projection_onto_agreement_is_least_squares_with_a_known_total(problem, seed):
    domain, observations = problem(seed)
    kept = [o for o in observations if o.clique]
    flat = np.concatenate([o.values.ravel() for o in kept])
    ConsistencyProjection(kept, domain=domain, total=321.0).project(flat)
    effects = estimate_gls(kept, domain=domain, total=321.0)
    for o, table in zip(kept, np.split(flat, np.cumsum([o.values.size for o in kept])[:-1]), strict=True):
        np.testing.assert_allclose(table, effects.marginal(o.clique).ravel(), atol=1e-9)


def test_what_was_not_measured_is_not_invented():
    domain = Domain({"a": 2, "b": 2})
    one = estimate_gls([Observation(("a",), np.array([3.0, 4.0]), np.ones(2))], domain=domain)
    assert one.covers(("a",))
    assert not one.covers(("a", "b"))
    with pytest.raises(UsageError, match="do not determine"):
        one.variance(("b",))


def test_of_uneven_noise_on_several_columns_only_the_sum_is_used():
    domain = Domain({"a": 2, "b": 2})
    uneven = Observation(("a", "b"), np.ones((2, 2)), np.array([[1.0, 2.0], [1.0, 1.0]]))
    found = estimate_gls([uneven], domain=domain)
    assert (found.total, found.total_variance) == (4.0, 5.0)
    assert not found.covers(("a",))
    column = Observation(("a",), np.array([3.0, 1.0]), np.ones(2))
    agreed = fit_consistent_tables([uneven, column], domain=domain, total=4.0)
    np.testing.assert_allclose(agreed.tables[("a",)], [3.0, 1.0])
    assert list(agreed.tables) == [("a",)]


def test_nothing_measured_is_refused():
    with pytest.raises(UsageError, match="nothing was measured"):
        estimate_gls([], domain=Domain({"a": 2}))


def test_a_grouping_beside_one_that_is_asked_for_is_refused():
    item = Measurement(Marginal(("a", "b"), (Grouping("a", (0, 0, 1)),)), np.zeros((2, 2)), Fraction(1))
    with pytest.raises(UsageError, match="two different ways"):
        common_groupings([item], also=[Grouping("a", (0, 1, 1))])


@pytest.mark.parametrize(
    ("marginal", "counts", "variance"),
    [
        (Marginal(("a",)), [1, 2, 3], Fraction(1)),
        (Marginal(("a",)), [1, 2], Fraction(0)),
        (Marginal(("z",)), [1, 2], Fraction(1)),
    ],
)
def test_measurements_that_do_not_fit_are_refused(marginal, counts, variance):
    with pytest.raises(UsageError):
        observe([Measurement(marginal, np.array(counts), variance)], domain=Domain({"a": 2}), groupings={})
