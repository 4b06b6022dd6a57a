"""The cells of members are those of their own file, counted place by place in wide rows."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import UsageError
from populace.core.marginals import Marginal, tabulate
from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import read_codes
from populace.schema.codec.table_codec import TableCodec
from populace.schema.linked.table_cells import MemberCells, unit_domain, without_geography
from populace.schema.schema import Schema
from tests.helpers.linked_files import draw_neighbours, place_frames, placed_schema

MOST = 3


def draw_codes(seed: int, schema: Schema) -> dict[str, np.ndarray]:
    """Codes of wide rows of random files."""
    rng = np.random.default_rng(seed)
    tables = draw_neighbours(rng, most=MOST, swap=True)[0]
    tracts = {f"h{n}": [("A", "1"), ("A", "2"), ("B", "1")][rng.integers(3)] for n in range(6)}
    return read_codes(open_tables(place_frames(tables, tracts=tracts), schema=schema), schema)


def count_by_hand(codes: dict[str, np.ndarray], schema: Schema, cells: MemberCells) -> np.ndarray:
    """Persons of every tract, told from wide rows in their own texts: those of columns at places with somebody."""
    assert schema.linked is not None
    table = TableCodec(schema).decode(codes, rng=np.random.default_rng(0)).to_pylist()
    own = Schema(columns=dict(schema.linked.columns))
    found = np.zeros((3, *own.domain.shape(own.domain)), dtype=np.int64)
    for row, unit in zip(table, codes["geocode"].tolist(), strict=True):
        for place in range(1, int(row["number"]) + 1):
            person = {name: [row[f"{name}.{place}"]] for name in schema.linked.columns}
            coded = TableCodec(own).encode_cells({name: pa.array(x) for name, x in person.items()})
            found[(unit, *(int(coded[name][0]) for name in cells.domain))] += 1
    return found


def test_members_are_those_of_their_own_file() -> None:
    schema = placed_schema(most=MOST)
    cells = MemberCells.of(schema)
    # The universe's own code is that of nobody too; the other columns have one more in wide rows.
    assert set(cells.absent) == {"relationship", "age", "sex"}
    assert cells.telling == "relationship"
    for seed in range(20):
        codes = draw_codes(seed, schema)
        found = cells.tabulate(codes, units=codes["geocode"], count=3)
        assert np.array_equal(found, count_by_hand(codes, schema, cells))


def test_the_sum_over_places_is_the_table_of_members() -> None:
    schema = placed_schema(most=MOST)
    cells = MemberCells.of(schema)
    names = tuple(cells.domain)
    every = chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))
    codes = draw_codes(3, schema)
    whole = cells.tabulate(codes, units=np.zeros(len(codes["geocode"]), np.int64), count=1)
    assert whole.sum() > 5
    for clique in every:
        found = 0
        for place in range(1, MOST + 1):
            asked = cells.ask(clique, place=place)
            own = cells.find(asked)
            assert own is not None
            assert own[0] == place
            assert own[1].clique == clique
            counts = tabulate(asked, codes=codes, domain=schema.domain)[np.newaxis]
            found = found + cells.select(counts, asked, place=place)
        lost = tuple(1 + names.index(name) for name in names if name not in clique)
        assert np.array_equal(found, whole.sum(axis=lost))


def test_other_marginals_are_of_no_place() -> None:
    cells = MemberCells.of(placed_schema(most=MOST))
    for clique in (("tenure",), (), ("relationship.1", "relationship.2"), ("tenure", "age.1"), ("age.1",)):
        assert cells.find(Marginal(clique)) is None


def test_units_have_their_own_columns_and_the_number_of_members() -> None:
    schema = placed_schema(most=MOST)
    assert dict(unit_domain(schema)) == {"tenure": 2, "number": MOST + 1}
    inner = without_geography(schema)
    assert "geocode" not in inner.domain
    assert [*inner.columns] == [*schema.columns][2:]


def test_a_table_in_which_nobody_is_told_from_somebody_is_refused() -> None:
    text = placed_schema(most=2).to_toml()
    own = text.index("[tables.person.columns.relationship]")
    only = text[:own].replace('order = ["age desc", "sex"]', "").split("householder")[0]
    only += (
        '[tables.person.columns.work]\nkind = "categorical"\nvalues = ["yes"]\nother = "yes"\n'
        'universe = "tenure == \'owned\'"\noutside = "N"\n'
    )
    with pytest.raises(UsageError, match="all have a universe"):
        MemberCells.of(Schema.parse(only))
