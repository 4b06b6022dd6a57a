import math

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.inference.graph.junction_tree import junction_tree, maximal_tables, table_cells
from tests.helpers.least_squares import random_clique, random_domain
from tests.helpers.sampled_cases import sample_cases


@pytest.mark.parametrize("seed", sample_cases(range(200), to=40))
def test_running_intersection_on_random_cliques(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=int(rng.integers(1, 9)), largest=6)
    cliques = [random_clique(rng, domain, most=4) for _ in range(rng.integers(0, 12))]
    tree = junction_tree(cliques, domain=domain)
    assert set().union(*tree.nodes) == set(domain)
    assert all(tree.holding(clique, domain=domain) for clique in cliques)
    assert not any(set(a) < set(b) for a in tree.nodes for b in tree.nodes)
    assert tree.parents[0] == -1
    for i in range(1, len(tree.nodes)):
        parent, separator, node = tree.parents[i], tree.separators[i], tree.nodes[i]
        assert 0 <= parent < i
        assert node[: len(separator)] == separator
        assert set(separator) == set(node) & set(tree.nodes[parent])
        # Whatever a node shares with any earlier node lies in its separator: the running intersection.
        earlier = set().union(*tree.nodes[:i])
        assert set(node) & earlier == set(separator)


@pytest.mark.parametrize("seed", range(20))
def test_order_of_cliques_and_columns_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng, columns=8, largest=6)
    cliques = [random_clique(rng, domain) for _ in range(8)]
    shuffled = [tuple(rng.permutation(cliques[i])) for i in rng.permutation(len(cliques))]
    assert junction_tree(cliques, domain=domain) == junction_tree(shuffled, domain=domain)


def test_a_tree_of_pairs_gains_no_edge():
    # Eliminating the small hub first would join its neighbours into one node.
    domain = Domain({"a": 50, "hub": 2, "b": 50, "c": 50})
    pairs = [("a", "hub"), ("hub", "b"), ("hub", "c")]
    assert {frozenset(node) for node in junction_tree(pairs, domain=domain).nodes} == {
        frozenset(p) for p in pairs
    }


def test_a_cycle_is_cut_where_it_is_cheapest():
    domain = Domain({"a": 10, "b": 2, "c": 10, "d": 9})
    tree = junction_tree([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")], domain=domain)
    assert {frozenset(node) for node in tree.nodes} == {frozenset("abd"), frozenset("bcd")}


def test_cells_can_be_priced_without_building_the_tree():
    domain = Domain({"a": 3, "b": 4, "c": 5})
    sizes = domain.shape(domain)
    tables = maximal_tables([0b011, 0b110], sizes=sizes)
    assert (
        table_cells(tables, sizes=sizes)
        == 12 + 20
        == junction_tree([("a", "b"), ("b", "c")], domain=domain).cells(domain)
    )
    assert math.prod(sizes) == table_cells(maximal_tables([0b011, 0b110, 0b101], sizes=sizes), sizes=sizes)


def test_columns_in_no_clique_stand_alone():
    tree = junction_tree([], domain=Domain({"a": 2, "b": 3}))
    assert set(tree.nodes) == {("a",), ("b",)}
    assert tree.separators == ((), ())


def test_a_domain_without_columns_has_an_empty_tree():
    assert junction_tree([], domain=Domain({})).nodes == ()
