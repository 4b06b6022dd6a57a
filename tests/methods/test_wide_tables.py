"""Wide tables: nothing quadratic is built that is not needed, and what looks at all pairs is refused beforehand."""

from __future__ import annotations

import math
import random
import tracemalloc
from fractions import Fraction
from itertools import combinations

import pytest

from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Domain
from populace.inference.graph.propagation import _cheapest_order
from populace.methods.all_marginals import SmallTriples
from populace.methods.mst import MAX_PAIRS, MST, nearest_pairs
from populace.methods.registry import METHODS
from populace.methods.request_checks import check_method, check_noise_fits, check_query_rounds
from populace.methods.workload import MAX_TRIPLES, Workload, resolve_workload
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

WIDE = 2000
SPENT = {"epsilon": Fraction(1), "delta": Fraction("1e-9")}


def columns(count: int) -> dict[str, int]:
    return {f"q{number}": 4 for number in range(count)}


def listed_triples(names: list[str], domain: Domain, *, cells: int, most: int) -> list[tuple[str, ...]]:
    """Return what `SmallTriples` yields, from a list of all triples."""
    found = [triple for triple in combinations(names, 3) if domain.cells(triple) <= cells]
    kept = set(sorted(found, key=domain.cells)[:most])
    return [triple for triple in found if triple in kept]


@pytest.mark.slow
def test_a_workload_by_name_of_a_wide_table_is_no_list() -> None:
    schema = Schema.from_sizes(columns(WIDE))
    tracemalloc.start()
    try:
        wanted = resolve_workload(None)(schema)
        check_query_rounds(MST, wanted, domain=schema.domain)
        check_noise_fits(
            MST, wanted, domain=schema.domain, budget=Budget.of(*SPENT.values(), unit=PrivacyUnit())
        )
        assert (wanted.label, wanted.for_schema(schema)) == ("triples", wanted)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(wanted.weights) == math.comb(WIDE, 2) + MAX_TRIPLES
    assert peak < 2**20, "two million pairs take a thousand times as much"


def test_small_triples_are_those_of_a_list_of_all() -> None:
    rng = random.Random(1)
    for _ in range(150):
        names = [f"c{number}" for number in range(rng.randint(0, 9))]
        domain = Domain({name: rng.choice([1, 2, 2, 3, 4, 5, 7, 60, 10**12]) for name in names})
        limits = {"cells": rng.choice([0, 1, 5, 12, 60, 400, 2**16]), "most": rng.choice([1, 2, 5, 20, 1000])}
        found = SmallTriples(names, domain=domain, **limits)
        wanted = listed_triples(names, domain, **limits)
        assert (list(found), len(found)) == (wanted, len(wanted)), (domain, limits)


def test_workloads_by_name_and_by_list_are_equal() -> None:
    domain = Domain({"a": 2, "b": 30, "c": 4, "d": 50})
    for named in (Workload.pairs(domain), Workload.triples(domain, cells=400)):
        listed = Workload(weights=dict(named.weights), name=named.name)
        assert (listed, named, listed.digest) == (named, listed, named.digest)


def first_of_all(shapes: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return the order of products as a search through all pairs of tables finds it."""
    held, order = dict(enumerate(shapes)), []
    while len(held) > 1:
        pair = min(combinations(held, 2), key=lambda p: math.prod(map(max, held[p[0]], held[p[1]])))
        one, other = (held.pop(number) for number in pair)
        held[len(shapes) + len(order)] = tuple(map(max, one, other))
        order.append(pair)
    return order


def test_products_come_in_the_order_of_a_search_through_all_pairs() -> None:
    rng = random.Random(2)
    for _ in range(200):
        full = [rng.choice([2, 3, 4, 4]) for _ in range(rng.randint(1, 4))]
        shapes = [tuple(rng.choice([1, size]) for size in full) for _ in range(rng.randint(2, 10))]
        assert _cheapest_order(shapes) == first_of_all(shapes), shapes


def test_the_order_of_many_products_is_found_in_one_pass() -> None:
    order = _cheapest_order([(1,)] * WIDE + [(4,)])
    assert len(order) == WIDE
    assert order[-1][0] == WIDE, "the one table that is large comes last"


def test_all_pairs_are_candidates_as_long_as_they_are_few() -> None:
    names = list(columns(LIMITS.max_paired_columns))
    assert math.comb(LIMITS.max_paired_columns, 2) <= MAX_PAIRS < math.comb(LIMITS.max_paired_columns + 1, 2)
    assert list(nearest_pairs(names, most=MAX_PAIRS)) == list(combinations(names, 2))
    assert list(nearest_pairs(names[:1], most=MAX_PAIRS)) == []


def test_of_a_wide_table_the_nearest_pairs_are_candidates() -> None:
    place = {name: number for number, name in enumerate(columns(WIDE))}
    found = list(nearest_pairs(list(place), most=MAX_PAIRS))
    far = max(place[other] - place[name] for name, other in found)
    assert MAX_PAIRS - WIDE < len(set(found)) == len(found) <= MAX_PAIRS
    assert {name for pair in found for name in pair} == set(place)
    assert all(0 < place[other] - place[name] <= far for name, other in found)
    assert len(found) == sum(WIDE - distance for distance in range(1, far + 1)), "no nearer pair is left out"


@pytest.mark.parametrize("method", ["adaptive", "aim", "copula", "gem", "mwem", "pmw", "privbayes"])
def test_methods_that_look_at_all_pairs_have_a_limit(method: str) -> None:
    check_method(METHODS[method], Schema.from_sizes(columns(LIMITS.max_paired_columns)), **SPENT)
    with pytest.raises(
        UsageError,
        match=f"of {LIMITS.max_paired_columns + 1} columns; {LIMITS.max_paired_columns} is the most",
    ) as refused:
        check_method(METHODS[method], Schema.from_sizes(columns(LIMITS.max_paired_columns + 1)), **SPENT)
    assert "--method mst" in refused.value.hint


@pytest.mark.parametrize("method", ["independent", "mst", "stability"])
def test_other_methods_take_wide_tables(method: str) -> None:
    check_method(METHODS[method], Schema.from_sizes(columns(WIDE)), **SPENT)
