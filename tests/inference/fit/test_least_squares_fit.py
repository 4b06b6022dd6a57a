from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.gls.observations import observe
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from tests.helpers.least_squares import (
    group,
    least_loss,
    margin,
    measured,
    random_clique,
    random_counts,
    random_domain,
)
from tests.helpers.sampled_cases import sample_cases


def problem(seed, *, columns=4):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=columns)
    joint = random_counts(rng, domain, rows=int(rng.choice([0, 5, 80, 5000])))
    marginals = [Marginal(random_clique(rng, domain)) for _ in range(rng.integers(1, 8))]
    items = [measured(rng, joint, m, domain, deviation=int(rng.choice([1, 6, 40]))) for m in marginals]
    return domain, joint, items


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", sample_cases(range(40), to=12))
def test_loss_is_the_least_of_all_distributions(seed):
    domain, _, items = problem(seed)
    model = fit_least_squares(items, space=ModelSpace(domain=domain), steps=20_000, tolerance=1e-10)
    observations = observe(items, domain=domain, groupings={})
    merged = sum(
        0.5 * ((model.grouped_marginal(o.clique) - o.values) ** 2 / o.variance).sum() for o in observations
    )
    assert merged == pytest.approx(
        least_loss(list(observations), domain, total=model.total), rel=1e-6, abs=1e-6
    )


CYCLE = Domain({"a": 2, "b": 2, "c": 2})


def cycle():
    """Tables that agree pair by pair (b = a, c = b, c = not a) and yet belong to no distribution."""
    same, other = np.array([[50, 0], [0, 50]]), np.array([[0, 50], [50, 0]])
    cliques = {("a", "b"): same, ("b", "c"): same, ("a", "c"): other}
    return [Measurement(Marginal(clique), table, Fraction(25)) for clique, table in cliques.items()]


def test_a_cycle_of_pairs_needs_and_gets_the_descent():
    items = cycle()
    model = fit_least_squares(items, space=ModelSpace(domain=CYCLE), tolerance=1e-9)
    least = least_loss(list(observe(items, domain=CYCLE, groupings={})), CYCLE, total=model.total)
    assert least > 10
    assert model.loss(items) == pytest.approx(least, rel=1e-6)
    assert fit_least_squares(items, space=ModelSpace(domain=CYCLE), steps=0).loss(items) > 1.01 * least


def test_grouped_columns_are_weighted_by_the_codes_they_hold():
    rng = np.random.default_rng(5)
    domain = Domain({"a": 12, "b": 3})
    grouping = Grouping("a", (0, 1, *(2,) * 10))
    joint = random_counts(rng, domain, rows=2000)
    items = [
        measured(rng, joint, Marginal(("a",)), domain, deviation=20),
        measured(rng, joint, Marginal(("b",)), domain, deviation=5),
        measured(rng, joint, Marginal(("a", "b"), (grouping,)), domain, deviation=5),
    ]
    model = fit_least_squares(items, space=ModelSpace(domain=domain), tolerance=1e-10)
    grouped = domain.group([grouping])
    observations = observe(items, domain=domain, groupings={"a": grouping})
    assert model.loss(items) == pytest.approx(
        least_loss(list(observations), grouped, total=model.total), rel=1e-6
    )
    np.testing.assert_allclose(
        group(model.marginal(("a", "b")), grouping, axis=0), model.grouped_marginal(("a", "b")), rtol=1e-12
    )


def test_fine_pairs_of_a_grouped_column_count_cell_by_cell():
    rng = np.random.default_rng(6)
    domain = Domain({"a": 5, "b": 3})
    grouping = Grouping("a", (0, 1, 1, 1, 0))
    joint = random_counts(rng, domain, rows=500)
    items = [
        measured(rng, joint, Marginal(("a", "b")), domain, deviation=9),
        measured(rng, joint, Marginal(("b", "a"), (grouping,)), domain, deviation=9),
    ]
    model = fit_least_squares(items, space=ModelSpace(domain=domain), tolerance=1e-10)
    observations = observe(items, domain=domain, groupings={"a": grouping})
    least = least_loss(list(observations), domain.group([grouping]), total=model.total)
    merged = sum(
        0.5 * ((model.grouped_marginal(o.clique) - o.values) ** 2 / o.variance).sum() for o in observations
    )
    assert merged == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_marginals_agree_wherever_cliques_overlap(seed):
    domain, _, items = problem(seed, columns=5)
    model = fit_least_squares(items, space=ModelSpace(domain=domain))
    for pair in combinations(domain, 2):
        table = model.marginal(pair)
        assert (table >= 0).all()
        for axis, name in enumerate(pair):
            np.testing.assert_allclose(
                table.sum(axis=1 - axis), model.marginal((name,)), rtol=1e-9, atol=1e-9 * model.total
            )


