"""One small problem solved elsewhere: scipy's non-negative least squares on all twelve joint cells, to nine digits."""

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
MEASURED = {
    (): (103, 4),
    ("a",): ([61, 38], 16),
    ("b",): ([52, 47, -6], 16),
    ("c",): ([70, 33], 16),
    ("a", "b"): ([[44, 20, -3], [5, 31, 2]], 9),
    ("b", "c"): ([[48, 3], [17, 33], [4, -7]], 9),
}


def items():
    return [Measurement(Marginal(c), np.array(counts), Fraction(v)) for c, (counts, v) in MEASURED.items()]


def test_fitted_tables_are_those_of_another_solver():
    model = fit_least_squares(items(), space=ModelSpace(domain=DOMAIN), tolerance=1e-9)
    assert model.total == pytest.approx(101.65, rel=1e-12)
    assert model.loss(items()) == pytest.approx(6.502920868, abs=1e-7)
    np.testing.assert_allclose(
        model.marginal(("a", "b")),
        [[44.436009035, 18.696009035, 0.0], [6.343904363, 30.603904363, 1.570173204]],
        atol=1e-6,
    )
    np.testing.assert_allclose(
        model.marginal(("b", "c")),
        [[48.740963187, 2.038950211], [17.500963187, 31.798950211], [1.570173204, 0.0]],
        atol=1e-6,
    )


def test_columns_that_never_met_are_independent_given_what_lies_between():
    model = fit_least_squares(items(), space=ModelSpace(domain=DOMAIN), tolerance=1e-9)
    first, second = model.marginal(("a", "b")), model.marginal(("b", "c"))
    np.testing.assert_allclose(model.marginal(("a", "c")), (first / first.sum(axis=0)) @ second, atol=1e-6)


def test_codes_of_a_group_share_its_rows_by_their_noisy_counts():
    """By hand: group 1 holds codes 1 to 3, so its fine counts, summed, weigh a third of those of group 0."""
    grouping = Grouping("x", (0, 1, 1, 1))
    fine = Measurement(Marginal(("x",)), np.array([80, 60, 50, -10]), Fraction(1))
    coarse = Measurement(Marginal(("x",), (grouping,)), np.array([84, 96]), Fraction(1))
    model = fit_least_squares([fine, coarse], space=ModelSpace(domain=Domain({"x": 4})))
    # Precisions: group 0 has 1 + 1, group 1 has 1/3 + 1. Free of signs, least squares is each group's own mean.
    np.testing.assert_allclose(model.grouped_marginal(("x",)), [82.0, (100 / 3 + 96) / (4 / 3)], atol=1e-4)
    # 60 + 50 is 13 above the group's 97 rows: 6.5 come off each, and the negative code gets nothing.
    np.testing.assert_allclose(model.marginal(("x",)), [82.0, 53.5, 43.5, 0.0], atol=1e-4)
