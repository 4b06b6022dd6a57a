"""Prices of cliques that may join a model, against the junction trees that hold them."""

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.inference.graph.clique_cost import CliqueCost
from populace.inference.graph.junction_tree import junction_tree
from tests.helpers.least_squares import random_clique, random_domain
from tests.helpers.sampled_cases import sample_cases


def problem(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=8, largest=7)
    cliques = [random_clique(rng, domain, most=2) for _ in range(int(rng.integers(1, 11)))]
    return rng, domain, cliques, CliqueCost(cliques, domain=domain)


@pytest.mark.parametrize("seed", sample_cases(range(30), to=10))
def test_cells_are_those_of_the_tree_that_holds_the_clique(seed):
    rng, domain, cliques, additions = problem(seed)
    for _ in range(10):
        clique = random_clique(rng, domain, most=3)
        assert additions.cells(clique) == junction_tree([*cliques, clique], domain=domain).cells(domain)


@pytest.mark.parametrize("seed", sample_cases(range(30), to=10))
def test_what_fits_is_next_to_what_it_says(seed):
    """The quick bound is of a tree that exists; eliminating columns greedily may end a little above it."""
    rng, domain, _, additions = problem(seed)
    for _ in range(10):
        clique = random_clique(rng, domain, most=3)
        exact = additions.cells(clique)
        assert additions.fits(clique, max_cells=exact)
        assert not additions.fits(clique, max_cells=int(exact / 1.4))


@pytest.mark.parametrize("seed", sample_cases(range(30), to=10))
def test_what_was_too_large_stays_so_until_there_is_room(seed):
    """Prices of fewer cliques are kept: they spare work, and say nothing that those of all cliques do not."""
    rng, domain, cliques, few = problem(seed)
    asked = [random_clique(rng, domain, most=3) for _ in range(10)]
    before = {clique: few.cells(clique) for clique in asked}
    more = [*cliques, random_clique(rng, domain, most=3)]
    fresh, later = CliqueCost(more, domain=domain), CliqueCost(more, domain=domain, earlier=few)
    for clique in asked:
        needed = fresh.cells(clique)
        assert needed >= 0.7 * before[clique], "greedy trees are not monotone, but nearly"
        assert not later.fits(clique, max_cells=int(min(needed, before[clique]) / 1.4))
        assert later.fits(clique, max_cells=max(needed, before[clique]))
        assert later.cells(clique) == needed


def test_ways_are_widened_by_the_smaller_end():
    """The chain a – b – c – d: joining a and d costs a in two nodes or d in two."""
    domain = Domain({"a": 2, "b": 3, "c": 5, "d": 7})
    additions = CliqueCost([("a", "b"), ("b", "c"), ("c", "d")], domain=domain)
    assert additions.added_cells(("a", "d")) == min(
        3 * 5 * (2 - 1) + 5 * 7 * (2 - 1), 3 * 5 * (7 - 1) + 2 * 3 * (7 - 1)
    )
    assert additions.added_cells(("a", "b")) == 0
    apart = CliqueCost([("a", "b"), ("c", "d")], domain=domain)
    assert apart.added_cells(("a", "c")) == 0
    assert apart.fits(("a", "c"), max_cells=6 + 35 + 10)
    assert not apart.fits(("a", "c"), max_cells=6 + 35 + 9)
