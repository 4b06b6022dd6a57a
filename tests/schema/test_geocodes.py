"""The units of a geography: how they are read, how rows find theirs, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from populace.core import limits
from populace.core.errors import PopulaceError, SchemaError
from populace.schema.codec.encoder import Encoder
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn
from populace.schema.geocodes import GEOCODE, Geography, read_units
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable

LEVELS = ("county", "tract", "block")
PATHS = [("A", "1", "x"), ("A", "1", "y"), ("A", "2", "x"), ("B", "1", "x"), ("B", "1", "z"), ("C", "9", "")]


def write_csv(path: Path, rows: list[tuple[str, ...]], *, header: tuple[str, ...] = LEVELS) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def schema_with(units: list[tuple[str, ...]], *, levels: tuple[str, ...] = LEVELS) -> Schema:
    listed = ", ".join(f'"{"|".join(path)}"' for path in units)
    names = ", ".join(f'"{level}"' for level in levels)
    return Schema.parse(
        f"[geography]\nlevels = [{names}]\nunits = [{listed}]\n"
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\nother = "f"\n'
    )


def encode(schema: Schema, rows: list[tuple[object, ...]]) -> list[int]:
    """Return the smallest unit of each row, read as the file's cells are."""
    geography = schema.geography
    assert geography is not None
    cells = {level: pa.array([row[k] for row in rows]) for k, level in enumerate(geography.levels)}
    return TableCodec(schema).encode({**cells, "sex": pa.array(["f"] * len(rows))})[GEOCODE].tolist()


def test_csv_parquet_and_a_list_give_the_same_geography_in_any_order(tmp_path: Path) -> None:
    listed = Geography.of_paths(PATHS, levels=LEVELS)
    shuffled = [PATHS[k] for k in (5, 2, 0, 4, 1, 3)]
    from_csv = read_units(write_csv(tmp_path / "spine.csv", shuffled), levels=LEVELS)
    columns = {level: [path[k] or None for path in shuffled] for k, level in enumerate(LEVELS)}
    pq.write_table(pa.table({"area": [1.5] * 6, **columns}), tmp_path / "spine.parquet")
    from_parquet = read_units(tmp_path / "spine.parquet", levels=LEVELS)
    assert from_csv.digest == from_parquet.digest == listed.digest
    assert from_csv.paths() == from_parquet.paths() == sorted(PATHS)
    assert [listed.spine.units(level) for level in range(4)] == [1, 3, 4, 6]


def test_a_csv_keeps_leading_zeros_and_words_that_look_like_nothing(tmp_path: Path) -> None:
    rows = [("001", "0100", "NA"), ("001", "0100", "null"), ("1", "0100", " 7 ")]
    found = read_units(write_csv(tmp_path / "spine.csv", rows), levels=LEVELS)
    assert found.paths() == [("001", "0100", "NA"), ("001", "0100", "null"), ("1", "0100", "7")]


def test_numbers_of_a_parquet_file_are_ids_as_they_are_written(tmp_path: Path) -> None:
    pq.write_table(pa.table({"county": [2, 1], "tract": [10, 10]}), tmp_path / "spine.pq")
    found = read_units(tmp_path / "spine.pq", levels=("county", "tract"))
    assert found.paths() == [("1", "10"), ("2", "10")]


def test_ids_may_repeat_below_different_parents() -> None:
    geography = Geography.of_paths(PATHS, levels=LEVELS)
    assert geography.ids[1] == ("1", "2", "1", "9")
    assert geography.columns["tract"].values == ("1", "2", "9")
    schema = schema_with(PATHS)
    assert encode(schema, list(PATHS)) == [0, 1, 2, 3, 4, 5]
    assert schema.domain[GEOCODE] == 6
    assert list(schema.domain) == [GEOCODE, "sex"]


@pytest.mark.parametrize(
    ("row", "unit"),
    [
        (("A", "2", "y"), 2),  # the block is of another tract: the first of this tract
        (("A", "9", "x"), 0),  # the tract is of another county: the first of this county
        (("B", "2", "x"), 3),
        (("B", "1", "q"), 3),
        (("B", None, None), 3),
        (("C", "9", None), 5),  # an empty id is an id
        (("C", "9", "  "), 5),
        (("Q", "1", "x"), 0),
        ((None, None, None), 0),
        ((" B ", "1 ", " z"), 4),
        (("b", "1", "z"), 0),
    ],
)
def test_a_row_off_the_spine_stays_in_every_unit_that_it_names_rightly(
    row: tuple[object, ...], unit: int
) -> None:
    assert encode(schema_with(PATHS), [row]) == [unit]


