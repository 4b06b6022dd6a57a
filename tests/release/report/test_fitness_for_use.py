"""What a release is good for: sentences that follow from comparisons alone."""

from __future__ import annotations

from populace.release.report.comparison import Comparison
from populace.release.report.fitness_for_use import judge_fitness

CLOSE = Comparison(distance=0.01, noise_alone=0.02, beyond_noise=False)
WEAK = Comparison(distance=0.2, noise_alone=0.2, beyond_noise=False)


def test_close_tables_are_good_and_weak_unmeasured_and_higher_ones_are_not() -> None:
    found = judge_fitness(
        [("a", CLOSE), ("b", CLOSE), ("c", WEAK), ("d", CLOSE)],
        [(("a", "b"), CLOSE), (("b", "c"), WEAK)],
        variables=("a", "b", "c", "d"),
        alone=("d",),
        margin=40.0,
    )
    assert found.good == (
        "Shares of single columns, off by 3 % at most: a, b, d.",
        "Tables of these columns together, of an error bound below 10 %: a × b.",
    )
    text = "\n".join(found.poor)
    for part in (
        "Shares of c",
        "Tables of b × c",
        "with d beside",
        "The 4 of 6 pairs",
        "3 or more columns",
        "40 rows",
    ):
        assert part in text, part


def test_a_table_of_all_columns_carries_everything() -> None:
    found = judge_fitness([], [(("a", "b"), CLOSE)], variables=("a", "b"), alone=(), margin=0.0)
    assert found.poor == ()


def test_without_pairs_even_pairs_are_too_much() -> None:
    found = judge_fitness([("a", CLOSE)], [], variables=("a", "b"), alone=("a", "b"), margin=0.0)
    assert "2 or more columns" in found.poor[-1]
