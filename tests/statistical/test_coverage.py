"""Intervals hold the truth as often as they say, on groups that the same run's noise chose.

Seed 1; 200 runs. A right estimator is rejected with probability below 1e-6: all bands are at least five standard errors
wide, as runs vary. Intervals from variances that are a third too small or too large are rejected, and so are groups
for which the counts that chose them count again.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.blue_estimates import GroupingOrigin
from populace.inference.gls.count_intervals import CountInterval, CountIntervals
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.selection.merge_rare_codes import merge_rare_codes

DOMAIN = Domain({"city": 30, "age": 20, "sex": 2})
DEVIATION = 8
RUNS = 200


def joint() -> np.ndarray:
    """A table of about 5,000 rows; many cities are about as large as what noise hides."""
    rng = np.random.default_rng(0)
    city = np.concatenate([np.full(8, 300.0), np.full(22, 2.0 * DEVIATION)])
    age = np.exp(-(((np.arange(20) - 8) / 4) ** 2))
    cells = city[:, None, None] * (age / age.sum())[:, None] * np.array([0.4, 0.6])
    return rng.poisson(cells)


def table(truth: np.ndarray, marginal: Marginal) -> np.ndarray:
    axes = tuple(axis for axis, name in enumerate(DOMAIN) if name not in marginal.clique)
    counts = truth.sum(axis=axes)
    for axis, name in enumerate(marginal.clique):
        way = marginal.grouping(name)
        if way is not None:
            counts = np.stack(
                [counts.take(codes, axis=axis).sum(axis=axis) for codes in way.members], axis=axis
            )
    return counts


def run(truth: np.ndarray, rng: np.random.Generator) -> tuple[list[Measurement], dict[str, Grouping]]:
    def measured(marginal: Marginal, deviation: int) -> Measurement:
        counts = table(truth, marginal)
        noise = np.rint(rng.normal(0, deviation, counts.shape)).astype(np.int64)
        # Rounding adds a twelfth.
        return Measurement(marginal, counts + noise, deviation**2 + Fraction(1, 12))

    alone = [measured(Marginal((name,)), DEVIATION) for name in DOMAIN]
    groups = {way.column: way for way in merge_rare_codes(alone, ordered={"age"}, classes={})}
    larger = (("age", "sex"), ("age", "sex"), ("city", "age", "sex"))
    marginals = [Marginal(clique, tuple(groups[n] for n in clique if n in groups)) for clique in larger]
    tables = [measured(m, DEVIATION + place) for place, m in enumerate(marginals)]
    return [measured(Marginal(()), 3 * DEVIATION), *alone, *tables], groups


# A few hundred runs are the least that tells.
pytestmark = pytest.mark.slow

Errors = dict[str, list[np.ndarray]]


@pytest.fixture(scope="module")
def errors() -> dict[GroupingOrigin, Errors]:
    """How far estimates are from the truth, in units of their reach, for every kind of count and every run."""
    truth, rng = joint(), np.random.default_rng(1)
    booked: dict[GroupingOrigin, Errors] = {way: {} for way in GroupingOrigin}
    for _ in range(RUNS):
        items, ways = run(truth, rng)
        merged = [(Marginal((name,), (way,)), np.bincount(way.lookup) > 1) for name, way in ways.items()]
        for groups, kinds in booked.items():
            found = CountIntervals(items, space=ModelSpace(domain=DOMAIN), groups=groups)

            def off(interval: CountInterval) -> np.ndarray:
                return np.abs(interval.estimate - table(truth, interval.marginal)) / interval.half_width

            parts = {"groups": [off(found.at(marginal))[many] for marginal, many in merged]}
            parts["cities"] = [off(found.at(merged[0][0]))[merged[0][1]]]
            if groups is GroupingOrigin.CHOSEN:
                parts["rows"] = [off(found.of()).reshape(1)]
                parts["codes"] = [off(found.of(name)) for name in DOMAIN]
                parts["tables"] = [off(found.of("age", "sex")), off(found.of("city", "age", "sex"))]
            for kind, found_off in parts.items():
                kinds.setdefault(kind, []).append(np.concatenate([part.ravel() for part in found_off]))
    return booked


def coverage(runs: list[np.ndarray], *, stretch: float = 1.0) -> tuple[float, float]:
    """The share of intervals that hold the truth, and its standard error: cells of one run share noise."""
    hits = np.array([(np.sum(run <= stretch), run.size) for run in runs], dtype=float)
    share = hits[:, 0].sum() / hits[:, 1].sum()
    return share, float(np.sqrt(((hits[:, 0] - share * hits[:, 1]) ** 2).sum()) / hits[:, 1].sum())


@pytest.mark.parametrize("kind", ["codes", "tables"])
def test_intervals_hold_the_truth_as_often_as_they_say(
    errors: dict[GroupingOrigin, Errors], kind: str
) -> None:
    share, error = coverage(errors[GroupingOrigin.CHOSEN][kind])
    assert 5 * error < 0.015
    assert abs(share - 0.95) < 0.015


@pytest.mark.parametrize("kind", ["rows", "groups", "cities"])
def test_so_do_those_of_which_a_run_has_few(errors: dict[GroupingOrigin, Errors], kind: str) -> None:
    """One number of rows, a few groups: five standard errors is what so many runs can tell."""
    share, error = coverage(errors[GroupingOrigin.CHOSEN][kind])
    assert error < 0.025
    assert abs(share - 0.95) < 5 * error


@pytest.mark.parametrize("kind", ["codes", "tables"])
@pytest.mark.parametrize("stretch", [1.15, 1 / 1.15])
def test_wrong_variances_are_found_out(
    errors: dict[GroupingOrigin, Errors], kind: str, stretch: float
) -> None:
    share, _ = coverage(errors[GroupingOrigin.CHOSEN][kind], stretch=stretch)
    assert abs(share - 0.95) > 0.015


def test_counts_that_chose_a_group_must_not_count_for_it(errors: dict[GroupingOrigin, Errors]) -> None:
    share, error = coverage(errors[GroupingOrigin.FIXED]["cities"])
    assert share < 0.95 - 5 * error