def test_where_a_row_goes_depends_on_its_own_ids_alone() -> None:
    schema = schema_with(PATHS)
    rows: list[tuple[object, ...]] = [("A", "2", "x"), ("Q", "7", "x"), ("B", "1", "q"), ("C", "9", "")]
    together = encode(schema, rows)
    assert together == [encode(schema, [row])[0] for row in rows]
    assert encode(schema, rows[::-1]) == together[::-1]


def test_ids_in_a_list_lose_the_blanks_around_them_as_cells_do() -> None:
    schema = schema_with([("A", "1"), (" B ", "1 ")], levels=("county", "tract"))
    assert encode(schema, [("B", "1"), (" B ", "1")]) == [1, 1]


def test_numbers_in_cells_are_read_as_their_text() -> None:
    schema = schema_with([("1", "10"), ("2", "20")], levels=("county", "tract"))
    assert encode(schema, [(1, 10), (2, 20), (2, 10)]) == [0, 1, 1]


paths = st.lists(
    st.tuples(*[st.sampled_from(["", "1", "2", "01", "a"])] * 3), min_size=1, max_size=12, unique=True
)


@settings(max_examples=60, deadline=None)
@given(paths, st.data())
def test_encoding_and_decoding_are_inverse_and_spines_fit(
    units: list[tuple[str, ...]], data: st.DataObject
) -> None:
    geography = Geography.of_paths(units, levels=LEVELS)
    assert geography.paths() == sorted(units)
    every = np.arange(len(units))
    codes = geography.decode(every)
    assert (geography.encode(codes) == every).all()
    for number, level in enumerate(LEVELS):
        values = geography.columns[level].values
        assert [values[code] for code in codes[level]] == [path[number] for path in geography.paths()]
    # Any codes at all, those of "other" included, go to a unit below the last that they name rightly.
    drawn = {
        level: np.array([data.draw(st.integers(0, geography.columns[level].size - 1))]) for level in LEVELS
    }
    (unit,) = geography.encode(drawn)
    texts = [
        values[code]
        if (code := int(drawn[level][0])) < len(values := geography.columns[level].values)
        else None
        for level in LEVELS
    ]
    known = [path for path in geography.paths() if list(path[:1]) == texts[:1]]
    for depth in (2, 3):
        known = [path for path in known if list(path[:depth]) == texts[:depth]] or known
    assert geography.paths()[unit] == (known or geography.paths())[0]


@settings(max_examples=40, deadline=None)
@given(paths)
def test_a_schema_comes_back_from_toml_with_its_units(units: list[tuple[str, ...]]) -> None:
    schema = schema_with(units)
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.geography is not None
    assert schema.geography is not None
    assert again.geography.digest == schema.geography.digest
    assert again.to_toml() == schema.to_toml()


def test_the_digest_tells_units_levels_and_paths_apart() -> None:
    schemas = [
        schema_with(PATHS),
        schema_with(PATHS[:-1]),
        schema_with(PATHS, levels=("state", "tract", "block")),
        schema_with([("A", "1"), ("A", "2")], levels=("county", "tract")),
        schema_with([("A1", ""), ("A", "2")], levels=("county", "tract")),
    ]
    assert len({schema.digest for schema in schemas}) == len(schemas)
    assert schema_with(PATHS[::-1]).digest == schemas[0].digest


def test_a_condition_may_name_a_level() -> None:
    schema = schema_with(PATHS)
    county = schema.layout.view("county")
    assert county.variables == (GEOCODE,)
    assert county.codes.tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([], LEVELS, "has no units"),
        ([PATHS[0], PATHS[0]], LEVELS, "lists a unit twice"),
        ([("A", "1", "x"), ("A ", "1", "x")], LEVELS, "lists a unit twice"),
        ([("A|1", "1", "x")], LEVELS, "holds '|'"),
        (PATHS, ("county", "tract", "blok"), "has no column 'block'"),
        (PATHS, ("county", "tract", "tract"), "has no column 'block'"),
        ([("A", "1", "x", "x")], (*LEVELS, LEVELS[-1]), "cannot be read"),
    ],
)
def test_files_that_are_no_spine_are_refused(
    tmp_path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SchemaError, match=said.replace("|", r"\|")) as refused:
        read_units(write_csv(tmp_path / "spine.csv", rows, header=header), levels=LEVELS)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["spine.csv", "spine.parquet"])
