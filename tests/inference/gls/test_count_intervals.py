"""Estimates and variances against least squares on every joint cell of codes, and what intervals do at the edges."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.gls.blue_estimates import GroupingOrigin
from populace.inference.gls.count_intervals import CountIntervals
from populace.inference.gls.interval_half_width import interval_half_width
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.schema.conditions.rules import Rule, Rules, Totals
from tests.helpers.least_squares import measured, random_counts
from tests.helpers.sampled_cases import sample_cases

DOMAIN = Domain({"a": 6, "b": 4, "c": 2, "d": 2})
A, B = Grouping("a", (0, 1, 0, 2, 1, 0)), Grouping("b", (1, 0, 1, 1))
# As a learnt column has them: parts of the range level by level, everything else at the end.
LEVELS = (
    Grouping("a", (0, 0, 0, 1, 1, 2)),
    Grouping("a", (0, 1, 1, 2, 2, 2)),
    Grouping("a", (1, 0, 1, 1, 1, 1)),
)


def incidence(marginal: Marginal, domain: Domain = DOMAIN) -> np.ndarray:
    """The matrix from joint cells of codes to the cells of a marginal."""
    codes = dict(zip(domain, np.indices(domain.shape(domain)).reshape(len(domain), -1), strict=True))
    number = np.zeros(domain.cells(domain), dtype=int)
    for name, size in zip(marginal.clique, marginal.shape(domain), strict=True):
        way = marginal.grouping(name)
        number = number * size + (codes[name] if way is None else way.lookup[codes[name]])
    return (number == np.arange(np.prod(marginal.shape(domain), dtype=int))[:, None]).astype(float)


def dense(items: list[Measurement], marginal: Marginal) -> tuple[np.ndarray, np.ndarray] | None:
    """A marginal and its variances by generalised least squares over codes, or None if it is not determined."""
    matrix = np.vstack([incidence(item.marginal) / float(item.variance) ** 0.5 for item in items])
    values = np.concatenate([item.counts.ravel() / float(item.variance) ** 0.5 for item in items])
    inverse = np.linalg.pinv(matrix, rcond=1e-12)
    wanted = incidence(marginal)
    if not np.allclose(wanted @ inverse @ matrix, wanted, atol=1e-8):
        return None
    shape = marginal.shape(DOMAIN)
    return (wanted @ inverse @ values).reshape(shape), ((wanted @ inverse) ** 2).sum(axis=1).reshape(shape)


def noisy(marginals: list[Marginal], seed: int) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    joint = random_counts(rng, DOMAIN, rows=400)
    return [measured(rng, joint, m, DOMAIN, deviation=int(rng.integers(1, 30))) for m in marginals]


def grouped(*clique: str) -> Marginal:
    return Marginal(clique, tuple(way for way in (A, B) if way.column in clique))


FINE = [Marginal((name,)) for name in DOMAIN]
CASES = {
    "codes alone": [*FINE, Marginal(("a",))],
    "compressed pairs": [Marginal(()), *FINE, grouped("a", "b"), grouped("b", "c"), Marginal(("c", "d"))],
    "pairs twice, overlapping a triple": [
        *FINE,
        *[grouped("a", "b"), grouped("b", "a"), grouped("a", "b"), grouped("a", "c")],
        *[grouped("c", "b", "a"), grouped("a", "b", "d"), grouped("a", "b", "d")],
    ],
    "groups without codes": [Marginal(()), grouped("a", "b"), grouped("a"), Marginal(("c",))],
    "no table of its own": [grouped("a", "b"), Marginal(("c", "d"))],
    "learnt bins": [Marginal(("a",)), Marginal(("a",)), *(Marginal(("a",), (way,)) for way in LEVELS)],
    "learnt bins, compressed pairs": [
        *[Marginal(()), *FINE, *(Marginal(("a",), (way,)) for way in LEVELS)],
        *[grouped("a", "b"), grouped("a", "c", "d"), grouped("a", "b")],
    ],
    "learnt bins, pairs of codes": [
        *(Marginal(("a",), (way,)) for way in LEVELS),
        *[Marginal(("a", "c")), grouped("b"), Marginal(("b",))],
    ],
    "parts that overlap, no codes": [Marginal(("a",), (way,)) for way in LEVELS] + [Marginal(("c",))],
}


@pytest.mark.parametrize(
    ("seed", "case"), sample_cases([(seed, case) for seed in range(5) for case in CASES], to=len(CASES) // 2)
)
def test_estimates_and_variances_equal_dense_least_squares(case: str, seed: int) -> None:
    items = noisy(CASES[case], seed)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN), groups=GroupingOrigin.FIXED)
    cliques = [clique for size in range(4) for clique in combinations(("d", "b", "a", "c"), size)]
    asked = {way(*clique) for clique in cliques for way in (grouped, lambda *c: Marginal(c))}
    asked |= {item.marginal for item in items}
    # Sums of tables of several columns into groups in which none was measured are not offered.
    ways = {way for item in items if len(item.marginal.clique) > 1 for way in item.marginal.groupings}
    asked = {m for m in asked if len(m.clique) == 1 or set(m.groupings) <= ways}
    determined = 0
    for marginal in asked:
        truth = dense(items, marginal)
        if truth is None:
            with pytest.raises(UsageError, match="do not determine"):
                found.at(marginal)
        else:
            determined += 1
            interval = found.at(marginal)
            np.testing.assert_allclose(interval.estimate, truth[0], rtol=1e-8, atol=1e-6)
            np.testing.assert_allclose(interval.error**2, truth[1], rtol=1e-8, atol=1e-8)
    assert determined >= len({item.marginal for item in items})


def test_a_code_in_a_group_follows_the_better_count_of_its_group() -> None:
    """By hand: codes 10 and 20 (variance 4), their group counted again as 40 (variance 8), so 35 with variance 4."""
    codes = Measurement(Marginal(("x",)), np.array([10, 20]), Fraction(4))
    whole = Measurement(Marginal(("x",), (Grouping("x", (0, 0)),)), np.array([40]), Fraction(8))
    found = CountIntervals(
        [codes, whole], space=ModelSpace(domain=Domain({"x": 2})), groups=GroupingOrigin.FIXED
    ).of("x")
    np.testing.assert_allclose(found.estimate, [12.5, 22.5])
    # (4 − 8/4) between the codes of the group, and 4/4 from their sum.
    np.testing.assert_allclose(found.error**2, [3.0, 3.0])


def test_counts_that_chose_the_groups_speak_for_codes_alone() -> None:
    """Groups rest on tables of groups, codes on their own tables; both know the rows from everything."""
    items = noisy(CASES["learnt bins, compressed pairs"], seed=5)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    fine = {item.marginal.clique: item for item in items if item.marginal in (FINE[0], FINE[1])}
    after = [item for item in items if item.marginal.clique not in fine] + [
        Measurement(Marginal(()), item.counts.sum(), item.counts.size * item.variance)
        for item in fine.values()
    ]
    for marginal in (Marginal(()), grouped("a"), grouped("b"), grouped("a", "b"), grouped("a", "c", "d")):
        truth, interval = dense(after, marginal), found.at(marginal)
        assert truth is not None
        np.testing.assert_allclose(interval.estimate, truth[0], rtol=1e-8, atol=1e-6)
        np.testing.assert_allclose(interval.error**2, truth[1], rtol=1e-8)
    codes, own, rows = fine["a",].counts, float(fine["a",].variance), found.of()
    np.testing.assert_allclose(found.of("a").estimate, codes + (rows.estimate - codes.sum()) / 6)
    np.testing.assert_allclose(found.of("a").error ** 2, own * 5 / 6 + rows.error**2 / 36)
    halves = Marginal(("a",), (Grouping("a", (0, 0, 0, 1, 1, 1)),))
    np.testing.assert_allclose(found.at(halves).estimate, found.of("a").estimate.reshape(2, 3).sum(axis=1))
    np.testing.assert_allclose(found.at(halves).error ** 2, own * 3 / 2 + rows.error**2 / 4)


def test_axes_come_in_the_order_asked_for() -> None:
    items = noisy([grouped("b", "a"), Marginal(("c",))], seed=1)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    assert found.of("b", "a").estimate.shape == (2, 3)
    np.testing.assert_allclose(found.of("a", "b").low, found.of("b", "a").low.T)
    assert [interval.marginal for interval in found] == list(found.measured) == [i.marginal for i in items]
    assert float(found.of().estimate) == pytest.approx(found.of("a", "b").estimate.sum())


def test_a_table_of_codes_beside_tables_of_groups_stands_by_itself() -> None:
    """Its unequal variances do not separate into effects: its own numbers are unbiased, the rest uses its sum."""
    items = noisy([Marginal(("a", "c")), grouped("a", "b"), Marginal(("a", "c")), *FINE], seed=2)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    alone, weights = found.at(Marginal(("a", "c"))), [1 / float(items[n].variance) for n in (0, 2)]
    np.testing.assert_allclose(
        alone.estimate, np.average([items[0].counts, items[2].counts], axis=0, weights=weights)
    )
    np.testing.assert_allclose(alone.error**2, 1 / sum(weights))
    assert (found.of("a", "b").error <= float(items[1].variance) ** 0.5).all()


def test_a_column_that_only_such_a_table_holds_is_not_made_up() -> None:
    items = noisy([Marginal(("a", "c")), grouped("a", "b")], seed=2)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    with pytest.raises(UsageError, match="do not determine c"):
        found.of("c")
    assert [interval.estimate.shape for interval in found] == [(6, 2), (3, 2)]


def test_what_is_public_or_forbidden_is_certain() -> None:
    items = noisy([*FINE, Marginal(("c", "d")), Marginal(("a", "c"))], seed=3)
    counts = np.array([[30, 70], [100, 200]])
    never = Rules(
        classes={"a": Grouping("a", (0, 0, 0, 0, 1, 1)), "c": Grouping("c", (0, 1))},
        rules=(Rule(text="", clique=("a", "c"), allowed=np.array([[True, True], [True, False]])),),
    )
    found = CountIntervals(
        items,
        space=ModelSpace(domain=DOMAIN, rules=never, totals=(Totals(clique=("d", "c"), counts=counts),)),
    )
    for columns, known in (((), 400), (("c",), [130, 270]), (("c", "d"), counts.T)):
        interval = found.of(*columns)
        assert (interval.estimate == known).all()
        assert not interval.half_width.any()
    pair = found.of("c", "a")
    assert not pair.estimate[1, 4:].any()
    assert not pair.half_width[1, 4:].any()
    assert (pair.half_width[:, :4] > 0).all()
    np.testing.assert_allclose(found.of("a").estimate.sum(), 400)
    plain = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    assert (found.of("a").error < plain.of("a").error).all()


def test_questions_without_an_answer_are_refused() -> None:
    items = noisy(FINE, seed=4)
    found = CountIntervals(items, space=ModelSpace(domain=DOMAIN))
    with pytest.raises(UsageError, match="do not determine a × b"):
        found.of("a", "b")
    with pytest.raises(UsageError, match="no column 'z'"):
        found.of("z")
    for level in (0.0, 1.0, 95):
        with pytest.raises(UsageError, match="level"):
            CountIntervals(items, space=ModelSpace(domain=DOMAIN), level=level)
    with pytest.raises(UsageError, match="no measurements"):
        CountIntervals([], space=ModelSpace(domain=DOMAIN))


def mechanism(deviation: float, *, laplace: bool) -> np.ndarray:
    """Probabilities of integer noise on −2,000 … 2,000."""
    numbers = np.arange(-2000, 2001)
    weights = np.abs(numbers) * 2**0.5 if laplace else numbers**2 / (2 * deviation)
    weights = np.exp(-weights / deviation)
    return weights / weights.sum()


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("deviation", [0.3, 0.5, 0.8, 1.0, 1.7, 2.5, 4.0, 10.0, 37.3])
def test_one_noisy_count_is_covered_however_small_its_noise(deviation: float, laplace: bool) -> None:
    """The exact probability that integer noise stays within its reach: never below 95 %, and close where it can be."""
    numbers, chances = np.arange(-2000, 2001), mechanism(deviation, laplace=laplace)
    variance = np.array(chances @ numbers**2)
    within = float(interval_half_width(variance, noise=float(variance), laplace=laplace))
    covered = chances[np.abs(numbers) <= within].sum()
    assert covered >= 0.95 - (1e-9 if deviation < 16 else 3e-3)
    # Noise falls on whole numbers: where one row more or less makes a difference, one less would be too few.
    assert covered <= 0.965 or chances[np.abs(numbers) <= within - 1].sum() < 0.96 or deviation < 0.5


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("times", [2, 5, pytest.param(30, marks=pytest.mark.slow)])
def test_the_mean_of_several_counts_is_covered(times: int, laplace: bool) -> None:
    chances = mechanism(3.0, laplace=laplace)
    numbers = np.arange(-2000, 2001)
    variance = float(chances @ numbers**2)
    summed = chances
    for _ in range(times - 1):
        summed = np.convolve(summed, chances)
    means = (np.arange(len(summed)) - len(summed) // 2) / times
    within = interval_half_width(np.array(variance / times), noise=variance, laplace=laplace)
    assert summed[np.abs(means) <= within].sum() == pytest.approx(0.95, abs=0.01)
