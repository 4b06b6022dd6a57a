"""Measurements of a run are sorted by level and query, whatever their order; estimates and tables follow from them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from populace.core.errors import PopulaceError, ReleaseError
from populace.core.marginals import Grouping, Marginal, tabulate
from populace.inference.hierarchy.measured_hierarchy import (
    MeasuredHierarchy,
    cell_domain,
    possible_cells,
    possible_member_cells,
    require_geography,
)
from populace.measurements.measurements import Measurement
from populace.schema.linked.table_cells import MemberCells
from populace.schema.schema import Schema

SCHEMA = """
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1", "B|2", "B|3"]
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
[columns.age]
kind = "integer"
min = 0
max = 3
other = "0"
"""
ZEROS = "[[zeros]]\nwhen = \"sex == 'm' and age >= 2\"\nelse = { sex = 'f' }\n"
CLIQUES = ((), ("sex",), ("sex", "age"))


def truth_of(schema: Schema, *, seed: int = 1) -> list[np.ndarray]:
    """True counts of every level, (units, sex, age)."""
    geography = require_geography(schema)
    counts = np.random.default_rng(seed).poisson(6, (geography.spine.leaves, 2, 4))
    possible = possible_cells(schema)
    found = [counts if possible is None else counts * possible]
    for level in range(geography.spine.depth - 1, 0, -1):
        found.insert(0, np.asarray(geography.spine.sum_children(found[0], level=level)))
    return found


def measured(
    schema: Schema, *, variance: int = 4, seed: int = 2, exact: tuple[int, ...] = ()
) -> list[Measurement]:
    geography, rng = require_geography(schema), np.random.default_rng(seed)
    items = []
    for level, truth in enumerate(truth_of(schema)):
        if level in exact:
            totals = truth.sum(axis=(1, 2))
            items.append(Measurement(geography.marginal(level), totals if level else totals[0], Fraction(0)))
        for clique in CLIQUES:
            lost = tuple(1 + place for place, name in enumerate(("sex", "age")) if name not in clique)
            counts = truth.sum(axis=lost) + np.rint(rng.normal(0, variance**0.5, truth.sum(axis=lost).shape))
            counts = counts.astype(np.int64)
            marginal = geography.marginal(level, clique)
            items.append(Measurement(marginal, counts if level else counts[0], Fraction(variance + level)))
    return items


def test_every_measurement_finds_its_level_in_any_order() -> None:
    schema = Schema.parse(SCHEMA)
    items = measured(schema)
    one = MeasuredHierarchy.of(schema, items)
    assert [[query.marginal.clique for query in level.queries] for level in one.plan.levels] == [
        list(CLIQUES)
    ] * 3
    assert [float(level.queries[0].variance) for level in one.plan.levels] == [4, 5, 6]
    assert [[counts.shape for counts in level] for level in one.noisy] == [
        [(units,), (units, 2), (units, 2, 4)] for units in (1, 2, 5)
    ]
    other = MeasuredHierarchy.of(schema, items[::-1])
    for mine, theirs in zip(one.estimates.cells, other.estimates.cells, strict=True):
        assert np.allclose(mine, theirs, atol=1e-9)
    for mine, theirs in zip(one.tables, other.tables, strict=True):
        assert mine.tolist() == theirs.tolist()


def test_a_query_that_was_made_twice_counts_twice() -> None:
    schema = Schema.parse(SCHEMA)
    once = MeasuredHierarchy.of(schema, measured(schema))
    twice = MeasuredHierarchy.of(schema, [*measured(schema), *measured(schema, seed=3)])
    assert all(
        (twice.estimates.variance((), level=level) < once.estimates.variance((), level=level)).all()
        for level in range(3)
    )


@pytest.mark.parametrize("text", [SCHEMA, SCHEMA + ZEROS])
@pytest.mark.parametrize("exact", [(), (0,), (1,), (0, 2)])
def test_tables_are_whole_add_up_and_keep_totals_and_zeros(text: str, exact: tuple[int, ...]) -> None:
    schema = Schema.parse(text)
    found = MeasuredHierarchy.of(schema, measured(schema, exact=exact))
    truth, spine, possible = truth_of(schema), found.geography.spine, possible_cells(schema)
    assert found.plan.exact_levels == exact
    for level, table in enumerate(found.tables):
        assert table.dtype == np.int64
        assert table.min() >= 0
        if level:
            assert (spine.sum_children(table, level=level) == found.tables[level - 1]).all()
            assert np.allclose(
                spine.sum_children(found.estimates.cells[level], level=level),
                found.estimates.cells[level - 1],
            )
        if level in exact:
            assert (table.sum(axis=(1, 2)) == truth[level].sum(axis=(1, 2))).all()
            assert np.allclose(found.estimates.marginal((), level=level), truth[level].sum(axis=(1, 2)))
            assert np.allclose(found.estimates.variance((), level=level), 0)
        if possible is not None:
            assert (table[:, ~possible] == 0).all()
            assert (found.estimates.cells[level][:, ~possible] == 0).all()


def test_noise_so_large_that_all_is_hidden_still_gives_tables() -> None:
    schema = Schema.parse(SCHEMA + ZEROS)
    found = MeasuredHierarchy.of(schema, measured(schema, variance=10**8, exact=(1,)))
    assert (found.tables[1].sum(axis=(1, 2)) == truth_of(schema)[1].sum(axis=(1, 2))).all()


def test_the_zeros_of_a_schema_are_the_impossible_cells() -> None:
    assert possible_cells(Schema.parse(SCHEMA)) is None
    possible = possible_cells(Schema.parse(SCHEMA + ZEROS))
    assert possible is not None
    assert possible.tolist() == [[True] * 4, [True, True, False, False]]
    assert dict(cell_domain(Schema.parse(SCHEMA))) == {"sex": 2, "age": 4}


def test_measurements_of_no_level_are_refused() -> None:
    schema = Schema.parse(SCHEMA)
    stray = Measurement(
        Marginal(("geocode",), (Grouping("geocode", (0, 1, 0, 1, 0)),)), np.array([3, 4]), Fraction(1)
    )
    with pytest.raises(ReleaseError, match="of no level") as refused:
        MeasuredHierarchy.of(schema, [*measured(schema), stray])
    assert refused.value.hint


def test_measurements_without_the_cells_of_smallest_units_are_refused() -> None:
    schema = Schema.parse(SCHEMA)
    with pytest.raises(PopulaceError, match="does not measure all columns"):
        MeasuredHierarchy.of(schema, measured(schema)[:-1])


def test_a_schema_without_a_geography_is_refused() -> None:
    plain = Schema.parse(SCHEMA[SCHEMA.index("[columns.sex]") :])
    with pytest.raises(ReleaseError, match="no geography"):
        MeasuredHierarchy.of(plain, [])


HOMES = """
[geography]
levels = ["county"]
units = ["A", "B"]
[tables.household]
key = "home"
[tables.household.columns.children]
kind = "integer"
min = 0
max = 2
other = "0"
[tables.person]
of = "household"
key = "home"
max_rows = 2
size = "number"
householder = "role == 'head'"
[tables.person.columns.role]
kind = "categorical"
values = ["head", "child"]
other = "child"
[tables.person.columns.age]
kind = "integer"
min = 0
max = 2
other = "0"
[[zeros]]
when = "role == 'head' and age == 0"
[[zeros]]
when = "children >= number"
[[zeros]]
when = "children > 0 and number == 2 and `age.2` == 2"
"""


def list_rows(schema: Schema) -> list[dict[str, int]]:
    """Every wide row that keeps all rules, by trying all of them."""
    found = []
    for codes in product(*(range(size) for size in schema.domain.values())):
        row, classes = dict(zip(schema.domain, codes, strict=True)), schema.rules.classes
        if all(
            rule.allowed[tuple(classes[name].lookup[row[name]] for name in rule.clique)]
            for rule in schema.rules.rules
        ):
            found.append(row)
    return found


def test_possible_cells_of_linked_tables_are_those_of_some_whole_row() -> None:
    schema = Schema.parse(HOMES)
    cells, rows = MemberCells.of(schema), list_rows(schema)
    households = np.zeros(cell_domain(schema).shape(cell_domain(schema)), dtype=np.bool_)
    for row in rows:
        households[row["children"], row["number"]] = True
    found = possible_cells(schema)
    assert found is not None
    assert np.array_equal(found, households)
    # Two children need three persons, which nobody has here: no single rule says so of households alone.
    assert not found[2].any()
    codes = {name: np.array([row[name] for row in rows]) for name in schema.domain}
    persons = cells.tabulate(codes, units=np.zeros(len(rows), np.int64), count=1)[0] > 0
    assert np.array_equal(possible_member_cells(schema), persons)


def test_members_are_the_sum_over_places_with_the_noise_of_all() -> None:
    schema = Schema.parse(HOMES)
    geography, cells, rng = require_geography(schema), MemberCells.of(schema), np.random.default_rng(0)
    rows = list_rows(schema)
    drawn = [rows[place] for place in rng.integers(0, len(rows), 200)]
    codes = {name: np.array([row[name] for row in drawn]) for name in schema.domain}
    items = []
    for level, clique in product((0, 1), ((), ("age",), ("role", "age"))):
        for place, variance in ((1, 4), (2, 9)):
            wide = cells.ask(clique, place=place)
            plain = geography.marginal(level, wide.clique)
            asked = Marginal(plain.clique, (*plain.groupings, *wide.groupings))
            items.append(
                Measurement(asked, tabulate(asked, codes=codes, domain=schema.domain), Fraction(variance))
            )
    # Those of households, and pairs across, are none of theirs.
    for clique in (("children", "number"), ("children", "age.1")):
        counts = tabulate(Marginal(clique), codes=codes, domain=schema.domain)
        items.append(Measurement(Marginal(clique), counts, Fraction(1)))
    found = MeasuredHierarchy.of_members(schema, [items[place] for place in rng.permutation(len(items))])
    truth = cells.tabulate(codes, units=codes["geocode"], count=2)
    for level, whole in enumerate((truth.sum(axis=0, keepdims=True), truth)):
        queries = found.plan.levels[level].queries
        assert {query.marginal.clique for query in queries} == {(), ("age",), ("role", "age")}
        for query, counts in zip(queries, found.noisy[level], strict=True):
            assert query.variance == 13
            lost = {(): (1, 2), ("age",): (1,), ("role", "age"): ()}[query.marginal.clique]
            assert np.array_equal(counts, whole.sum(axis=lost))
        assert np.allclose(found.estimates.cells[level], whole, atol=1e-8)