@pytest.mark.parametrize("held", [b"", b"\x00\xff\xfe", b"PAR1PAR1", None])
def test_files_that_are_no_table_are_refused(tmp_path: Path, name: str, held: bytes | None) -> None:
    if held is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(held)
    with pytest.raises(SchemaError, match="cannot be read") as refused:
        read_units(tmp_path / name, levels=LEVELS)
    assert refused.value.hint


def test_a_missing_file_is_named_and_looked_for_beside_the_schema(tmp_path: Path) -> None:
    text = (
        '[geography]\nlevels = ["county", "tract", "block"]\nunits = "spine.csv"\n'
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\n'
    )
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match="there is no file") as refused:
        Schema.load(tmp_path / "schema.toml")
    assert "schema's folder" in refused.value.hint
    write_csv(tmp_path / "spine.csv", PATHS)
    assert Schema.load(tmp_path / "schema.toml").geography.spine.leaves == 6


@pytest.mark.parametrize("levels", [(), ("county", "county"), ("all", "tract"), ("county", "geocode")])
def test_levels_are_named_once_and_not_as_the_root(levels: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError, match="has the levels") as refused:
        Geography.of_paths([("A",) * len(levels)], levels=levels)
    assert "widest first" in refused.value.hint


def test_a_unit_needs_an_id_for_each_level() -> None:
    with pytest.raises(SchemaError, match="does not have an id for each"):
        Geography.of_paths([("A", "1"), ("B",)], levels=("county", "tract"))


def test_more_units_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("populace.schema.geocodes.LIMITS", limits.Limits(max_units=5))
    with pytest.raises(SchemaError, match="has 6 units; 5 is the most") as refused:
        Geography.of_paths(PATHS, levels=LEVELS)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('levels = ["county"]', "has no units"),
        ('levels = ["county"]\nunits = 3', "has no units"),
        ('units = ["A"]', "has the levels none"),
        ('levels = ["county"]\nunits = ["A"]\nspine = "x"', "spine"),
        ('levels = ["county", "tract"]\nunits = ["A|1", "B"]', "does not have an id"),
    ],
)
def test_what_a_geography_lacks_is_said(lines: str, said: str) -> None:
    with pytest.raises(PopulaceError, match=said) as refused:
        Schema.parse(f'[geography]\n{lines}\n[columns.sex]\nkind = "categorical"\nvalues = ["f"]\n')
    assert refused.value.hint


def test_a_level_is_found_by_its_name_with_a_hint_for_others() -> None:
    geography = Geography.of_paths(PATHS, levels=LEVELS)
    assert [geography.find_level(name, place="here") for name in ("all", *LEVELS)] == [0, 1, 2, 3]
    with pytest.raises(SchemaError, match="here: the geography has no level 'tarct'") as refused:
        geography.find_level("tarct", place="here")
    assert "tract" in refused.value.hint


def test_groupings_lead_from_smallest_units_to_each_level() -> None:
    geography = Geography.of_paths(PATHS, levels=LEVELS)
    assert geography.grouping(3) is None
    county = geography.grouping(1)
    assert county is not None
    assert (county.column, county.groups, county.level) == (GEOCODE, (0, 0, 0, 1, 1, 2), "county")
    assert geography.unit_ids(1, of_level=2) == ["A", "A", "B", "C"]


def test_an_empty_document_has_no_geography() -> None:
    from populace.schema.geocodes import read_geography

    assert read_geography(TomlTable("the schema", {}), folder=None) is None


def test_unit_ids_are_read_cell_by_cell() -> None:
    """What the other cells of a batch are must not change the code of one."""
    encode = Encoder(CategoricalColumn(name="c", values=("12", "13"), other="13"), names_units=True)
    cells = ["12.00", "strange", "12", None, "12.5"]
    whole = encode(pa.array(cells)).tolist()
    assert whole == [int(encode(pa.array([cell], pa.string()))[0]) for cell in cells]
