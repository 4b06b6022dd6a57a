"""Two linked files as one wide row per household: one household changes one row, whatever is in the files."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from populace.core.errors import DataError, ResourceError, UsageError
from populace.core.marginals import Marginal, tabulate
from populace.private.private_table import PrivateTable
from populace.private.read.household_source import HouseholdSource, open_tables
from populace.private.read.rows_to_codes import read_codes
from populace.private.read.value_counts import select_first_rows
from populace.schema.linked import linked_reader
from tests.helpers.linked_files import draw_neighbours, linked_schema, to_frames, wide_rows
from tests.helpers.planted_faults import seeded

pytestmark = pytest.mark.sampled(3)

MOST = 3


def check_one_row_moves(*, pairs: int, swap: bool = False) -> int:
    """Fail where one household changes more than one wide row; return in how many pairs it changed one."""
    rng = np.random.default_rng(3)
    changed = 0
    for number in range(pairs):
        schema = linked_schema(most=MOST, roles=bool(number % 2))
        one, other = (wide_rows(each, schema) for each in draw_neighbours(rng, most=MOST, swap=swap))
        gone, come = (one - other).total(), (other - one).total()
        assert gone <= (1 if swap else 0)
        assert come <= 1
        changed += come
    return changed


@pytest.mark.parametrize(("pairs", "least"), [(15, 5), pytest.param(150, 60, marks=pytest.mark.slow)])
def test_a_household_is_one_wide_row(pairs, least):
    assert check_one_row_moves(pairs=pairs) > least


@pytest.mark.parametrize(("pairs", "least"), [(15, 5), pytest.param(150, 60, marks=pytest.mark.slow)])
def test_a_household_replaced_is_one_row_for_another(pairs, least):
    assert check_one_row_moves(pairs=pairs, swap=True) > least


@pytest.mark.parametrize("tables", [12, pytest.param(80, marks=pytest.mark.slow)])
def test_a_wide_row_depends_on_the_rows_of_its_own_key_alone(tables):
    """Each household read alone gives the very row that it has among the others, in the order of its own rows."""
    rng = np.random.default_rng(4)
    schema = linked_schema(most=MOST)
    for _ in range(tables):
        homes, persons = draw_neighbours(rng, most=MOST)[1]
        keys = {(key or "").strip() for key, *_ in homes} - {""}
        apart = [
            wide_rows(
                ([row for row in homes if row[0] == key], [row for row in persons if row[0] == key]), schema
            )
            for key in keys
        ]
        assert all(each.total() == 1 for each in apart)
        assert sum(apart, Counter()) == wide_rows((homes, persons), schema)


def test_marginals_of_wide_rows_move_by_one_and_no_more():
    """Every household of up to three persons and two rows, beside every other: all marginals of up to three columns."""
    schema = linked_schema(most=2, roles=False)
    people = [("head", 40, "f", "yes"), ("child", 3, "m", "N")]
    homes = [
        ([(key, "owned")] * rows, [(key, *who) for who in persons])
        for key in ("a",)
        for rows in (0, 1, 2)
        for count in range(4)
        for persons in product(people, repeat=count)
    ]
    base = ([("b", "rented")], [("b", *people[0]), ("b", *people[1]), ("c", *people[0])])
    names = [n for n in schema.domain if n in ("tenure", "persons", "age.1", "age.2", "sex.1", "work.2")]
    marginals = [Marginal(clique) for size in (0, 1, 2, 3) for clique in combinations(names, size)]

    def counts(tables):
        codes = read_codes(open_tables(to_frames(tables), schema=schema), schema)
        return [tabulate(marginal, codes=codes, domain=schema.domain) for marginal in marginals]

    without, furthest = counts(base), 0
    for extra in homes:
        found = counts(tuple(rows + more for rows, more in zip(base, extra, strict=True)))
        moved = [int(np.abs(one - other).sum()) for one, other in zip(found, without, strict=True)]
        assert max(moved) <= schema.unit.marginal_l1 == 1
        furthest = max(furthest, *moved)
    assert furthest == 1


# A household's persons as several units: no key keeps its rows together, and each person brings a row of its own.
NO_KEY = (linked_reader._read_unit, "id=linked.unit_key", "id=None")
# A schema built otherwise would be refused.
UNCHECKED = (linked_reader.check_linked_unit, "if linked is None:", "if linked is None or linked:")
PERSON_ROWS = (
    HouseholdSource.batches,
    "parts = [cells[name].slice(start, BATCH_ROWS) for name in columns]",
    "often = np.repeat(np.arange(rows.shape[1]), (rows >= 0).sum(axis=0)); "
    "parts = [cells[name].take(pa.array(often)) for name in columns]",
)
FAULTS = {
    "rows of one key are several units": [NO_KEY, UNCHECKED],
    "every person is a row": [NO_KEY, UNCHECKED, PERSON_ROWS],
    "two rows of a key count": [(select_first_rows, "rank < rows", "rank < rows + 1")],
    "places are counted over all households": [
        (
            HouseholdSource._place_members,
            "- np.repeat(starts, np.diff(starts, append=len(ranked)))",
            "- len(starts)",
        )
    ],
    "only so many persons are read": [
        (
            HouseholdSource._place_members,
            "(place < linked.max_rows)",
            "(place < linked.max_rows) & (order < 7)",
        )
    ],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_planted_faults_are_seen(faults):
    with ExitStack() as planted:
        for fault in faults:
            planted.enter_context(seeded(*fault))
        with pytest.raises((AssertionError, ResourceError)):
            check_one_row_moves(pairs=150)


def test_order_roles_and_truncation():
    schema = linked_schema(most=3)
    persons = [
        ("1", "child", 3, "f", "N"),
        ("1", "child", 20, "m", "no"),
        ("1", "spouse", 40, "f", "no"),
        ("1", "head", 40, "m", "yes"),
        ("1", "child", 70, "m", "no"),
    ]
    codes = read_codes(open_tables(to_frames(([("1", "owned")], persons)), schema=schema), schema)
    assert [int(codes[f"relationship.{place}"][0]) for place in (1, 2, 3)] == [0, 1, 2]
    # Of the three children the oldest stays; that a child of 70 has a head of 40 breaks no declared rule.
    assert [int(codes[f"age.{place}"][0]) for place in (1, 2, 3)] == [2, 2, 3]
    assert int(codes["number"][0]) == 3


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_files_and_frames_give_the_same_rows(kind, tmp_path):
    schema = linked_schema(most=MOST)
    rng = np.random.default_rng(8)
    for number in range(5):
        tables = draw_neighbours(rng, most=MOST)[1]
        frames = to_frames(tables)
        data = {name: tmp_path / f"{name}-{number}.{kind}" for name in frames}
        if kind == "frame":
            data = {name: frame.to_pandas() for name, frame in frames.items()}
        else:
            write = pacsv.write_csv if kind == "csv" else pq.write_table
            for name, frame in frames.items():
                write(frame, data[name])
        codes = read_codes(open_tables(data, schema=schema), schema)
        rows = zip(*(codes[name].tolist() for name in schema.domain), strict=True)
        assert sorted(rows) == sorted(wide_rows(tables, schema).elements())


def test_keys_of_other_types_name_the_same_household():
    schema = linked_schema(most=MOST)
    frames = to_frames(
        ([("1", "owned"), ("2", "owned")], [("1", "head", 40, "f", "yes"), ("2", "head", 20, "m", "no")])
    )
    cast = {
        name: frame.set_column(0, frame.column_names[0], frame.column(0).cast(pa.int64()))
        for name, frame in frames.items()
    }
    mixed = {"household": frames["household"], "person": cast["person"]}
    for data in (frames, cast, mixed):
        assert read_codes(open_tables(data, schema=schema), schema)["number"].tolist() == [1, 1]


def test_headers_are_refused_before_rows_are_read():
    schema, frames = linked_schema(), to_frames(([], []))
    for data, said in (
        (frames["person"], "one table is given"),
        ({"person": frames["person"]}, "are given"),
        ({**frames, "child": frames["person"]}, "are given"),
    ):
        with pytest.raises(UsageError, match=said):
            PrivateTable.of(data, schema=schema)
    with pytest.raises(DataError, match="'person' has no column 'age'"):
        PrivateTable.of({**frames, "person": frames["person"].drop_columns(["age"])}, schema=schema)
    with pytest.raises(DataError, match="'household' has no column"):
        PrivateTable.of({"household": frames["person"], "person": frames["household"]}, schema=schema)
    lists = frames["person"].drop_columns(["sex"]).append_column("sex", pa.array([], pa.list_(pa.string())))
    with pytest.raises(DataError, match="no codes"):
        PrivateTable.of({**frames, "person": lists}, schema=schema)


def test_semicolons_in_one_file_alone_are_refused(tmp_path):
    frames = to_frames(([], []))
    one, other = tmp_path / "h.csv", tmp_path / "p.csv"
    one.write_text("home;tenure\n")
    pacsv.write_csv(frames["person"], other)
    with pytest.raises(DataError, match="semicolons"):
        open_tables({"household": one, "person": other}, schema=linked_schema())


def test_tables_without_rows_are_tables():
    assert wide_rows(([], []), linked_schema()).total() == 0
    assert wide_rows(([("1", "owned")], []), linked_schema(roles=False)).total() == 1