@pytest.mark.parametrize("seed", range(10))
def test_exact_counts_are_reproduced(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=5)
    joint = random_counts(rng, domain, rows=1000)
    cliques = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("a",), ("e",)]
    items = [Measurement(Marginal(c), margin(joint, c, domain), Fraction(1)) for c in cliques]
    model = fit_least_squares(items, space=ModelSpace(domain=domain))
    assert model.total == pytest.approx(1000)
    for clique in cliques:
        np.testing.assert_allclose(model.marginal(clique), margin(joint, clique, domain), atol=1e-2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_measurements_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    domain, _, items = problem(seed)
    items = items + items[:2]
    mixed = [items[i] for i in rng.permutation(len(items))]
    one, two, again = (
        fit_least_squares(items, space=ModelSpace(domain=domain)),
        fit_least_squares(mixed, space=ModelSpace(domain=domain)),
        fit_least_squares(items, space=ModelSpace(domain=domain)),
    )
    for pair in combinations(domain, 2):
        np.testing.assert_array_equal(one.marginal(pair), again.marginal(pair))
        np.testing.assert_allclose(one.marginal(pair), two.marginal(pair), rtol=1e-9, atol=1e-9 * one.total)


def test_total_weighs_every_measurement_by_its_variance():
    items = [
        Measurement(Marginal(()), np.array(100), Fraction(10)),
        Measurement(Marginal(("a",)), np.array([40, 40]), Fraction(5)),
        Measurement(Marginal(("b",)), np.array([30, 30, 30, 30]), Fraction(10)),
    ]
    model = fit_least_squares(items, space=ModelSpace(domain=Domain({"a": 2, "b": 4})))
    assert model.total == pytest.approx((100 / 10 + 80 / 10 + 120 / 40) / (1 / 10 + 1 / 10 + 1 / 40))


@pytest.mark.parametrize("counts", [[[0, 0], [0, 0]], [[-9, -1], [-2, -5]], [[-900, 5], [2, -3]]])
def test_empty_and_negative_tables_give_a_valid_model(counts):
    domain = Domain({"a": 2, "b": 2, "c": 3})
    items = [
        Measurement(Marginal(("a", "b")), np.array(counts), Fraction(9)),
        Measurement(Marginal(("b",)), np.array([-3, -8]), Fraction(9)),
        Measurement(Marginal(()), np.array(-50), Fraction(9)),
    ]
    model = fit_least_squares(items, space=ModelSpace(domain=domain))
    assert model.total == 1.0
    table = model.marginal(("a", "b", "c"))
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(1.0)


def test_the_number_of_rows_alone_gives_the_uniform_model():
    model = fit_least_squares(
        [Measurement(Marginal(()), np.array(60), Fraction(1))],
        space=ModelSpace(domain=Domain({"a": 2, "b": 3})),
    )
    np.testing.assert_allclose(model.marginal(("a", "b")), np.full((2, 3), 10.0))


def test_large_tables_and_tiny_noise_stay_exact():
    domain = Domain({"a": 3, "b": 3, "c": 3})
    rng = np.random.default_rng(0)
    joint = random_counts(rng, domain, rows=10**9)
    items = [measured(rng, joint, Marginal(c), domain, deviation=1) for c in (("a", "b"), ("b", "c"))]
    model = fit_least_squares(items, space=ModelSpace(domain=domain))
    for item in items:
        assert np.abs(model.marginal(item.marginal.clique) - item.counts).max() < 10


def test_shares_inside_a_group_follow_the_fine_counts():
    domain = Domain({"a": 5})
    grouping = Grouping("a", (0, 1, 1, 1, 1))
    fine = Measurement(Marginal(("a",)), np.array([900, 30, 10, -25, 5]), Fraction(1))
    coarse = Measurement(Marginal(("a",), (grouping,)), np.array([900, 40]), Fraction(1, 100))
    shares = fit_least_squares([fine, coarse], space=ModelSpace(domain=domain)).within["a"]
    assert shares[0] == 1.0
    # 30 + 10 + 5 is 5 above the group's 40 rows: 5/3 come off each of the three.
    np.testing.assert_allclose(shares[1:] * 40, [28.3, 8.3, 0.0, 3.3], atol=0.1)
    blind = fit_least_squares([coarse], space=ModelSpace(domain=domain)).within["a"]
    np.testing.assert_allclose(blind, [1, 0.25, 0.25, 0.25, 0.25])


def test_nothing_to_fit_is_refused():
    with pytest.raises(UsageError, match="no measurements"):
        fit_least_squares([], space=ModelSpace(domain=Domain({"a": 2})))
